"""Addresses of the staff's pages of a tenant, under /kb/."""

from django.urls import path

from knowledge.staff import views

app_name = "kb"
urlpatterns = [
    path("", views.tenants, name="tenants"),
    path("<slug:slug>/", views.tenant, name="tenant"),
    path("<slug:slug>/upload/", views.upload, name="upload"),
    path("<slug:slug>/jobs/<int:job_id>/", views.job, name="job"),
    path("<slug:slug>/jobs/<int:job_id>/finish/", views.finish, name="finish"),
    path("<slug:slug>/jobs/<int:job_id>/visible/", views.show_to_visitors, name="show_to_visitors"),
]
