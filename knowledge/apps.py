"""The corpus: sources, pages, chunks, ingest, search."""

from django.apps import AppConfig


class KnowledgeConfig(AppConfig):
    """Django's handle on the app."""

    name = "knowledge"
    verbose_name = "Knowledge"
    default_auto_field = "django.db.models.BigAutoField"
