"""The staff's page of a tenant, and the admin of sources and pages: who may do what, and what becomes of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from knowledge.ingest import run_documents
from knowledge.jobs import job_report
from knowledge.models import Job, Page, Source
from knowledge.staff.overview import overview
from tenants.facts import TenantFacts
from tenants.models import AuditEntry, Role
from tenants.scope import tenant_scope
from tests.make import make_member, make_user

JSON = {"Accept": "application/json"}


def signed_in(user: Any) -> Client:
    """Return a browser in which somebody is signed in."""
    client = Client()
    client.force_login(user)
    return client


def editor(tenant: TenantFacts) -> Client:
    """Return an editor's browser."""
    return signed_in(make_member(tenant, role=Role.EDITOR))


def sent(name: str, text: str) -> SimpleUploadedFile:
    """Return a file as a browser sends it."""
    return SimpleUploadedFile(name, text.encode())


def upload(client: Client, tenant: TenantFacts, **files: str) -> Any:
    """Post files as a plain form does; names with "_" for "."."""
    chosen = [sent(name.replace("_", "."), text) for name, text in files.items()]
    return client.post(f"/kb/{tenant.slug}/upload/", {"source": "manuals", "file": chosen})


def part(client: Client, tenant: TenantFacts, *paths: str, **fields: object) -> Any:
    """Post a part of an upload as the page's script does."""
    files = [sent(path.rpartition("/")[2], f"# {path}\n\nWhat {path} says.") for path in paths]
    values = {"source": "manuals", "upload": "", "first": 0, "last": "", "path": list(paths), "file": files}
    return client.post(f"/kb/{tenant.slug}/upload/", {**values, **fields}, headers=JSON)


def job_of(tenant: TenantFacts) -> Job:
    """Return the tenant's newest job."""
    with tenant_scope(tenant):
        return Job.objects.filter(tenant_id=tenant.id).latest("created_at")


def indexed(client: Client, tenant: TenantFacts, **files: str) -> Job:
    """Upload files and do the worker's work."""
    assert upload(client, tenant, **files).status_code == 302
    job = job_of(tenant)
    run_documents(tenant, job.pk)
    return job


def paths_of(tenant: TenantFacts) -> set[str]:
    """Return the paths of the tenant's pages."""
    with tenant_scope(tenant):
        return set(Page.objects.filter(tenant_id=tenant.id).values_list("path", flat=True))


def test_it_works(tenant: TenantFacts) -> None:
    client = editor(tenant)
    answer = upload(client, tenant, guide_md="# Guide\n\nPress the green button.")
    job = job_of(tenant)
    assert answer.headers["Location"] == f"/kb/{tenant.slug}/jobs/{job.pk}/"
    assert "waiting" in client.get(answer.headers["Location"]).content.decode()
    run_documents(tenant, job.pk)
    text = client.get(f"/kb/{tenant.slug}/jobs/{job.pk}/").content.decode()
    assert "1 page, 0 visible to visitors" in " ".join(text.split())
    assert paths_of(tenant) == {"guide.md"}


def test_the_page_shows_counts_rules_and_where_texts_go(tenant: TenantFacts, settings: Any) -> None:
    client = editor(tenant)
    indexed(client, tenant, guide_md="# Guide\n\nPress the green button.")
    text = client.get(f"/kb/{tenant.slug}/").content.decode()
    assert re.findall(r"<dd>\s*(\d+)\s*</dd>", text) == ["1", "0", "1", "1"]
    assert "node_modules" in text
    assert "stay on this server" in text
    settings.KB_EMBEDDING_PROVIDER = "openai"
    settings.KB_EMBEDDING_BASE_URL = "https://embeddings.example/v1"
    assert "<strong>embeddings.example</strong>" in client.get(f"/kb/{tenant.slug}/").content.decode()


