"""Django's settings, read once from the environment (names in kbplatform/environment.py)."""

from pathlib import Path
from typing import Any

import django_stubs_ext
import environ as django_environ

from kbplatform.environment import BadSetting, read, upstream_url
from kbplatform.logs import logging_config

django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
VALUES = read()

DEBUG: bool = VALUES["KB_DEBUG"]
# Commands such as makemigrations or build_model run without secrets; the check in kbplatform/checks.py
# stops a server without them.
SECRET_KEY: str = VALUES["KB_SECRET_KEY"] or "unset-secret-key-only-good-for-commands"
ALLOWED_HOSTS = list(VALUES["KB_ALLOWED_HOSTS"])
KB_MODEL_DIR: Path = (
    VALUES["KB_MODEL_DIR"] if VALUES["KB_MODEL_DIR"].is_absolute() else BASE_DIR / VALUES["KB_MODEL_DIR"]
)
# Our own settings, each explained in kbplatform/environment.py.
KB_KEY_PEPPERS: tuple[str, ...] = VALUES["KB_KEY_PEPPERS"]
KB_CREDENTIAL_KEYS: tuple[str, ...] = VALUES["KB_CREDENTIAL_KEYS"]
KB_SECRET_KEY: str = VALUES["KB_SECRET_KEY"]
KB_EMBEDDING_PROVIDER: str = VALUES["KB_EMBEDDING_PROVIDER"]
KB_EMBEDDING_MODEL: str = VALUES["KB_EMBEDDING_MODEL"]
KB_EMBEDDING_BASE_URL: str = VALUES["KB_EMBEDDING_BASE_URL"]
KB_EMBEDDING_API_KEY: str = VALUES["KB_EMBEDDING_API_KEY"]
KB_EVIDENCE_GATE: float = VALUES["KB_EVIDENCE_GATE"]
KB_SEARCH_DEADLINE_MS: int = int(VALUES["KB_SEARCH_DEADLINE_MS"])
KB_MAX_BODY_BYTES: int = int(VALUES["KB_MAX_BODY_BYTES"])
KB_MAX_FILE_BYTES: int = int(VALUES["KB_MAX_FILE_BYTES"])
KB_UPSTREAM_CONNECT_SECONDS: float = VALUES["KB_UPSTREAM_CONNECT_SECONDS"]
KB_UPSTREAM_IDLE_SECONDS: float = VALUES["KB_UPSTREAM_IDLE_SECONDS"]
KB_DRAIN_SECONDS: float = float(VALUES["KB_DRAIN_SECONDS"])
KB_DATABASE_POOL: int = int(VALUES["KB_DATABASE_POOL"])
KB_UPSTREAM_URL: str = VALUES["ANTHROPIC_BASE_URL"]
KB_UPSTREAM_KEY: str = VALUES["ANTHROPIC_API_KEY"]

INSTALLED_APPS = [
    "kbplatform",
    "proxy",
    "knowledge",
    "tenants",
    "tenants.apps.StaffAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "ninja",
    "procrastinate.contrib.django",
]
MIDDLEWARE = [
    "kbplatform.machine_paths.MachinePathsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "kbplatform.middleware.SecurityHeadersMiddleware",
]
ROOT_URLCONF = "kbplatform.urls"
ASGI_APPLICATION = "kbplatform.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def _database(name: str, *, pool: bool) -> dict[str, Any]:
    try:
        found: dict[str, Any] = dict(django_environ.Env.db_url_config(VALUES[name] or "postgresql:///kbplatform"))
    except (ValueError, KeyError) as error:
        raise BadSetting(f"{name} has a bad value: use postgresql://user:password@host:port/database") from error
    found["OPTIONS"] = {**found.get("OPTIONS", {}), "connect_timeout": 10, "application_name": "kbplatform"}
    if pool:
        found["OPTIONS"]["pool"] = {"min_size": 1, "max_size": KB_DATABASE_POOL, "timeout": 10}
    # A pooled connection is checked before use, so that a restart of PostgreSQL costs no request an error.
    found |= {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True, "ATOMIC_REQUESTS": False}
    return found


DATABASES = {
    "default": _database("DATABASE_URL", pool=True),
    "owner": _database("KB_OWNER_DATABASE_URL", pool=False),
    "staff": _database("KB_STAFF_DATABASE_URL", pool=False),
}
DATABASE_ROUTERS = ["tenants.connections.Router"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "tenants.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("es", "Español"), ("ru", "Русский")]
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if VALUES["KB_TRUSTED_PROXY"] else None
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = bool(VALUES["KB_TRUSTED_PROXY"])
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
APPEND_SLASH = False
DATA_UPLOAD_MAX_MEMORY_SIZE = KB_MAX_BODY_BYTES
DATA_UPLOAD_MAX_NUMBER_FILES = 1000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.TemporaryFileUploadHandler"]
LOGGING = logging_config(level=VALUES["KB_LOG_LEVEL"], style=VALUES["KB_LOG_FORMAT"])
LOGGING_CONFIG = "logging.config.dictConfig"
# The rule for upstream addresses, for apps that may not import the project.
CHECK_UPSTREAM_URL = upstream_url
