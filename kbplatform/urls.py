"""Which page answers at which path.

Machine paths never get here: `asgi.py` gives the gateway its own, `machine_paths.py` the API's to its door.
They are named below all the same, for the reference pages and for `reverse`.
"""

from django.contrib import admin
from django.urls import include, path

from kbplatform.views import start

urlpatterns = [
    path("", start, name="start"),
    path("admin/", admin.site.urls),
    path("kb/", include("knowledge.staff.urls")),
    path("", include("proxy.urls")),
]
