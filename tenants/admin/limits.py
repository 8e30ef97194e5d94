"""Limits as form fields, one number each, instead of JSON."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from tenants.admin.base import R, TenantForm
from tenants.limits import LIMITS


class LimitsForm(TenantForm[R]):
    """A form of a row with limits; an empty field limits nothing."""

    requests_per_minute = forms.IntegerField(min_value=0, required=False, label=_("Requests per minute"))
    tokens_per_minute = forms.IntegerField(min_value=0, required=False, label=_("Tokens per minute"))
    concurrent_requests = forms.IntegerField(min_value=0, required=False, label=_("Concurrent requests"))
    money_per_day = forms.FloatField(min_value=0, required=False, label=_("US dollars per day"))
    money_per_month = forms.FloatField(min_value=0, required=False, label=_("US dollars per month"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in LIMITS:
            self.initial.setdefault(name, getattr(self.instance, "limits", {}).get(name))

    def chosen_limits(self) -> dict[str, Any]:
        """Return the limits that were filled in, by name."""
        return {name: value for name in LIMITS if (value := self.cleaned_data.get(name)) is not None}

    def _post_clean(self) -> None:
        """Put the limits into the row."""
        super()._post_clean()  # type: ignore[misc]
        self.instance.limits = self.chosen_limits()  # type: ignore[attr-defined]
