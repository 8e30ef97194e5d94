"""Languages as people name them: by ISO 639-1 code, or as PostgreSQL names its text search configurations."""

from __future__ import annotations

from collections.abc import Mapping

# PostgreSQL 18's configurations (`\dF`) but `simple`, which is no language.
CONFIGURATIONS: Mapping[str, str] = {
    "arabic": "ar", "armenian": "hy", "basque": "eu", "catalan": "ca", "danish": "da", "dutch": "nl",
    "english": "en", "estonian": "et", "finnish": "fi", "french": "fr", "german": "de", "greek": "el",
    "hindi": "hi", "hungarian": "hu", "indonesian": "id", "irish": "ga", "italian": "it", "lithuanian": "lt",
    "nepali": "ne", "norwegian": "no", "portuguese": "pt", "romanian": "ro", "russian": "ru", "serbian": "sr",
    "spanish": "es", "swedish": "sv", "tamil": "ta", "turkish": "tr", "yiddish": "yi",
}  # fmt: skip
CODES = frozenset(
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el "
    "en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it "
    "iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt "
    "my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl "
    "sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo "
    "za zh zu".split()
)


class UnknownLanguage(ValueError):
    """A language is neither an ISO 639-1 code nor a PostgreSQL configuration; the message says which."""


def language_code(text: str) -> str:
    """Return the ISO 639-1 code of `es`, `es-MX`, `Spanish` or `pg_catalog.spanish`; raises UnknownLanguage."""
    name = text.strip().lower().removeprefix("pg_catalog.")
    code = CONFIGURATIONS.get(name) or name.replace("_", "-").partition("-")[0]
    if code not in CODES:
        raise UnknownLanguage(
            f"{text!r} is no language; use an ISO 639-1 code (es) or a PostgreSQL configuration (spanish)"
        )
    return code
