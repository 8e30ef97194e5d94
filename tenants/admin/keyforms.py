"""Forms of keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from tenants.admin.limits import LimitsForm
from tenants.keys import DEFAULT_SCOPES, KeyOptions
from tenants.models import SCOPES, Key, Team

_SCOPES = [(scope, scope) for scope in SCOPES]
_LISTS = {"sources", "source_types", "products", "allowed_models"}
OVERLAPS = ((0, _("none: the old secret ends now")), (1, _("1 hour")), (24, _("1 day")), (168, _("1 week")))


class Suggestions(forms.TextInput):
    """A text field that offers what is there already."""

    offered: Sequence[str] = ()

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> Any:
        """Return the field and its list."""
        place = f"{name}-offered"
        field = super().render(name, value, {**(attrs or {}), "list": place}, renderer)
        offers = format_html_join("", '<option value="{}"></option>', ((text,) for text in self.offered))
        return format_html('{}<datalist id="{}">{}</datalist>', field, place, offers)


class KeyForm(LimitsForm[Key]):
    """What a key may do."""

    scopes = forms.MultipleChoiceField(
        choices=_SCOPES, widget=forms.CheckboxSelectMultiple, required=False, initial=list(DEFAULT_SCOPES)
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _LISTS & set(self.fields):
            self.fields[name].help_text = _("several with commas between them; empty: no restriction")
        scopes = self.fields.get("scopes")
        if self.mine is not None and self.mine.leads and isinstance(scopes, forms.MultipleChoiceField):
            scopes.choices = [(scope, scope) for scope in SCOPES if scope != "manage"]


class NewKeyForm(KeyForm):
    """A key to be made for a team, which is made too when it is new."""

    team_name = forms.CharField(
        label=_("Team"), max_length=100, widget=Suggestions, help_text=_("a new name makes a new team")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        teams = (
            Team.objects.filter(tenant_id=self.tenant_id or UUID(int=0)).order_by("name").values_list("name", flat=True)
        )
        field = self.fields["team_name"]
        if self.mine is not None and self.mine.leads:
            field.initial, field.disabled = teams.filter(id=self.mine.team_id or 0).first(), True
        elif isinstance(field.widget, Suggestions):
            field.widget.offered = list(teams[:200])

    def options(self) -> KeyOptions:
        """Return what create_key takes."""
        asked = self.cleaned_data
        return KeyOptions(
            kind=asked["kind"],
            name=asked["name"],
            scopes=asked["scopes"] if "scopes" in self.changed_data else None,
            sources=asked["sources"],
            source_types=asked["source_types"],
            products=asked["products"],
            user_facing=asked["user_facing"],
            models=asked["allowed_models"],
            placement=asked["placement"],
            cache=asked["cache_enabled"],
            origins=asked["origins"],
            expires_at=asked["expires_at"],
            limits=self.chosen_limits(),
        )


class RotateForm(forms.Form):
    """How long the old secret stays valid."""

    overlap = forms.TypedChoiceField(
        label=_("The old secret stays valid for"), choices=OVERLAPS, coerce=int, initial=24, widget=forms.RadioSelect
    )

    def span(self) -> timedelta:
        """Return the overlap as a time."""
        return timedelta(hours=self.cleaned_data["overlap"])
