"""The app that speaks with machines."""

from django.apps import AppConfig


class ProxyConfig(AppConfig):
    """The gateway, the API for programs, MCP and the widget's endpoints."""

    name = "proxy"
    verbose_name = "Proxy"
