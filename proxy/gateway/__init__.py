"""The Messages API for the tenants' clients: the request goes upstream as it came, with knowledge beside
its question.

The only package written for asyncio. Reading order: `paths` (which requests are ours), `edge` (one request
from key to usage row), `classify` (is there a question?), `enrich` (search, memory, block), `splice` (into
the received bytes), `upstream` and `relay` (there and back), `usage_tap` and `booking` (what it cost).
"""
