"""The machine endpoints' paths, below the root or below /t/<tenant>; the door resolves them."""

from __future__ import annotations

from django.urls import path

from proxy.api import documents, ingest, query
from proxy.api.application import api

# Their functions register themselves.
ENDPOINTS = (query, ingest, documents)

urlpatterns = [path("", api.urls)]
