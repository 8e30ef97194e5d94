"""What an upload request may say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile as SentFile
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from knowledge.ingest.sources import LONGEST_NAME
from knowledge.ingest.uploads import DEFAULT_SOURCE, UploadedFile


class ManyFiles(forms.ClearableFileInput):
    """A file field that takes several."""

    allow_multiple_selected = True


class FilesField(forms.FileField):
    """Several files; none is an empty list."""

    widget = ManyFiles

    def clean(self, data: Any, initial: Any = None) -> Any:
        """Return the files; which of them can be read is judged file by file later."""
        return list(data or [])


class UploadForm(forms.Form):
    """An upload as a plain form sends it, or a part of one as the page's script does.

    path: one per file, relative to the chosen folder; a plain form sends none and the files' names count.
    """

    source = forms.CharField(
        label=_("Source"),
        max_length=LONGEST_NAME,
        initial=DEFAULT_SOURCE,
        help_text=_("A page is replaced when its path comes again in the same source."),
    )
    file = FilesField(label=_("Files"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.paths: Sequence[str] = self.data.getlist("path") if hasattr(self.data, "getlist") else []

    def clean(self) -> dict[str, Any]:
        """Check that there is a path for each file, where paths are given."""
        found = super().clean() or {}
        if self.paths and len(self.paths) != len(found.get("file", [])):
            self.add_error("file", gettext("one path is needed for each file"))
        return found

    def files_in_order(self) -> list[UploadedFile]:
        """Return the files with their paths."""
        sent: list[SentFile[bytes]] = self.cleaned_data["file"]
        names = self.paths or [file.name or "" for file in sent]
        return [UploadedFile(path, file.size or 0, file.read) for path, file in zip(names, sent, strict=True)]


class PartForm(UploadForm):
    """A part of an upload: which upload (none yet: begin one), the number of its first file, whether it is the last."""

    upload = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    first = forms.IntegerField(min_value=0, max_value=10_000_000)
    last = forms.BooleanField(required=False)
