"""`POST /v1/documents`."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge.ingest import run_documents
from proxy.api.documents import AcceptedAnswer
from tenants.facts import TenantFacts
from tests.make import make_key
from tests.proxy.api import Answer, assert_refused, call, index, paths, upload

PAGE = "# Garnet\n\nThe harwick valve opens at dawn.\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


@pytest.fixture
def key(tenant: TenantFacts) -> str:
    """A key of a tenant without pages."""
    return make_key(tenant)


def send(key: str, body: Any) -> Answer:
    """Send a body as JSON."""
    return call("POST", "/v1/documents", body, key=key)


def finished(tenant: TenantFacts, key: str, answer: Answer) -> dict[str, Any]:
    """Let the job of a 202 be done and return its report."""
    assert answer.status == 202, answer.body
    number = answer.json["job"]["id"]
    run_documents(tenant, int(number))
    report: dict[str, Any] = call("GET", f"/v1/jobs/{number}?files=all", key=key).json
    return report


def test_it_works(tenant: TenantFacts, key: str) -> None:
    answer = send(key, {"path": "docs/garnet.md", "content": PAGE, "title": "Garnet guide", "source": "one"})

    AcceptedAnswer.model_validate(answer.json)
    assert answer.json["job"]["state"] == "queued"
    assert finished(tenant, key, answer)["counts"]["indexed"] == 1
    hit = call("POST", "/v1/query", {"query": "harwick valve"}, key=key).json["hits"][0]
    assert (hit["path"], hit["page"]["title"], hit["source"]) == ("docs/garnet.md", "Garnet guide", "one")


def test_a_file_comes_as_multipart(tenant: TenantFacts, key: str) -> None:
    answer = upload(key, [("multi.md", PAGE.encode())], path="docs/multi.md", source="one", source_type="doc")

    assert finished(tenant, key, answer)["counts"]["indexed"] == 1
    assert paths(key, "harwick valve", source_type="doc") == ["docs/multi.md"]


def test_several_files_have_their_names(tenant: TenantFacts, key: str) -> None:
    files = [("one.md", b"The brindle word.\n"), ("two.md", b"The cuvex word.\n")]
    report = finished(tenant, key, upload(key, files))

    assert [file["path"] for file in report["files"]] == ["one.md", "two.md"]


def test_several_files_go_into_a_folder(tenant: TenantFacts, key: str) -> None:
    files = [("one.md", b"The brindle word.\n"), ("two.md", b"The cuvex word.\n")]
    report = finished(tenant, key, upload(key, files, path="notes/"))

    assert [file["path"] for file in report["files"]] == ["notes/one.md", "notes/two.md"]


def test_several_files_have_a_path_each(tenant: TenantFacts, key: str) -> None:
    files = [("x.md", b"The brindle word.\n"), ("x.md", b"The cuvex word.\n")]
    report = finished(tenant, key, upload(key, files, path=["a/x.md", "b/x.md"]))

    assert [file["path"] for file in report["files"]] == ["a/x.md", "b/x.md"]
    assert_refused(upload(key, files, path="a/x.md"), 400, "invalid_request_error", "path", "2 files")


@pytest.mark.parametrize(("text", "number"), [("true", 1), ("false", 0), ("1", 1)])
def test_a_form_says_who_may_read(tenant: TenantFacts, key: str, text: str, number: int) -> None:
    finished(tenant, key, upload(key, [("a.md", PAGE.encode())], user_facing=text))

    assert len(paths(key, "harwick valve", user_facing=True)) == number


def test_a_binary_file_has_its_reason(tenant: TenantFacts, key: str) -> None:
    report = finished(tenant, key, upload(key, [("photo.png", PNG)], path="docs/photo.png"))

    assert report["counts"]["indexed"] == 0
    assert report["files"][0]["path"] == "docs/photo.png"
    assert report["files"][0]["reason"]


def test_a_file_over_the_limit_has_its_reason(tenant: TenantFacts, key: str) -> None:
    report = finished(tenant, key, upload(key, [("big.md", b"The zennor line.\n" * 200_000)]))

    assert report["counts"]["indexed"] == 0
    assert report["files"][0]["reason"]


def test_the_same_again_is_unchanged(tenant: TenantFacts, key: str) -> None:
    index(tenant, key, "a.md", PAGE)
    before = call("GET", "/v1/stats", key=key).json
    report = finished(tenant, key, send(key, {"path": "a.md", "content": PAGE}))

    assert report["counts"]["unchanged"] == 1
    assert call("GET", "/v1/stats", key=key).json["corpus_version"] == before["corpus_version"]


def test_odd_characters_of_the_content_are_replaced(tenant: TenantFacts, key: str) -> None:
    index(tenant, key, "odd.md", "The nul \0 and the half \ud800 of jasmond.\n")

    assert paths(key, "jasmond") == ["odd.md"]


@pytest.mark.parametrize(
    ("body", "mention"),
    [
        ({"content": "no path"}, "path: is missing"),
        ({"path": "", "content": "x"}, "path"),
        ({"path": "a\0b", "content": "x"}, "path: holds a NUL"),
        ({"path": "a" * 1001, "content": "x"}, "path"),
        ({"path": "a.md"}, "content: is missing"),
        ({"path": "a.md", "content": 5}, "content"),
        ({"path": "a.md", "content": "x", "colour": "red"}, "colour: unknown field"),
        ({"path": "a.md", "content": "x", "user_facing": "yes"}, "user_facing"),
        ({"path": "a.md", "content": "x", "source": ""}, "source"),
        ({"path": "a.md", "content": "x", "source": " "}, "source"),
        ({"path": "a.md", "content": "x", "source_type": "t" * 33}, "source_type"),
        ({"path": "a.md", "content": "x", "app": "t" * 101}, "app"),
        ([], "body: must be a JSON object"),
        (b"{", "not valid JSON"),
        (b"", "not valid JSON"),
    ],
)
def test_a_bad_body_is_refused_by_name(key: str, body: Any, mention: str) -> None:
    assert_refused(send(key, body), 400, "invalid_request_error", mention)


def test_a_form_without_files_is_refused(key: str) -> None:
    assert_refused(upload(key, [], path="a.md"), 400, "invalid_request_error", "file: is missing")


def test_an_unknown_field_of_a_form_is_refused(key: str) -> None:
    assert_refused(upload(key, [("a.md", b"x")], colour="red"), 400, "invalid_request_error", "colour: unknown")
    assert_refused(upload(key, [("a.md", b"x")], user_facing="often"), 400, "invalid_request_error", "user_facing")


def multipart(key: str, body: bytes, kind: str = "multipart/form-data; boundary=mark") -> Answer:
    """Send a body that says it is a form."""
    return call("POST", "/v1/documents", body, key=key, headers={"content-type": kind})


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"nothing of the kind", "multipart/form-data; boundary=mark"),
        (b"--mark\r\nContent-Disposition: form-data; name=", "multipart/form-data; boundary=mark"),
        (b"--mark--", "multipart/form-data"),
        (b"--mark--", "multipart/form-data; boundary="),
        (b"a=b", "application/x-www-form-urlencoded"),
    ],
)
def test_a_broken_form_is_refused(key: str, body: bytes, kind: str) -> None:
    assert_refused(multipart(key, body, kind), 400, "invalid_request_error")


def test_too_many_files_are_refused(key: str) -> None:
    files = [(f"{number}.md", b"x") for number in range(1001)]

    assert_refused(upload(key, files), 400, "invalid_request_error", "file: too many files")


def test_a_key_of_some_sources_writes_to_no_other(tenant: TenantFacts) -> None:
    narrow = make_key(tenant, sources=["one"])

    assert_refused(send(narrow, {"path": "a.md", "content": "x"}), 403, "permission_error", "one")
    assert send(narrow, {"path": "a.md", "content": "x", "source": "one"}).status == 202


def test_the_rivals_page_of_the_same_path_stays(tenant: TenantFacts, rival: TenantFacts, key: str) -> None:
    theirs = make_key(rival)
    index(tenant, key, "a.md", "The brindle word.\n")
    index(rival, theirs, "a.md", "The cuvex word.\n")

    assert (paths(key, "brindle"), paths(theirs, "cuvex")) == (["a.md"], ["a.md"])
    assert call("POST", f"/t/{tenant.slug}/v1/documents", {"path": "b.md", "content": "x"}, key=theirs).status == 401
