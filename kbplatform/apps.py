"""The project as an app: its commands, checks and start page."""

from django.apps import AppConfig


class KbplatformConfig(AppConfig):
    """Puts the other apps together and holds no logic of its own."""

    name = "kbplatform"

    def ready(self) -> None:
        """Register the checks of the deployment."""
        from kbplatform import checks  # noqa: F401
