"""Sealing of upstream credentials, so that a copied row or a stolen dump opens nothing.

AES-256-GCM with the tenant, table, column and row as associated data: a value copied into another
tenant's row does not open (a Fernet token would).
"""

import os
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

_NONCE_BYTES = 12


class NoCredentialKey(Exception):
    """KB_CREDENTIAL_KEYS is not set: give id:hex of 32 random bytes, and keep it."""


class CannotOpen(Exception):
    """A sealed credential was made with a key that is no longer in KB_CREDENTIAL_KEYS, or for another row."""


def seal(tenant_id: UUID, secret: str, *, place: str) -> bytes:
    """Return the sealed secret; place names table, column and row. "" seals to b""."""
    if not secret:
        return b""
    key_id, key = _ring()[0]
    nonce = os.urandom(_NONCE_BYTES)
    return key_id.encode() + b":" + nonce + AESGCM(key).encrypt(nonce, secret.encode(), _context(tenant_id, place))


def unseal(tenant_id: UUID, sealed: bytes, *, place: str) -> str:
    """Return the secret of a sealed value; raises CannotOpen. b"" opens to ""."""
    if not sealed:
        return ""
    key_id, _, rest = bytes(sealed).partition(b":")
    key = dict(_ring()).get(key_id.decode("ascii", "replace"))
    if key is None:
        raise CannotOpen("the credential was sealed with a key that KB_CREDENTIAL_KEYS no longer holds")
    try:
        opened = AESGCM(key).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _context(tenant_id, place))
    except InvalidTag as error:
        raise CannotOpen("the sealed credential does not belong to this row") from error
    return opened.decode()


def _context(tenant_id: UUID, place: str) -> bytes:
    return f"{tenant_id}|{place}".encode()


def _ring() -> list[tuple[str, bytes]]:
    pairs = [pair.partition(":") for pair in settings.KB_CREDENTIAL_KEYS]
    ring = [(key_id, bytes.fromhex(text)) for key_id, _, text in pairs]
    if not ring:
        raise NoCredentialKey("KB_CREDENTIAL_KEYS is not set")
    return ring