def test_pages_become_visible_by_the_button(tenant: TenantFacts) -> None:
    client = editor(tenant)
    job = indexed(client, tenant, guide_md="# Guide\n\nPress the green button.")
    answer = client.post(f"/kb/{tenant.slug}/jobs/{job.pk}/visible/", headers={"HX-Request": "true"})
    text = " ".join(answer.content.decode().split())
    assert "1 page, 1 visible to visitors" in text
    assert "<html" not in text
    assert "Make them visible" not in text
    assert overview(tenant).visible == 1


def test_a_file_that_is_not_read_has_its_reason(tenant: TenantFacts) -> None:
    client = editor(tenant)
    job = indexed(client, tenant, photo_jpg="not really", guide_md="# Guide\n\nText.", data_txt="a\0b" * 50)
    text = client.get(f"/kb/{tenant.slug}/jobs/{job.pk}/").content.decode()
    assert "kind .jpg is not read" in text
    assert "binary data" in text
    assert "2 skipped" in text


def test_parts_of_one_upload_are_one_job(tenant: TenantFacts) -> None:
    client = editor(tenant)
    opened = part(client, tenant, "a.md", "sub/b.md").json()["upload"]
    job = job_of(tenant)
    assert (str(job.pk), job.seen) == (opened, 2)
    assert "is not complete" in client.get(f"/kb/{tenant.slug}/jobs/{opened}/").content.decode()
    answer = part(client, tenant, "sub/c.md", upload=opened, first=2, last="1").json()
    assert answer["page"] == f"/kb/{tenant.slug}/jobs/{opened}/"
    run_documents(tenant, job.pk)
    assert paths_of(tenant) == {"a.md", "sub/b.md", "sub/c.md"}
    report = job_report(tenant, opened)
    assert report is not None
    assert (report["state"], report["source"]) == ("done", "manuals")


def test_a_part_that_is_sent_again_counts_once(tenant: TenantFacts) -> None:
    client = editor(tenant)
    opened = part(client, tenant, "a.md").json()["upload"]
    for _ in range(2):
        assert part(client, tenant, "b.md", upload=opened, first=1, last="1").status_code == 200
    assert job_of(tenant).seen == 2


def test_a_browser_is_not_believed_to_have_left_things_out(tenant: TenantFacts) -> None:
    client = editor(tenant)
    opened = part(client, tenant, "node_modules/x.md", "../up.md", "CLAUDE.md", "ok.md", last="1").json()["upload"]
    run_documents(tenant, int(opened))
    assert paths_of(tenant) == {"ok.md"}
    report = job_report(tenant, opened)
    assert report is not None
    assert report["counts"] == {
        "seen": 4, "indexed": 1, "unchanged": 0, "skipped": 3, "quarantined": 0, "failed": 0
    }  # fmt: skip


def test_a_file_over_the_limit_is_skipped_unread(tenant: TenantFacts, settings: Any) -> None:
    settings.KB_MAX_FILE_BYTES = 10
    client = editor(tenant)
    opened = part(client, tenant, "long.md", last="1").json()["upload"]
    report = job_report(tenant, opened)
    assert report is not None
    assert "larger than 10 bytes" in str(report["files"])


def test_an_upload_that_broke_off_can_be_indexed(tenant: TenantFacts) -> None:
    client = editor(tenant)
    opened = part(client, tenant, "a.md").json()["upload"]
    assert client.post(f"/kb/{tenant.slug}/jobs/{opened}/finish/").status_code == 302
    run_documents(tenant, int(opened))
    assert paths_of(tenant) == {"a.md"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"first": -1}, "first"),
        ({"upload": 12345, "first": 1}, "no upload"),
        ({"path": ["a.md", "b.md"]}, "one path"),
        ({"source": " \n "}, "source"),
        ({"source": "x" * 101}, "source"),
    ],
)
def test_a_bad_part_is_explained(tenant: TenantFacts, fields: dict[str, object], said: str) -> None:
    answer = part(editor(tenant), tenant, "a.md", **fields)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_a_form_without_a_file_is_explained(tenant: TenantFacts) -> None:
    answer = upload(editor(tenant), tenant)
    assert answer.status_code == 400
    assert "at least one file" in answer.content.decode()


