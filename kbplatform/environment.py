"""Which settings the environment may hold, what each means, and how a wrong one is refused.

Every name starts with ``KB_`` except the few that other systems share. A secret may be given as
``NAME_FILE``, a path whose content is the value. An unknown ``KB_`` name stops the start, so that a
misspelt setting is never silently ignored.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class BadSetting(Exception):
    """A setting in the environment is unknown or has a value that cannot be used."""


@dataclass(frozen=True)
class Setting:
    """One setting: its name, how its text becomes a value, its default as text, and one line of help."""

    name: str
    parse: Callable[[str], Any]
    default: str
    help: str
    secret: bool = False


def _flag(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError("use 1 or 0")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"use one of {', '.join(allowed)}")
        return text

    return parse


def _between(low: float, high: float, kind: type[int] | type[float] = int) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = kind(text)
        if not low <= value <= high:
            raise ValueError(f"use a number from {low:g} to {high:g}")
        return value

    return parse


def upstream_url(text: str) -> str:
    """Check the base URL of an upstream and return it without its trailing slash.

    Plain http is allowed to loopback addresses only: a credential travels in every request.
    """
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("use an http(s) URL")
    if parts.scheme == "http" and parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
        raise ValueError("plain http is allowed to loopback addresses only; use https")
    return text.rstrip("/")


SETTINGS = (
    Setting("DATABASE_URL", str, "", "PostgreSQL URL of the role kb_app (web and worker)", secret=True),
    Setting(
        "KB_OWNER_DATABASE_URL",
        str,
        "",
        "PostgreSQL URL of the role kb_owner (migrations, maintenance)",
        secret=True,
    ),
    Setting(
        "KB_STAFF_DATABASE_URL",
        str,
        "",
        "PostgreSQL URL of the role kb_staff (superusers in the admin)",
        secret=True,
    ),
    Setting("KB_DATABASE_POOL", _between(1, 200), "8", "database connections a process keeps at most"),
    Setting("KB_SECRET_KEY", str, "", "Django's secret key: signs sessions and forms", secret=True),
    Setting(
        "KB_KEY_PEPPERS",
        _names,
        "",
        "id:hex pairs that key digests are made with, the newest first",
        secret=True,
    ),
    Setting(
        "KB_CREDENTIAL_KEYS",
        _names,
        "",
        "id:hex pairs (32 bytes) that upstream credentials are sealed with, the newest first",
        secret=True,
    ),
    Setting(
        "KB_ALLOWED_HOSTS",
        _names,
        "127.0.0.1,localhost,[::1]",
        "host names that the pages answer to, with commas",
    ),
    Setting("KB_TRUSTED_PROXY", _flag, "0", "1: believe X-Forwarded-Proto of the proxy in front"),
    Setting("KB_DEBUG", _flag, "0", "1: Django's debug pages (never on a reachable machine)"),
    Setting("KB_LOG_LEVEL", _one_of("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "least level that is logged"),
    Setting("KB_LOG_FORMAT", _one_of("json", "console"), "console", "how log lines look"),
    Setting(
        "KB_EMBEDDING_PROVIDER",
        _one_of("onnx", "sentence-transformers", "hash", "openai"),
        "onnx",
        "what turns text into vectors",
    ),
    Setting("KB_EMBEDDING_MODEL", str, "multilingual-e5-small", "known model, hub name or directory"),
    Setting("KB_EMBEDDING_DIMENSIONS", int, "0", "vector size to ask of an embedding service; 0: the usual one"),
    Setting(
        "KB_EMBEDDING_BASE_URL",
        str,
        "https://api.openai.com/v1",
        "base URL of an OpenAI-compatible embedding service",
    ),
    Setting("KB_EMBEDDING_API_KEY", str, "", "its key", secret=True),
    Setting("KB_MODEL_DIR", Path, ".models", "where built embedding models are kept"),
    Setting(
        "KB_EVIDENCE_GATE",
        _between(0.05, 0.60, float),
        "0.25",
        "evidence from which a new tenant's question counts as answered",
    ),
    Setting(
        "KB_SEARCH_DEADLINE_MS",
        _between(10, 10_000),
        "150",
        "milliseconds that knowledge may hold a gateway request",
    ),
    Setting("KB_MAX_BODY_BYTES", _between(1024, 64 << 20), str(32 << 20), "largest request body on machine paths"),
    Setting("KB_MAX_FILE_BYTES", _between(1024, 64 << 20), str(2 << 20), "largest file that ingest reads"),
    Setting(
        "KB_UPSTREAM_CONNECT_SECONDS",
        _between(0.1, 120, float),
        "10",
        "seconds to wait for a connection to an upstream",
    ),
    Setting("KB_UPSTREAM_IDLE_SECONDS", _between(1, 3600, float), "330", "seconds that an upstream may be silent"),
    Setting("KB_DRAIN_SECONDS", _between(0, 600), "30", "seconds that running answers get when the server stops"),
    Setting("ANTHROPIC_API_KEY", str, "", "upstream credential of every tenant without its own", secret=True),
    Setting(
        "ANTHROPIC_BASE_URL",
        upstream_url,
        "https://api.anthropic.com",
        "upstream of every tenant without its own",
    ),
    Setting(
        "KNOWLEDGE_SIMILARITY_THRESHOLD",
        _between(0, 1, float),
        "",
        "klaude-proxy's threshold t; the gate becomes 0.25 t / 0.75",
    ),
    Setting("CLAW_RAG_EMBEDDING_BASE_URL", str, "", "claw-rag-service's name of KB_EMBEDDING_BASE_URL"),
    Setting("CLAW_RAG_EMBEDDING_MODEL", str, "", "claw-rag-service's name of KB_EMBEDDING_MODEL"),
    Setting("CLAW_RAG_OPENAI_API_KEY", str, "", "claw-rag-service's name of KB_EMBEDDING_API_KEY", secret=True),
    Setting("CLAW_RAG_MOCK_PROVIDERS", _flag, "0", "1: the hashing provider, as claw-rag-service's tests use"),
)
# Names that ./kb and the tests read themselves, before Django.
LAUNCHER_NAMES = frozenset({"KB_DATA_DIR", "KB_VENV", "KB_REQUIRE_BROWSER", "KB_HOST", "KB_PORT"})


def read(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return every setting's value by name.

    Raises BadSetting with the name of the first setting that is unknown or has a bad value.
    """
    known = {setting.name for setting in SETTINGS} | LAUNCHER_NAMES
    for name in environ:
        if name.startswith("KB_") and name not in known and name.removesuffix("_FILE") not in known:
            raise BadSetting(f"{name} is not a setting; see docs/settings.md for the names")
    values = {setting.name: _value(setting, environ) for setting in SETTINGS}
    return _with_older_names(values, environ)


