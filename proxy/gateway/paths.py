"""Which requests the gateway answers: a decision by method and path alone, before anything else runs."""

import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["liveness", "messages", "count_tokens", "models", "model", "batches", "files", "unknown"]

_TENANT = r"(?:/t/(?P<slug>[^/]+))?"
_LIVENESS = re.compile(rf"{_TENANT}/health\Z")
_BASE = re.compile(rf"{_TENANT}(?:/v1)?/?\Z")
# A base URL that ends in /v1 makes clients ask for /v1/v1/…: the same.
_API = re.compile(rf"{_TENANT}(?:/v1)?(?P<path>/v1/(?:messages|models|files)(?:/.*)?)\Z", re.DOTALL)
_KINDS: Final[tuple[tuple[re.Pattern[str], Kind], ...]] = (
    (re.compile(r"/v1/messages\Z"), "messages"),
    (re.compile(r"/v1/messages/count_tokens\Z"), "count_tokens"),
    (re.compile(r"/v1/models\Z"), "models"),
    (re.compile(r"/v1/models/[^/]+\Z"), "model"),
    (re.compile(r"/v1/messages/batches(/.*)?\Z"), "batches"),
    (re.compile(r"/v1/files(/.*)?\Z"), "files"),
)


@dataclass(frozen=True, slots=True)
class Route:
    """What is asked for: the tenant named in the path (None at the root) and the path as upstream knows
    it.
    """

    kind: Kind
    slug: str | None = None
    path: str = ""


def route(method: str, path: str) -> Route | None:
    """Return what a request asks of the gateway, None when it is for somebody else. `path` is still
    percent-encoded.
    """
    if found := _API.match(path):
        kinds = (kind for pattern, kind in _KINDS if pattern.match(found["path"]))
        return Route(next(kinds, "unknown"), found["slug"], found["path"])
    if (method == "HEAD" and _BASE.match(path)) or (method in ("GET", "HEAD") and _LIVENESS.match(path)):
        return Route("liveness")
    return None
