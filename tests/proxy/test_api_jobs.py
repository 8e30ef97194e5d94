"""`GET /v1/jobs/{id}`."""

from __future__ import annotations

import pytest

from knowledge.ingest import run_documents
from proxy.api.documents import JobAnswer
from tenants.facts import TenantFacts
from tests.make import make_key
from tests.proxy.api import assert_refused, call, upload

FILES = [("good.md", b"The brindle word.\n"), ("photo.png", b"\x89PNG\r\n\x1a\n" + bytes(256))]


def test_it_works(tenant: TenantFacts) -> None:
    key = make_key(tenant)
    number = upload(key, FILES).json["job"]["id"]
    waiting = call("GET", f"/v1/jobs/{number}", key=key).json
    run_documents(tenant, int(number))
    done = call("GET", f"/v1/jobs/{number}", key=key).json

    JobAnswer.model_validate(done)
    assert (waiting["state"], done["state"], done["progress"]) == ("queued", "done", 1)
    assert waiting["progress"] < 1
    assert set(done["counts"]) == {"seen", "indexed", "unchanged", "skipped", "quarantined", "failed"}
    assert (done["counts"]["seen"], done["counts"]["indexed"], done["counts"]["skipped"]) == (2, 1, 1)
    assert [file["path"] for file in done["files"]] == ["photo.png"]


def test_every_file_is_listed_when_asked(tenant: TenantFacts) -> None:
    key = make_key(tenant)
    number = upload(key, FILES).json["job"]["id"]
    run_documents(tenant, int(number))
    files = call("GET", f"/v1/jobs/{number}?files=all", key=key).json["files"]

    assert [(file["path"], file["state"]) for file in files] == [("good.md", "indexed"), ("photo.png", "skipped")]


@pytest.mark.parametrize(
    "number", ["0193aaaa-0000-7000-8000-000000000000", "1", "0", "-1", "9" * 40, "%00", "%D9%A1", "1%20", "x"]
)
def test_an_unknown_job_is_not_found(tenant: TenantFacts, number: str) -> None:
    assert_refused(call("GET", f"/v1/jobs/{number}", key=make_key(tenant)), 404, "not_found_error")


def test_the_rivals_job_is_as_unknown_as_any(tenant: TenantFacts, rival: TenantFacts) -> None:
    number = upload(make_key(tenant), FILES).json["job"]["id"]
    theirs = make_key(rival)
    foreign, unknown = (call("GET", f"/v1/jobs/{one}", key=theirs) for one in (number, "12345"))

    assert foreign.alike() == unknown.alike()
    assert_refused(foreign, 404, "not_found_error")