def test_the_upload_of_a_rival_is_no_upload(tenant: TenantFacts, rival: TenantFacts) -> None:
    opened = part(editor(rival), rival, "theirs.md").json()["upload"]
    answer = part(editor(tenant), tenant, "mine.md", upload=opened, first=1, last="1")
    assert answer.status_code == 400
    assert job_of(rival).seen == 1


def addresses(tenant: TenantFacts, job_id: int) -> list[tuple[str, str]]:
    """Return every address of a tenant's pages with its method."""
    named = {name: reverse(f"kb:{name}", args=[tenant.slug, job_id]) for name in ("job", "finish", "show_to_visitors")}
    return [
        ("get", reverse("kb:tenant", args=[tenant.slug])),
        ("post", reverse("kb:upload", args=[tenant.slug])),
        ("get", named["job"]),
        ("post", named["finish"]),
        ("post", named["show_to_visitors"]),
    ]


def statuses(client: Client, tenant: TenantFacts, job_id: int) -> list[int]:
    """Return what each address answers."""
    return [getattr(client, method)(address).status_code for method, address in addresses(tenant, job_id)]


@pytest.mark.parametrize(
    ("role", "answers"),
    [
        (Role.VIEWER, [200, 403, 200, 403, 403]),
        (Role.EDITOR, [200, 400, 200, 302, 302]),
        (Role.MANAGER, [200, 400, 200, 302, 302]),
        (Role.LEAD, [403, 403, 403, 403, 403]),
    ],
)
def test_what_each_role_may_do(tenant: TenantFacts, role: str, answers: list[int]) -> None:
    job = indexed(editor(tenant), tenant, guide_md="# Guide\n\nText.")
    assert statuses(signed_in(make_member(tenant, role=role)), tenant, job.pk) == answers


def test_a_superuser_may_do_everything_and_is_audited(tenant: TenantFacts) -> None:
    job = indexed(editor(tenant), tenant, guide_md="# Guide\n\nText.")
    client = signed_in(make_user(superuser=True))
    assert statuses(client, tenant, job.pk) == [200, 400, 200, 302, 302]
    with tenant_scope(tenant):
        looks = AuditEntry.objects.filter(tenant_id=tenant.id, action="staff.read").values_list("subject", flat=True)
        assert set(looks) == {f"/kb/{tenant.slug}/", f"/kb/{tenant.slug}/jobs/{job.pk}/"}


def test_a_foreign_tenant_answers_as_an_unknown_one(tenant: TenantFacts, rival: TenantFacts) -> None:
    job = indexed(editor(rival), rival, secret_md="# Secret\n\nText.")
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    foreign = client.get(f"/kb/{rival.slug}/")
    unknown = client.get("/kb/nobody-here/")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert statuses(client, rival, job.pk) == [404] * 5


def test_a_foreign_job_answers_as_an_unknown_one(tenant: TenantFacts, rival: TenantFacts) -> None:
    theirs = indexed(editor(rival), rival, secret_md="# Secret\n\nText.")
    client = editor(tenant)
    assert statuses(client, tenant, theirs.pk)[2:] == [404] * 3
    assert statuses(client, tenant, 10**30)[2:] == [404] * 3


def test_who_is_not_signed_in_is_sent_to_sign_in(tenant: TenantFacts) -> None:
    client = Client()
    page = client.get(f"/kb/{tenant.slug}/")
    assert page.headers["Location"] == f"/admin/login/?next=/kb/{tenant.slug}/".replace("/kb", "%2Fkb").replace(
        f"{tenant.slug}/", f"{tenant.slug}%2F"
    ).replace("kb/", "kb%2F")
    partial = client.get(f"/kb/{tenant.slug}/jobs/1/", headers={"HX-Request": "true"})
    assert partial.headers["HX-Redirect"].startswith("/admin/login/")
    assert part(client, tenant, "a.md").status_code == 401


def test_a_form_without_its_token_is_refused(tenant: TenantFacts) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_member(tenant, role=Role.EDITOR))
    assert upload(client, tenant, guide_md="text").status_code == 403


