"""Deployment checks: what a reachable server must not be without."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register

NEEDED = ("KB_SECRET_KEY", "KB_KEY_PEPPERS", "KB_CREDENTIAL_KEYS")


@register(Tags.security, deploy=True)
def check_secrets(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the secrets a server needs are set."""
    return [
        Error(
            f"{name} is not set",
            hint="./kb up makes it; elsewhere set it once and keep it",
            id="kbplatform.E001",
        )
        for name in NEEDED
        if not getattr(settings, name)
    ]
