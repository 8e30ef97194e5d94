"""What the gateway counts for operators."""

from typing import Final

from prometheus_client import Counter

# The share of "question" per client version tells when a client has changed its wording (see wording.py).
REQUESTS: Final = Counter("kb_gateway_requests", "Requests by what they were taken for", ["kind"])
LOOKUPS: Final = Counter("kb_gateway_lookups", "Questions by what their look-up gave", ["result"])
