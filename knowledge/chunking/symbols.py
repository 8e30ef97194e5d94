"""Names of the classes, functions and keys that enclose a line of source code."""

import ast
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowledge.chunking.kinds import extension

LONGEST_LINE = 240  # characters looked at for a declaration


class Symbol(NamedTuple):
    """A named stretch of lines, 0-based, `[first, after)`."""

    name: str
    first: int
    after: int


class Outline(NamedTuple):
    """What is known of a file's structure: its symbols by first line, and lines inside a multi-line string."""

    symbols: list[Symbol]
    quoted: frozenset[int]


_SCRIPT = (
    r"\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?"
    r"(?:function\s*\*?|class|interface|enum|namespace|type)\s+([\w$]+)",
    r"\s*(?:export\s+)?(?:const|let|var)\s+([\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)",
    r"\s+(?:(?:static|async|get|set|public|private|protected|readonly|override)\s+)*\*?([\w$#]+)\s*\([^;]*\)\s*(?::[^{]+)?\{\s*$",
)
_TYPES = (
    r"\s*(?:[\w@]+\s+)*?(?:class|interface|enum|record|struct|union|object|trait|namespace|protocol|extension)"
    r"\s+([\w.:]+)"
)
_C_FAMILY = (_TYPES, r"\s*(?:[\w<>\[\],.?*&:~@]+\s+)+[*&]*([\w:~]+)\s*\([^;=]*$")
_KEYS = (r"\s*(?:-\s+)?([\w.\"'/-]+):\s*(?:[&|>#].*)?$",)
_SECTIONS = (r"\s*\[{1,2}([^\[\]]+)\]{1,2}",)
_SHELL = (r"\s*(?:function\s+)?([\w:-]+)\s*\(\s*\)\s*\{?", r"\s*function\s+([\w:-]+)")
_BY_LANGUAGE: dict[str, tuple[str, ...]] = {
    "py": (r"\s*(?:async\s+)?(?:def|class)\s+(\w+)",),
    **dict.fromkeys(("js", "ts", "tsx", "jsx"), _SCRIPT),
    "go": (r"func\s+\(\s*(?:\w+\s+)?\*?(\w+)[^)]*\)\s*(\w+)", r"func\s+(\w+)", r"type\s+(\w+)\s+(?:struct|interface)"),
    "rs": (
        r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|unsafe|const|extern\s+\"C\")\s+)*(?:fn|struct|enum|trait|mod|union)\s+(\w+)",
        r"\s*(?:unsafe\s+)?impl(?:<[^{}]*?>)?\s+(?:[^{}]*?\sfor\s+)?([\w:]+)",
        r"\s*macro_rules!\s+(\w+)",
    ),
    **dict.fromkeys(("java", "c", "h", "cpp", "hpp", "cs"), _C_FAMILY),
    "kt": (_TYPES, r"\s*(?:\w+\s+)*?fun\s+(?:<[^>]*>\s*)?([\w.]+)"),
    "swift": (_TYPES, r"\s*(?:\w+\s+)*?func\s+(\w+)"),
    "php": (_TYPES, r"\s*(?:\w+\s+)*?function\s+&?(\w+)"),
    "rb": (r"\s*(?:def|class|module)\s+([\w.:?!=]+)",),
    **dict.fromkeys(("sh", "bash"), _SHELL),
    "ps1": (r"\s*(?i:function|filter|class)\s+([\w:-]+)",),
    "sql": (
        r"\s*(?i:create)\s+(?:\w+\s+)*?(?i:table|view|function|procedure|trigger|index|type|policy|schema)\s+"
        r"(?:(?i:if\s+not\s+exists)\s+)?([\w.\"]+)",
    ),
    "css": (r"([^{}@;/*][^{}@;]*?|@media[^{}]+?)\s*\{",),
    **dict.fromkeys(("yaml", "yml"), _KEYS),
    "json": (r"\s*\"([^\"]+)\"\s*:\s*[\[{]\s*$",),
    **dict.fromkeys(("toml", "ini", "cfg"), _SECTIONS),
    "Makefile": (r"([\w.%/-]+)\s*:(?!=)",),
}
_FLAT = frozenset({"toml", "ini", "cfg"})  # a section lasts until the next one, whatever the indentation
_NOT_NAMES = frozenset(
    "if else for foreach while switch catch return new sizeof do try function with throw await yield case delete lock"
    " using synchronized defined elif".split()
)
CLOSING = re.compile(
    r"\s*(?:[)\]}>{]|</|\*/|\$\w*\$|\"\"\"|'''|(?:end|else|elif|elsif|except|finally|catch|rescue|ensure|fi|done|esac|then|do|"
    r"in|of|where)\b)",
    re.IGNORECASE,
)
LEADING = re.compile(r"\s*(?:@[\w(]|#(?!include|define|if|endif|pragma|else|!)|//|/\*|\*[\s/]|--|;;|\[\w|%)")


