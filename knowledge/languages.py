"""Which language a text is in, and how PostgreSQL's text search calls it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tenants.languages import CONFIGURATIONS

NO_STEMMER = "simple"
FEWEST_WORDS = 20
"""A text of fewer words keeps the language it is expected to be in."""
MOST_CODE_MARKS = 0.15
"""Marks of code per word: prose about code has up to 0.13, nine tenths of source files more."""
SURE = 0.9
READ_CHARACTERS = 4_000

_BY_CODE = {code: name for name, code in CONFIGURATIONS.items()} | {"nb": "norwegian", "nn": "norwegian"}
# Languages we can tell apart but PostgreSQL cannot stem: without them Polish would be taken for Lithuanian.
_OTHERS = frozenset("bg cs fa he hr ja ko pl sk sl uk vi zh".split())
_QUOTED_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[^\W\d_]{2,}")
_CODE_MARKS = re.compile(r"[{};=\\]|\w_\w|\w\(|\(\)|::|->")


def configuration(code: str) -> str:
    """Return the text search configuration of a language (ISO 639-1), `simple` for one without a stemmer."""
    return _BY_CODE.get(code.partition("-")[0].lower(), NO_STEMMER)


def detect(text: str, *, fallback: str) -> str:
    """Return the ISO 639-1 code of the language a text is in.

    Short texts, code and texts that could be in several languages are in the fallback. Code quoted in
    prose is not looked at. The answer depends on the text only; it takes about a millisecond, and the
    first call of a process a second for the model.
    """
    prose = _QUOTED_CODE.sub(" ", text[: 10 * READ_CHARACTERS])[:READ_CHARACTERS]
    words = _WORD.findall(prose)
    if len(words) < FEWEST_WORDS or len(_CODE_MARKS.findall(prose)) > MOST_CODE_MARKS * len(words):
        return fallback
    code, sure = _identifier().classify(" ".join(words))
    return str(code) if sure >= SURE else fallback


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Load py3langid's model (BSD licence, 4.6 MB, inside the package) for the languages above."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    made = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    made.set_languages(set(made.labels) & (set(_BY_CODE) | _OTHERS))
    return made
