"""What is said about a page besides its text: type, app, product, audience, language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowledge.models import FLAGS, Page

_LONGEST = {"source_type": 32, "app": 100, "product": 100, "language": 8}


class BadFlag(Exception):
    """A flag's value cannot be stored; the message names the flag."""


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of a page or of all pages of a request; None says nothing."""

    source_type: str | None = None
    app: str | None = None
    product: str | None = None
    user_facing: bool | None = None
    language: str | None = None

    def given(self) -> dict[str, object]:
        """Return the flags that say something, by name."""
        return {name: getattr(self, name) for name in FLAGS if getattr(self, name) is not None}

    def checked(self) -> Flags:
        """Return the flags themselves; raises BadFlag for a text that is too long."""
        for name, value in self.given().items():
            if isinstance(value, str) and len(value) > _LONGEST[name]:
                raise BadFlag(f"{name}: use {_LONGEST[name]} characters at most")
        return self


NONE = Flags()


def merged(*layers: Mapping[str, object]) -> dict[str, object]:
    """Return the flags of all layers; a later layer wins over an earlier one."""
    found = {name: value for layer in layers for name, value in layer.items() if name in FLAGS}
    return {name: value[: _LONGEST[name]] if isinstance(value, str) else value for name, value in found.items()}


def changes(page: Page, flags: Mapping[str, object]) -> dict[str, object]:
    """Return what has to be set on an unchanged page so that it says the same as a page made anew.

    A flag that is no longer given falls back to what the source says; a language that is not given stays
    as it was detected; what a person set by hand is left alone.
    """
    wanted = {"source_type": "", "app": "", "product": "", "user_facing": None, **flags}
    return {
        name: value for name, value in wanted.items() if name not in page.hand_flags and getattr(page, name) != value
    }