def outline(path: str, rows: Sequence[str], indents: Sequence[int]) -> Outline:
    """The structure of a source file; `indents` is the indentation of each row, -1 for a blank one."""
    language = extension(path)
    found = _python(rows) if language == "py" else None
    return found or Outline(_declared(language, rows, indents), frozenset())


def trails(symbols: Sequence[Symbol], ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[str, ...]]:
    """For each range of lines `[first, after)`, in order: the names of the symbols that hold all of it."""
    active: list[Symbol] = []
    coming = 0
    for first, after in ranges:
        active = [symbol for symbol in active if symbol.after > first]
        stop = bisect_left(symbols, first + 1, lo=coming, key=lambda symbol: symbol.first)
        active += [symbol for symbol in symbols[coming:stop] if symbol.after > first]
        coming = stop
        yield tuple(symbol.name for symbol in active if symbol.after >= after)


def _python(rows: Sequence[str]) -> Outline | None:
    """Names and multi-line strings by the interpreter's own parser; None for what it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(re.sub(r"\r(?!\n)", " ", "\n".join(rows)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    symbols: list[Symbol] = []
    quoted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            symbols.append(Symbol(node.name, _led(rows, first), node.end_lineno or node.lineno))
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        ):
            quoted.update(range(node.lineno, node.end_lineno or node.lineno))
    return Outline(_in_order(symbols), frozenset(quoted))


def _declared(language: str, rows: Sequence[str], indents: Sequence[int]) -> list[Symbol]:
    """Names by patterns and indentation: a symbol ends before the next line that is indented no deeper."""
    patterns = [re.compile(pattern) for pattern in _BY_LANGUAGE.get(language, ())]
    symbols: list[Symbol] = []
    opened: list[tuple[str, int, int]] = []  # name, first line, indentation
    for index, (row, indent) in enumerate(zip(rows, indents, strict=True)):
        name = _declaration(row, patterns) if indent >= 0 else ""
        ends = bool(name) if language in _FLAT else indent >= 0 and not CLOSING.match(row)
        while ends and opened and (language in _FLAT or opened[-1][2] >= indent):
            closed = opened.pop()
            symbols.append(Symbol(closed[0], closed[1], index))
        if name:
            opened.append((name, _led(rows, index), indent))
    symbols += [Symbol(name, first, len(rows)) for name, first, _ in opened]
    return _in_order(symbols)


def _declaration(row: str, patterns: Sequence[re.Pattern[str]]) -> str:
    for pattern in patterns:
        found = pattern.match(row[:LONGEST_LINE])
        if found:
            name = ".".join(group for group in found.groups() if group).strip(" \"'")
            words = set(row[: found.end()].split())
            return "" if name in _NOT_NAMES or words & {"return", "new", "throw", "else"} else name
    return ""


def _led(rows: Sequence[str], first: int) -> int:
    """The first line of the comments and decorators directly above a declaration."""
    least = max(0, first - 60)
    while first > least and LEADING.match(rows[first - 1]):
        first -= 1
    return first


def _in_order(symbols: Sequence[Symbol]) -> list[Symbol]:
    """Outer before inner: by first line, the longer one first."""
    return sorted(symbols, key=lambda symbol: (symbol.first, -symbol.after))
