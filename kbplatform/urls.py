"""Which page answers at which path; machine paths of the gateway are chosen in asgi.py before this."""

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
]
