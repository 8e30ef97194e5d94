"""Which requests the gateway answers."""

import pytest

from proxy.gateway.paths import Route, route


def test_it_works() -> None:
    assert route("POST", "/v1/messages") == Route("messages", None, "/v1/messages")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/v1/v1/messages", Route("messages", None, "/v1/messages")),
        ("/t/acme/v1/messages", Route("messages", "acme", "/v1/messages")),
        ("/t/acme/v1/v1/messages", Route("messages", "acme", "/v1/messages")),
        ("/v1/messages/count_tokens", Route("count_tokens", None, "/v1/messages/count_tokens")),
        ("/v1/models", Route("models", None, "/v1/models")),
        ("/v1/models/claude-x", Route("model", None, "/v1/models/claude-x")),
        ("/v1/messages/batches/b_1/results", Route("batches", None, "/v1/messages/batches/b_1/results")),
        ("/v1/files", Route("files", None, "/v1/files")),
        ("/v1/messages/", Route("unknown", None, "/v1/messages/")),
        ("/v1/models/a/b", Route("unknown", None, "/v1/models/a/b")),
        ("/v1/query", None),
        ("/v1/messagesx", None),
        ("/t/a/b/v1/messages", None),
        ("//v1/messages", None),
        ("/", None),
        ("/admin/", None),
    ],
)
def test_paths(path: str, wanted: Route | None) -> None:
    assert route("POST", path) == wanted


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", "/"),
        ("HEAD", "/v1"),
        ("HEAD", "/t/acme"),
        ("HEAD", "/t/acme/"),
        ("HEAD", "/t/acme/v1"),
        ("GET", "/health"),
        ("HEAD", "/health"),
        ("GET", "/t/acme/health"),
    ],
)
def test_liveness(method: str, path: str) -> None:
    assert route(method, path) == Route("liveness")