def test_the_list_of_tenants_holds_the_own_ones(tenant: TenantFacts, rival: TenantFacts) -> None:
    user = make_member(tenant, role=Role.VIEWER)
    assert signed_in(user).get("/kb/").headers["Location"] == f"/kb/{tenant.slug}/"
    make_member(rival, role=Role.VIEWER, user=user)
    text = signed_in(user).get("/kb/").content.decode()
    assert tenant.slug in text
    assert rival.slug in text
    assert "no member" in signed_in(make_user()).get("/kb/").content.decode()


def test_names_of_files_are_shown_as_text(tenant: TenantFacts) -> None:
    client = editor(tenant)
    opened = part(client, tenant, "<img src=x>.exe", last="1").json()["upload"]
    text = client.get(f"/kb/{tenant.slug}/jobs/{opened}/").content.decode()
    assert "&lt;img src=x&gt;.exe" in text
    assert "<img src=x>" not in text


def test_a_polled_job_stops_polling_when_it_has_ended(tenant: TenantFacts) -> None:
    client = editor(tenant)
    upload(client, tenant, guide_md="# Guide\n\nText.")
    address = f"/kb/{tenant.slug}/jobs/{job_of(tenant).pk}/"
    waiting = client.get(address, headers={"HX-Request": "true"})
    assert "every 2s" in waiting.content.decode()
    run_documents(tenant, job_of(tenant).pk)
    ended = client.get(address, headers={"HX-Request": "true"})
    assert "every 2s" not in ended.content.decode()
    assert ended.headers["HX-Trigger-After-Settle"] == "kb-counts-moved"


def pages_of(tenant: TenantFacts) -> dict[str, tuple[Any, str, list[str]]]:
    """Return each page's mark, product and flags set by hand, by path."""
    with tenant_scope(tenant):
        rows = Page.objects.filter(tenant_id=tenant.id)
        return {row.path: (row.user_facing, row.product, row.hand_flags) for row in rows}


def act(client: Client, tenant: TenantFacts, action: str, **fields: str) -> Any:
    """Do an admin action on all pages of the tenant."""
    with tenant_scope(tenant):
        ids = list(Page.objects.filter(tenant_id=tenant.id).values_list("id", flat=True))
    chosen = {"action": action, "_selected_action": ids, **fields}
    return client.post(f"/admin/knowledge/page/?tenant={tenant.slug}", chosen)


@pytest.mark.parametrize("table", ["source", "page"])
def test_everybody_sees_the_own_rows_in_the_admin(tenant: TenantFacts, rival: TenantFacts, table: str) -> None:
    indexed(editor(tenant), tenant, mine_md="# Mine\n\nText.")
    indexed(editor(rival), rival, theirs_md="# Theirs\n\nText.")
    for user in (make_user(superuser=True), make_member(tenant, role=Role.VIEWER)):
        client = signed_in(user)
        text = client.get(f"/admin/knowledge/{table}/", {"tenant": tenant.slug}).content.decode()
        link = re.findall(rf'href="(/admin/knowledge/{table}/[^"/]+/change/[^"]*)"', text)[0].replace("&amp;", "&")
        assert client.get(link).status_code == 200
        assert "theirs.md" not in text
    assert client.get(f"/admin/knowledge/{table}/", {"tenant": rival.slug}).status_code == 404


def test_a_foreign_page_is_not_found_in_the_admin(tenant: TenantFacts, rival: TenantFacts) -> None:
    indexed(editor(rival), rival, theirs_md="# Theirs\n\nText.")
    with tenant_scope(rival):
        theirs = Page.objects.get(tenant_id=rival.id)
    client = editor(tenant)
    answer = client.get(f"/admin/knowledge/page/{theirs.pk}/change/", follow=True)
    assert "Theirs" not in answer.content.decode()
    chosen = {"action": "show_to_visitors", "_selected_action": str(theirs.pk)}
    client.post("/admin/knowledge/page/", chosen)
    assert pages_of(rival)["theirs.md"][0] is None


