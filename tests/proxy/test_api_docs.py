"""`/v1/docs` and `/v1/openapi.json`: the reference, without anything from elsewhere."""

from __future__ import annotations

import re

from django.test import Client

CLIENT = Client()
OURS = {
    ("post", "/v1/query"),
    ("get", "/v1/stats"),
    ("post", "/knowledge/ingest"),
    ("get", "/knowledge/stats"),
    ("delete", "/knowledge/flush"),
    ("post", "/v1/documents"),
    ("delete", "/v1/documents"),
    ("get", "/v1/jobs/{job_id}"),
}


def test_it_works() -> None:
    schema = CLIENT.get("/v1/openapi.json").json()

    assert {(method, path) for path, methods in schema["paths"].items() for method in methods} == OURS


def test_every_endpoint_names_its_key_and_says_what_it_does() -> None:
    schema = CLIENT.get("/v1/openapi.json").json()
    operations = [operation for methods in schema["paths"].values() for operation in methods.values()]

    assert all(operation["security"] for operation in operations)
    assert all(operation["description"].endswith(".") for operation in operations)


def test_the_upload_says_what_it_takes() -> None:
    upload = CLIENT.get("/v1/openapi.json").json()["paths"]["/v1/documents"]["post"]

    assert set(upload["requestBody"]["content"]) == {"application/json", "multipart/form-data"}
    assert "202" in upload["responses"]


def test_the_page_loads_from_here_only() -> None:
    answer = CLIENT.get("/v1/docs")
    loaded = re.findall(r'(?:src|href)="([^"]*)"', answer.content.decode())

    assert answer.status_code == 200
    assert loaded
    assert all(address.startswith("/") for address in loaded)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
