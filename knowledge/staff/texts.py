"""What the page's script says, translated here so that all texts lie in one catalogue."""

from __future__ import annotations

from django.utils.translation import gettext


def script_texts() -> dict[str, str]:
    """Return the script's texts by name; the script puts numbers and names in place of {braces}."""
    return {
        "chosen": gettext("{files} to send, {skipped} left out before sending"),
        "nothing": gettext("Nothing of this can be read: all of it was left out."),
        "sending": gettext("{sent} of {files} sent"),
        "sent": gettext("All {files} sent"),
        "again": gettext("The connection broke; trying again…"),
        "failed": gettext("The upload stopped: {why}"),
        "folder": gettext("folders named {name} are skipped"),
        "file": gettext("files named {name} are skipped"),
        "type": gettext("files of type .{name} are not read"),
        "untyped": gettext("files without a known type are not read"),
        "large": gettext("larger than {name} bytes"),
        "empty": gettext("the file is empty"),
        "more": gettext("and {name} more"),
        "offline": gettext("the server cannot be reached"),
    }
