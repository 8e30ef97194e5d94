"""What a request may hold: JSON without surprises, texts that the database can keep, errors by field name."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, NoReturn, TypeVar

from django.http import HttpRequest
from ninja.parser import Parser
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from proxy.errors import InvalidRequest

Model = TypeVar("Model", bound=BaseModel)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_MOST_NAMED = 3  # errors in one message


class Strict(BaseModel):
    """A body of which every field is known and has its own type: "8" is no number, 1 no yes."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _plain(value: object) -> object:
    if isinstance(value, str) and (found := _UNSTORABLE.search(value)):
        name = "a NUL character" if found[0] == "\0" else "half of a surrogate pair"
        raise ValueError(f"holds {name}; take it out")
    return value


def _cleaned(value: object) -> object:
    return _UNSTORABLE.sub("\ufffd", value) if isinstance(value, str) else value


PlainText = Annotated[str, BeforeValidator(_plain)]
"""Text for a question or a name: what PostgreSQL can't hold is refused."""
CleanedText = Annotated[str, BeforeValidator(_cleaned)]
"""Text that is kept: NUL characters and lone surrogates become U+FFFD."""


class JsonBody(Parser):
    """Reads JSON as RFC 8259 has it: UTF-8, no NaN."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        """Return the parsed body, whatever it is; raises InvalidRequest."""
        try:
            parsed: dict[str, Any] = json.loads(request.body.decode(), parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"The body is not UTF-8 (byte {error.start}).") from error
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise InvalidRequest(f"The body is not valid JSON: {error.msg} ({where}).") from error
        except (ValueError, RecursionError) as error:
            raise InvalidRequest("The body is not usable JSON: nested too deeply, or a number too long.") from error
        return parsed


def _no_constant(text: str) -> NoReturn:
    raise json.JSONDecodeError(f"{text} is no JSON number", "", 0)


def valid(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Return the model of these values; raises InvalidRequest naming the fields."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InvalidRequest(message_of((item["loc"], item["type"], item["msg"]) for item in error.errors())) from error


def message_of(errors: Iterable[tuple[Sequence[int | str], str, str]]) -> str:
    """Return one message for (place, type, message) of a few validation errors."""
    found = list(errors)
    named = [_sentence(".".join(map(str, place)) or "body", kind, text) for place, kind, text in found[:_MOST_NAMED]]
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return "; ".join([*named, *more])


def _sentence(name: str, kind: str, text: str) -> str:
    if kind == "missing":
        return f"{name}: is missing"
    if kind == "extra_forbidden":
        return f"{name}: unknown field (see /v1/docs)"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return f"{name}: must be a JSON object"
    return f"{name}: {text.removeprefix('Value error, ').replace('Input should', 'should')}"


def known_parameters(request: HttpRequest, names: Collection[str]) -> dict[str, str]:
    """Return the query parameters; raises InvalidRequest for one that is not in `names` or can't be read.

    For requests that delete: a misspelt parameter would otherwise delete more than was meant.
    """
    for name, value in request.GET.items():
        if name not in names:
            raise InvalidRequest(f"{name}: unknown parameter; use {', '.join(sorted(names))}")
        if _UNSTORABLE.search(str(value)):
            raise InvalidRequest(f"{name}: holds a NUL character; take it out")
    return {name: str(value) for name, value in request.GET.items()}
