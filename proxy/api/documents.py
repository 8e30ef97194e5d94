"""`POST` and `DELETE /v1/documents`, `GET /v1/jobs/{id}`: whole documents in, their jobs, and out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from django.core.files.uploadedfile import UploadedFile
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from knowledge.ingest import Flags, NewDocument, delete_documents, submit_documents
from knowledge.jobs import job_report
from proxy.api.application import Scope, api
from proxy.api.bodies import CleanedText, JsonBody, PlainText, Strict, known_parameters, valid
from proxy.api.door import MachineRequest
from proxy.api.ingest import DeletedAnswer
from proxy.api.sources import DEFAULT_SOURCE, refuse_other_sources
from proxy.errors import InvalidRequest, NotFound

LONGEST_PATH = 1_000
Path = Annotated[PlainText, StringConstraints(min_length=1, max_length=LONGEST_PATH)]
Name = Annotated[PlainText, StringConstraints(max_length=100)]


class About(Strict):
    """What is said about all documents of a request."""

    title: Annotated[CleanedText, StringConstraints(max_length=500)] = ""
    source: Annotated[PlainText, StringConstraints(min_length=1, max_length=100)] = DEFAULT_SOURCE
    source_type: Name | None = None
    app: Name | None = None
    product: Name | None = None
    user_facing: bool | None = None


class DocumentBody(About):
    """A document as JSON."""

    path: Path
    content: CleanedText


class Form(About):
    """The fields beside the files of a multipart body, where everything is text."""

    model_config = ConfigDict(strict=False)

    path: list[Path] = []


class JobFileAnswer(BaseModel):
    """A file of a job, and why it was not indexed."""

    path: str
    state: str
    reason: str | None


class JobAnswer(BaseModel):
    """How far a job is."""

    model_config = ConfigDict(extra="allow")

    id: str
    state: str = Field(description="queued, running, done, failed or cancelled")
    progress: float
    counts: dict[str, int]
    files: list[JobFileAnswer] = Field(description="files that were not indexed; all with ?files=all")


class AcceptedAnswer(BaseModel):
    """The job that indexes what was sent."""

    job: JobAnswer


_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": DocumentBody.model_json_schema()},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
                        **Form.model_json_schema()["properties"],
                    },
                }
            },
        },
    }
}
_DELETE = {
    "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("path", "source")],
}


@api.post(
    "/v1/documents", auth=Scope("ingest"), response={202: AcceptedAnswer}, tags=["documents"], openapi_extra=_UPLOAD
)
def upload(request: MachineRequest) -> dict[str, Any]:
    """Take a document as JSON, or files as multipart; a job indexes them."""
    multipart = (request.content_type or "").lower() == "multipart/form-data"
    about, documents = _files(request) if multipart else _document(request)
    refuse_other_sources(request.auth, about.source)
    tenant = request.auth.tenant
    job = submit_documents(tenant, documents, source=about.source)
    return {"job": job_report(tenant, str(job.pk))}


@api.delete("/v1/documents", auth=Scope("ingest"), response=DeletedAnswer, tags=["documents"], openapi_extra=_DELETE)
def delete(request: MachineRequest) -> dict[str, int]:
    """Delete the pages of a path, of a source, or the one of both. A path alone leaves `wiki` alone."""
    given = known_parameters(request, {"path", "source"})
    if not given.get("path") and not given.get("source"):
        raise InvalidRequest("path or source: name what is to be deleted")
    refuse_other_sources(request.auth, given.get("source"))
    which = {name: given.get(name) or None for name in ("path", "source")}
    return {"deleted": delete_documents(request.auth.tenant, **which, actor=request.auth.public_id)}


@api.get("/v1/jobs/{job_id}", auth=Scope("ingest"), response=JobAnswer, tags=["documents"])
def job(request: MachineRequest, job_id: str, files: str = "") -> dict[str, Any]:
    """Say how far a job is; `?files=all` lists every file."""
    report = job_report(request.auth.tenant, job_id, all_files=files == "all")
    if report is None:
        raise NotFound("There is no such job here.")
    return report


def _document(request: MachineRequest) -> tuple[About, list[NewDocument]]:
    body = valid(DocumentBody, JsonBody().parse_body(request))
    return body, [NewDocument(body.path, body.content, title=body.title, flags=_flags(body))]


def _files(request: MachineRequest) -> tuple[About, list[NewDocument]]:
    """Read a form: each file is named by its own `path`, or by its file name below the one that ends with /."""
    fields = {name: values if name == "path" else values[-1] for name, values in request.POST.lists()}
    form = valid(Form, {name: value for name, value in fields.items() if value not in ("", [""])})
    uploads = request.FILES.getlist("file")
    if stray := [name for name in request.FILES if name != "file"]:
        raise InvalidRequest(f"{stray[0]}: unknown file field; use `file`, once for each file")
    if not uploads:
        raise InvalidRequest("file: is missing; send at least one")
    paths = _paths(form.path, uploads)
    title = form.title if len(uploads) == 1 else ""
    documents = [
        NewDocument(path, upload.read(), title=title, flags=_flags(form))
        for path, upload in zip(paths, uploads, strict=True)
    ]
    return form, documents


def _paths(given: Sequence[str], uploads: Sequence[UploadedFile[bytes]]) -> list[str]:
    names = [upload.name or "file" for upload in uploads]
    if not given:
        return names
    if len(given) == 1 and given[0].endswith("/"):
        return [f"{given[0]}{name}" for name in names]
    if len(given) != len(uploads):
        raise InvalidRequest(f"path: give one for each of the {len(uploads)} files, in their order, or a folder/")
    return list(given)


def _flags(about: About) -> Flags:
    return Flags(source_type=about.source_type, app=about.app, product=about.product, user_facing=about.user_facing)
