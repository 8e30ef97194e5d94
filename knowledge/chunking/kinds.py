"""Which way a file is chunked, decided by its name alone."""

from pathlib import PurePosixPath
from typing import Literal

Kind = Literal["markdown", "plain", "rst", "code", "text"]

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("md", "markdown"), "markdown"),
    "txt": "plain",
    "rst": "rst",
    **dict.fromkeys(("html", "csv"), "text"),
    **dict.fromkeys(("py", "js", "ts", "tsx", "jsx", "go", "rs", "java", "kt", "rb", "php", "swift"), "code"),
    **dict.fromkeys(("c", "h", "cpp", "hpp", "cs", "sh", "bash", "ps1", "sql", "css"), "code"),
    **dict.fromkeys(("toml", "yaml", "yml", "json", "ini", "cfg"), "code"),
}
EXTENSIONS = frozenset(KINDS)
NAMES: dict[str, Kind] = {"README": "plain", "LICENSE": "plain", "Makefile": "code", "Dockerfile": "code"}
PROSE: frozenset[Kind] = frozenset({"markdown", "plain", "rst"})


def extension(path: str) -> str:
    """The part after the last dot of the name, in lower case; the name itself for the few known without one."""
    name = PurePosixPath(path).name
    return name if name in NAMES else PurePosixPath(path).suffix.removeprefix(".").lower()


def kind_of(path: str) -> Kind | None:
    """How the file is chunked; None for a name that is not on the list of text kinds."""
    known = extension(path)
    return NAMES.get(known) or KINDS.get(known)
