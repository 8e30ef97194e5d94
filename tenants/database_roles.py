"""The database roles that kbplatform runs as, made on the embedded server or on somebody else's.

Used before Django is set up, so that nothing of it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import sql

ROLES_FILE = Path(__file__).parent / "sql" / "roles.sql"
# The roles that connect; kb_search only owns functions.
LOGIN_ROLES = ("kb_owner", "kb_app", "kb_staff")
_OLDEST = 160_000  # GRANT … WITH INHERIT FALSE, SET TRUE


class RolesNotMade(Exception):
    """The roles could not be made; the message is the server's first line, or says what is missing."""


def roles_sql() -> str:
    """Return what an administrator runs in psql, once, in the database of kbplatform."""
    passwords = "\n".join(f"\\password {role}" for role in LOGIN_ROLES)
    return f"{ROLES_FILE.read_text().rstrip()}\n\n-- psql asks for each password and sends a hash of it.\n{passwords}\n"


def create_roles(url: str, *, passwords: Mapping[str, str]) -> None:
    """Make the roles through an administrator's URL and set their passwords, all or nothing.

    Running it again changes nothing but the passwords given. Raises RolesNotMade.
    """
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            if connection.info.server_version < _OLDEST:
                raise RolesNotMade("PostgreSQL 16 or newer is needed")
            connection.execute(ROLES_FILE.read_text().encode())
            for role, password in passwords.items():
                _set_password(connection, role, password)
    except psycopg.Error as error:
        raise RolesNotMade(str(error).partition("\n")[0]) from error


def _set_password(connection: psycopg.Connection[tuple[object, ...]], role: str, password: str) -> None:
    # Only the SCRAM verifier travels, so the server's log never holds the password.
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(verifier))
    connection.execute(statement)
