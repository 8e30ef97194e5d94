"""Sources and their pages."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func, IntegerField, Q
from django.db.models.lookups import LessThanOrEqual

from tenants.rows import TenantForeignKey, TenantModel

# What can be said about a page by hand, by its front matter or request, or by its source.
FLAGS = ("source_type", "app", "product", "user_facing", "language")
LONGEST_PATH = 1_024


def _bytes_of(field: str) -> Func:
    return Func(field, function="octet_length", output_field=IntegerField())


class SourceKind(models.TextChoices):
    """Where a source's pages come from."""

    WIKI = "wiki", "wiki"
    API = "api", "API"
    UPLOAD = "upload", "upload"
    FOLDER = "folder", "folder"
    GIT = "git", "git"
    WEBSITE = "website", "website"


def source_kinds() -> list[tuple[str, str]]:
    """Return the kinds of sources; a new one needs no migration."""
    return list(SourceKind.choices)


class MadeBy(models.TextChoices):
    """Whether our chunker cut the page or the caller gave its chunks."""

    DOCUMENTS = "documents", "whole documents"
    CHUNKS = "chunks", "given chunks"


class Source(TenantModel):
    """Where pages come from; its flags hold for every page that says nothing itself."""

    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=16, choices=source_kinds, default=SourceKind.API)

    source_type = models.CharField(max_length=32, blank=True)
    app = models.CharField(max_length=100, blank=True)
    product = models.CharField(max_length=100, blank=True)
    user_facing = models.BooleanField(null=True, blank=True, help_text="unknown: the tenant's rule decides")
    settings = models.JSONField(default=dict, blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    last_sync_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="source_name_once_per_tenant"),
            models.CheckConstraint(condition=~Q(name=""), name="source_has_a_name"),
        ]

    def __str__(self) -> str:
        return self.name


class PageQuerySet(models.QuerySet["Page"]):
    """Filters of pages."""

    def retrievable(self) -> PageQuerySet:
        """Return the pages that a search can find: those with a chunk."""
        return self.filter(chunk_count__gt=0)


class Page(TenantModel):
    """One document: a wiki page, a file, an upload. A page is (source, path).

    source_type, app, product and user_facing are the page's own; empty or unknown means the source's.
    hand_flags names those that a person set, which ingest leaves alone.
    """

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="pages")
    path = models.CharField(max_length=LONGEST_PATH, db_collation="C")
    slug = models.CharField(max_length=255)

    title = models.CharField(max_length=500)
    body = models.TextField(blank=True)
    url = models.CharField(max_length=2_000, blank=True)
    content_hash = models.CharField(max_length=64)
    made_by = models.CharField(max_length=10, choices=MadeBy.choices, default=MadeBy.DOCUMENTS)
    revision = models.PositiveIntegerField(default=0)
    chunk_count = models.PositiveIntegerField(default=0)

    language = models.CharField(max_length=8, default="en", help_text="ISO code")
    source_type = models.CharField(max_length=32, blank=True)
    app = models.CharField(max_length=100, blank=True)
    product = models.CharField(max_length=100, blank=True)
    user_facing = models.BooleanField(null=True, blank=True)
    hand_flags = ArrayField(models.CharField(max_length=16), default=list, blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = PageQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "source", "path"], name="page_path_once_per_source"),
            models.UniqueConstraint(fields=["tenant", "slug"], name="page_slug_once_per_tenant"),
            models.CheckConstraint(condition=~Q(path="") & ~Q(slug=""), name="page_has_path_and_slug"),
            # An entry of a btree holds 2,704 bytes.
            models.CheckConstraint(
                condition=LessThanOrEqual(_bytes_of("path"), 2_048), name="page_path_fits_its_index"
            ),
        ]
        indexes: ClassVar = [
            # kb_search, for the filter by path prefix; deletion by path over all sources.
            models.Index(fields=["tenant", "path"], name="page_by_path"),
            # The pages list of the console, newest first.
            models.Index(fields=["tenant", "-updated_at"], name="page_newest"),
        ]

    def __str__(self) -> str:
        return self.path
