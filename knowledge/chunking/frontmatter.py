"""YAML front matter: what a page says about itself before its text begins."""

import re
from collections.abc import Callable, Mapping

import yaml

LONGEST = 16_384  # characters; more is a document, not front matter
MOST_BRACKETS = 100  # the YAML reader takes quadratic time over nested ones: 33 s for five thousand
TEXT_FIELDS = ("title", "slug", "product", "status", "app", "source_type", "language")
_BLOCK = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def front_matter(body: str) -> tuple[dict[str, object], str, int]:
    """Split leading YAML front matter from a page.

    Returns the known fields (`title slug product status app source_type language` as text, `tags` as a list of
    text, `user_facing` as a bool), the text after the block, and how many lines the block took, to be added to
    line numbers counted in that text. Broken YAML, YAML with aliases or deep nesting and a block that is not a
    mapping are no front matter: no fields, the whole text, 0.
    """
    block = _BLOCK.match(body[: LONGEST + 8]) if body.startswith(("---", "\ufeff---")) else None
    mapping = _mapping(block[1]) if block else None
    if block is None or mapping is None:
        return {}, body, 0
    return _fields(mapping), body[block.end() :], body.count("\n", 0, block.end())


def _mapping(text: str) -> Mapping[object, object] | None:
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        return None
    try:
        # Aliases can blow a few lines up to gigabytes, and nobody needs them here.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=yaml.SafeLoader)):
            return None
        loaded = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _fields(mapping: Mapping[object, object]) -> dict[str, object]:
    readers: dict[str, Callable[[object], object]] = dict.fromkeys(TEXT_FIELDS, _text)
    readers |= {"tags": _tags, "user_facing": _flag}
    read = {name: reader(mapping[name]) for name, reader in readers.items() if name in mapping}
    return {name: value for name, value in read.items() if value is not None}


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, int) and abs(value) > 10**18:  # str() of a huge number raises
        return None
    return str(value).strip() or None


def _tags(value: object) -> list[str] | None:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list):
        return None
    return [tag for item in given if (tag := _text(item))]


def _flag(value: object) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None
