"""Names of states for people, in their language."""

from __future__ import annotations

from django import template
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from knowledge.models import FileState, Job, JobState

register = template.Library()

_NAMES: dict[str, str | Promise] = {
    JobState.QUEUED: _("waiting"),
    JobState.RUNNING: _("running"),
    JobState.DONE: _("done"),
    JobState.FAILED: _("failed"),
    JobState.CANCELLED: _("cancelled"),
    FileState.INDEXED: _("indexed"),
    FileState.UNCHANGED: _("unchanged"),
    FileState.SKIPPED: _("skipped"),
    FileState.QUARANTINED: _("kept out"),
}


@register.filter
def state_name(state: str) -> str:
    """Return what a job's or file's state is called."""
    return str(_NAMES.get(state, state))


@register.filter
def not_indexed(job: Job) -> int:
    """Return how many files of a job were left out, kept out, or failed."""
    return job.skipped + job.quarantined + job.failed
