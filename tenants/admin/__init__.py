"""The admin pages of tenants: one module per question that somebody opens the admin with."""

from tenants.admin import access, keys, people, records

__all__ = ["access", "keys", "people", "records"]
