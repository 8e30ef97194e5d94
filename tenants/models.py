"""Tenants and who may act for them: teams, keys, staff, audit, usage."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q

from tenants.rows import TenantForeignKey, TenantModel

SLUG = RegexValidator(r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$", "use a-z, 0-9 and inner hyphens, 63 at most")
SCOPES = ("messages", "query", "ask", "mcp", "pages", "ingest", "manage")


class Placement(models.TextChoices):
    """Where knowledge goes in a gateway request (docs/gateway.md says what each costs)."""

    MESSAGE = "message", "before the question, remembered for the session"
    ONCE = "once", "before the question, in its own request only"
    SYSTEM = "system", "last system block"
    OFF = "off", "no knowledge"


class UnmarkedPages(models.TextChoices):
    """What a page without a user-facing mark counts as."""

    INTERNAL = "internal", "internal"
    USER_FACING = "user-facing", "user-facing"


class User(AbstractUser):
    """A person who can sign in; what they may enter is said by their memberships."""


class Tenant(models.Model):
    """One customer or product with its own corpus, keys, settings and bills."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    language = models.CharField(max_length=8, default="en", help_text="ISO code; for text whose language is not clear")
    product = models.CharField(max_length=100, blank=True, help_text="pages of another product are not user-facing")
    unmarked_pages = models.CharField(max_length=16, choices=UnmarkedPages.choices, default=UnmarkedPages.INTERNAL)

    gate = models.FloatField(default=0.25, validators=[MinValueValidator(0.05), MaxValueValidator(0.6)])
    dense_weight = models.FloatField(default=0.4, validators=[MinValueValidator(0), MaxValueValidator(1)])
    top_k = models.PositiveSmallIntegerField(default=6, validators=[MinValueValidator(1), MaxValueValidator(64)])
    placement = models.CharField(max_length=10, choices=Placement.choices, default=Placement.MESSAGE)
    search_deadline_ms = models.PositiveIntegerField(
        default=150, validators=[MinValueValidator(10), MaxValueValidator(10_000)]
    )
    tokens_per_question = models.PositiveIntegerField(default=1_000)
    tokens_per_session = models.PositiveIntegerField(default=20_000)

    upstream_url = models.CharField(max_length=500, blank=True)
    upstream_key = models.BinaryField(blank=True, default=bytes, help_text="sealed by tenants/credentials.py")
    bring_your_own_key = models.BooleanField(default=False)
    retries = models.PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(5)])

    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(gate__gte=0.05, gate__lte=0.6), name="tenant_gate_in_range"),
            models.CheckConstraint(
                condition=Q(dense_weight__gte=0, dense_weight__lte=1), name="tenant_weight_in_range"
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Team(TenantModel):
    """A group inside a tenant that owns keys and budgets."""

    name = models.CharField(max_length=100)
    limits = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "name"], name="team_name_once_per_tenant")]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a member of a tenant's staff may do."""

    VIEWER = "viewer", "viewer"
    EDITOR = "editor", "editor"
    MANAGER = "manager", "manager"
    LEAD = "lead", "team lead"


class Membership(TenantModel):
    """A person's role in a tenant."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.VIEWER)
    team = TenantForeignKey(
        Team,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="the team that a team lead leads",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "user"], name="member_once_per_tenant")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role}"


class KeyKind(models.TextChoices):
    """A team key is secret; a widget key is published on a web page."""

    TEAM = "sk", "team key"
    WIDGET = "pk", "widget key"


class KeyQuerySet(models.QuerySet["Key"]):
    """Filters of keys."""

    def active(self) -> KeyQuerySet:
        """Return the keys that have not been revoked (they may still have expired)."""
        return self.filter(revoked_at__isnull=True)


class Key(TenantModel):
    """What a program shows to act for a team; its secrets are kept as digests in KeySecret."""

    team = TenantForeignKey(Team, on_delete=models.CASCADE, related_name="keys")
    kind = models.CharField(max_length=2, choices=KeyKind.choices, default=KeyKind.TEAM)
    public_id = models.CharField(max_length=40, help_text="kb_sk_<id>: all of the key that is ever shown again")
    name = models.CharField(max_length=100, blank=True)
    scopes = ArrayField(models.CharField(max_length=16), default=list, blank=True)

    sources = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    source_types = ArrayField(models.CharField(max_length=32), default=list, blank=True)
    products = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    user_facing = models.BooleanField(default=False, help_text="user-facing pages only")
    allowed_models = ArrayField(
        models.CharField(max_length=100), default=list, blank=True, help_text="allowed models; none: all"
    )
    placement = models.CharField(max_length=10, choices=Placement.choices, blank=True)
    cache_enabled = models.BooleanField(default=False)
    subagent_knowledge = models.BooleanField(default=False)
    origins = ArrayField(models.CharField(max_length=200), default=list, blank=True)
    limits = models.JSONField(default=dict, blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    objects = KeyQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "public_id"], name="key_public_id_once"),
        ]

    def __str__(self) -> str:
        return self.public_id


class KeySecret(TenantModel):
    """A secret that opens a key: one as a rule, two while a rotation overlaps."""

    key = TenantForeignKey(Key, on_delete=models.CASCADE, related_name="secrets")
    digest = models.BinaryField(max_length=32, help_text="HMAC-SHA256 of the whole key under a pepper")
    pepper_id = models.CharField(max_length=16)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # Digests are looked up before a tenant is known, by kb_resolve_key.
        indexes: ClassVar = [models.Index(F("digest"), name="key_secret_digest")]
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant", "digest"], name="key_secret_once")]

    def __str__(self) -> str:
        return f"secret of key {self.key_id}"


class AuditEntry(TenantModel):
    """Something that a person or program did to a tenant; never changed, never deleted but with the tenant."""

    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        # The audit page reads a tenant's newest entries.
        indexes: ClassVar = [models.Index(fields=["tenant", "-created_at"], name="audit_newest")]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject}"


class Usage(TenantModel):
    """One answer of an upstream, as it is billed."""

    request_id = models.CharField(max_length=40)
    kind = models.CharField(max_length=16, default="gateway")
    key_public_id = models.CharField(max_length=40)
    team = models.CharField(max_length=100)
    model = models.CharField(max_length=100, blank=True)
    session_id = models.CharField(max_length=100, blank=True)
    x_cache = models.CharField(max_length=16)
    status = models.PositiveSmallIntegerField()
    outcome = models.CharField(max_length=16, default="complete", help_text="complete, aborted, cut or error")

    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cache_write_5m_tokens = models.PositiveIntegerField(default=0)
    cache_write_1h_tokens = models.PositiveIntegerField(default=0)
    cache_read_tokens = models.PositiveIntegerField(default=0)
    server_tool_use = models.JSONField(default=dict)
    knowledge_tokens = models.PositiveIntegerField(default=0)

    upstream_ms = models.FloatField(default=0)
    total_ms = models.FloatField(default=0)
    ttfb_ms = models.FloatField(null=True)
    overhead_ms = models.FloatField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "request_id"], name="usage_once_per_request")
        ]
        # Reports read a tenant's time span.
        indexes: ClassVar = [models.Index(fields=["tenant", "created_at"], name="usage_by_time")]
        verbose_name_plural = "usage"

    def __str__(self) -> str:
        return self.request_id
