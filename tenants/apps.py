"""The app that knows who asks and what they may spend."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class TenantsConfig(AppConfig):
    """Tenants, teams, keys, roles, isolation and usage."""

    name = "tenants"
    verbose_name = "Tenants"
    default = True

    def ready(self) -> None:
        """Register the system checks of row isolation."""
        from tenants import checks  # noqa: F401


class StaffAdminConfig(admin_apps.AdminConfig):
    """Django's admin on our site class."""

    default = False
    default_site = "tenants.adminsite.StaffSite"