@pytest.mark.parametrize(
    ("action", "mark"), [("show_to_visitors", True), ("keep_internal", False), ("clear_mark", None)]
)
def test_marks_are_set_by_hand(tenant: TenantFacts, action: str, mark: bool | None) -> None:
    client = editor(tenant)
    indexed(client, tenant, a_md="# A\n\nText.", b_md="# B\n\nText.")
    act(client, tenant, action)
    assert set(map(str, pages_of(tenant).values())) == {str((mark, "", ["user_facing"]))}


def test_a_superuser_marks_pages_of_several_tenants(tenant: TenantFacts, rival: TenantFacts) -> None:
    indexed(editor(tenant), tenant, a_md="# A\n\nText.")
    indexed(editor(rival), rival, b_md="# B\n\nText.")
    client = signed_in(make_user(superuser=True))
    act(client, tenant, "show_to_visitors")
    assert pages_of(tenant)["a.md"][0] is True
    assert pages_of(rival)["b.md"][0] is None


def test_a_product_is_asked_for_and_set(tenant: TenantFacts) -> None:
    client = editor(tenant)
    indexed(client, tenant, a_md="# A\n\nText.")
    assert 'name="flag"' in act(client, tenant, "set_flag").content.decode()
    wrong = act(client, tenant, "set_flag", confirmed="yes", flag="language", value="klingon")
    assert "is no language" in wrong.content.decode()
    act(client, tenant, "set_flag", confirmed="yes", flag="product", value="boiler")
    assert pages_of(tenant)["a.md"] == (None, "boiler", ["product"])


def test_pages_are_deleted_after_a_question(tenant: TenantFacts) -> None:
    client = editor(tenant)
    indexed(client, tenant, a_md="# A\n\nText.")
    assert "Delete these pages" in act(client, tenant, "delete_pages").content.decode()
    assert paths_of(tenant) == {"a.md"}
    act(client, tenant, "delete_pages", confirmed="yes")
    assert paths_of(tenant) == set()
    assert overview(tenant).stats.chunks == 0


def test_a_viewer_changes_nothing(tenant: TenantFacts) -> None:
    indexed(editor(tenant), tenant, a_md="# A\n\nText.")
    client = signed_in(make_member(tenant, role=Role.VIEWER))
    act(client, tenant, "show_to_visitors")
    act(client, tenant, "delete_pages", confirmed="yes")
    assert pages_of(tenant) == {"a.md": (None, "", [])}


def test_a_pages_flags_are_set_on_its_page(tenant: TenantFacts) -> None:
    client = editor(tenant)
    indexed(client, tenant, a_md="# A\n\n<b>bold</b> text.")
    with tenant_scope(tenant):
        page = Page.objects.get(tenant_id=tenant.id)
    address = f"/admin/knowledge/page/{page.pk}/change/"
    assert "&lt;b&gt;bold" in client.get(address).content.decode()
    sent_back = {"user_facing": "true", "product": "boiler", "app": "", "source_type": "", "language": page.language}
    assert client.post(address, sent_back).status_code == 302
    assert pages_of(tenant)["a.md"] == (True, "boiler", ["product", "user_facing"])


def test_what_a_source_says_moves_the_corpus(tenant: TenantFacts) -> None:
    client = editor(tenant)
    indexed(client, tenant, a_md="# A\n\nText.")
    before = overview(tenant)
    with tenant_scope(tenant):
        source = Source.objects.get(tenant_id=tenant.id)
    address = f"/admin/knowledge/source/{source.pk}/change/"
    sent_back = {"user_facing": "true", "product": "", "app": "", "source_type": "manual"}
    assert client.post(address, sent_back).status_code == 302
    after = overview(tenant)
    assert (before.visible, after.visible) == (0, 1)
    assert after.stats.corpus_version > before.stats.corpus_version


def test_a_source_can_be_added_once(tenant: TenantFacts) -> None:
    client = editor(tenant)
    fields = {"name": "handbook", "kind": "upload", "user_facing": ""}
    assert client.post("/admin/knowledge/source/add/", fields).status_code == 302
    assert "already exists" in client.post("/admin/knowledge/source/add/", fields).content.decode()
