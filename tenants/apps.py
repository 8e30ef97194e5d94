"""The app that knows who asks and what they may spend."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Tenants, teams, keys, roles, isolation and usage."""

    name = "tenants"
    verbose_name = "Tenants"

    def ready(self) -> None:
        """Register the system checks of row isolation."""
        from tenants import checks  # noqa: F401