def _value(setting: Setting, environ: Mapping[str, str]) -> Any:
    text = environ.get(setting.name, "")
    file = environ.get(f"{setting.name}_FILE", "") if setting.secret else ""
    if file:
        try:
            text = Path(file).read_text().strip()
        except OSError as error:
            raise BadSetting(f"{setting.name}_FILE: {error.strerror}: {file}") from error
    if not text and not setting.default:
        return setting.parse("") if setting.parse in (str, _names) else None
    try:
        return setting.parse(text or setting.default)
    except ValueError as error:
        raise BadSetting(f"{setting.name} has a bad value: {error}") from error


def _with_older_names(values: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Honour the names of the systems we replace where ours is not given."""
    threshold = values["KNOWLEDGE_SIMILARITY_THRESHOLD"]
    if threshold is not None and "KB_EVIDENCE_GATE" not in environ:
        values["KB_EVIDENCE_GATE"] = min(0.60, max(0.05, 0.25 * threshold / 0.75))
    for old, new in (("BASE_URL", "BASE_URL"), ("MODEL", "MODEL")):
        if values[f"CLAW_RAG_EMBEDDING_{old}"] and f"KB_EMBEDDING_{new}" not in environ:
            values[f"KB_EMBEDDING_{new}"] = values[f"CLAW_RAG_EMBEDDING_{old}"]
    if values["CLAW_RAG_OPENAI_API_KEY"] and not values["KB_EMBEDDING_API_KEY"]:
        values["KB_EMBEDDING_API_KEY"] = values["CLAW_RAG_OPENAI_API_KEY"]
    if values["CLAW_RAG_MOCK_PROVIDERS"] and "KB_EMBEDDING_PROVIDER" not in environ:
        values["KB_EMBEDDING_PROVIDER"] = "hash"
    return values
