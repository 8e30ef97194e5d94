"""The staff's pages of a tenant's knowledge."""
