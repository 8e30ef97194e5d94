"""Teams: what they may use in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenants import audit, changes
from tenants.limits import check_limits
from tenants.models import Team
from tenants.scope import HasTenantId, tenant_scope


class UnknownTeam(Exception):
    """No team of that name; the message names it."""


@dataclass(frozen=True, slots=True)
class TeamFacts:
    """A team's settings at one moment."""

    name: str
    limits: dict[str, Any]


def set_team(tenant: HasTenantId, name: str, *, limits: Mapping[str, object], actor: str) -> TeamFacts:
    """Set the limits that are given and take away those given as None; the others stay.

    Raises UnknownTeam, or BadLimit and then changes none.
    """
    check_limits(limits)
    with tenant_scope(tenant):
        team = Team.objects.select_for_update().filter(tenant_id=tenant.id, name=name).first()
        if team is None:
            raise UnknownTeam(f"no team {name}; `create_key --team {name}` makes it")
        merged = {**team.limits, **limits}
        team.limits = {known: value for known, value in merged.items() if value is not None}
        team.save(update_fields=["limits"])
        audit.record(tenant, actor, action="team.set", subject=name, detail={"limits": team.limits})
        changes.announce(tenant)
    return TeamFacts(team.name, team.limits)
