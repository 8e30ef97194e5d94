"""What the database lets the web's role see and do around a search."""

from __future__ import annotations

import threading

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, connections, transaction

from knowledge import index
from knowledge.models import Job, JobFile
from knowledge.search import search
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope
from tests.knowledge.corpus import make_chunks, make_page, make_source

TABLES = [
    model._meta.db_table
    for model in apps.get_app_config("knowledge").get_models()
    if model.__name__ != "EmbeddingModel"
]
READ_BY_SEARCH = {
    "knowledge_chunk",
    "knowledge_chunkterms",
    "knowledge_corpus",
    "knowledge_embedding",
    "knowledge_embeddingset",
    "knowledge_lexeme",
    "knowledge_page",
    "knowledge_source",
}


def fetch(sql: str) -> list[tuple[object, ...]]:
    """Run a statement as kb_app."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_it_works(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_page(tenant, "a.md", ["the heron stands in the river"])
    make_page(rival, "b.md", ["the heron stands in the river"])

    assert [hit.path for hit in search(tenant, "heron", top_k=64).hits] == ["a.md"]
    assert [hit.path for hit in search(rival, "heron", top_k=64).hits] == ["b.md"]


@pytest.mark.parametrize("table", TABLES)
def test_no_foreign_row_without_a_where(tenant: TenantFacts, rival: TenantFacts, table: str) -> None:
    for each in (tenant, rival):
        make_page(each, "a.md", ["heron"])
        source = make_source(each)
        index.stage(
            each, source_id=source.id, path="b", content_hash="1", model_id="hash-384", chunks=make_chunks(["x"])
        )
        with tenant_scope(each):
            job = Job.objects.create(tenant_id=each.id, source_id=source.id)
            JobFile.objects.create(tenant_id=each.id, job_id=job.id, ord=0, path="a.md")

    with tenant_scope(tenant):
        assert fetch(f"SELECT DISTINCT tenant_id FROM {table}") == [(tenant.id,)]


@pytest.mark.parametrize("table", TABLES)
def test_without_a_scope_reading_raises(tenant: TenantFacts, table: str) -> None:
    make_page(tenant, "a.md", ["heron"])

    with pytest.raises(DatabaseError, match="tenant context missing"), transaction.atomic():
        fetch(f"SELECT * FROM {table}")


def test_without_a_scope_searching_raises() -> None:
    places = ", ".join(["NULL"] * 15)

    with pytest.raises(DatabaseError, match="tenant context missing"), transaction.atomic():
        fetch(f"SELECT * FROM kb_search({places})")


@pytest.mark.parametrize("statement", ["SET ROLE kb_search", "SET ROLE kb_owner", "CREATE TABLE x (id int)"])
def test_the_webs_role_cannot_become_another(statement: str) -> None:
    with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_the_search_functions_are_stable_and_kb_searchs() -> None:
    found = fetch(
        "SELECT proname, pg_get_userbyid(proowner), provolatile::text, prosecdef, proconfig::text"
        " FROM pg_proc WHERE proname IN ('kb_search', 'kb_question') ORDER BY 1"
    )

    assert [row[:4] for row in found] == [
        ("kb_question", "kb_search", "s", False),
        ("kb_search", "kb_search", "s", True),
    ]
    assert all("search_path=pg_catalog, public, pg_temp" in str(row[4]) for row in found)


def test_others_may_not_search() -> None:
    found = fetch(
        "SELECT grantee::regrole::text FROM pg_proc, aclexplode(proacl) WHERE proname = 'kb_search'"
        " AND grantee <> 0 ORDER BY 1"
    )
    public = fetch("SELECT 1 FROM pg_proc, aclexplode(proacl) WHERE proname = 'kb_search' AND grantee = 0")

    assert [name for (name,) in found] == ["kb_app", "kb_search", "kb_staff"]
    assert public == []


def test_kb_search_may_read_what_it_reads_and_change_nothing() -> None:
    with connections["owner"].cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_policies WHERE policyname = 'search_rows' AND cmd = 'SELECT'")
        readable = {name for (name,) in cursor.fetchall()}
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'knowledge%'"
            " AND (has_table_privilege('kb_search', oid, 'INSERT') OR has_table_privilege('kb_search', oid, 'UPDATE')"
            "  OR has_table_privilege('kb_search', oid, 'DELETE'))"
        )
        writable = cursor.fetchall()

    assert readable >= READ_BY_SEARCH
    assert writable == []


def test_temporary_tables_of_the_same_names_change_nothing(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["heron"])

    with tenant_scope(tenant):
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE knowledge_chunk (id int) ON COMMIT DROP")
            cursor.execute("CREATE TEMP TABLE knowledge_corpus (id int) ON COMMIT DROP")
        assert search(tenant, "heron").hits[0].path == "a.md"


def test_both_lanes_use_their_index(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", [f"heron number {number}" for number in range(150)])
    before = scans()

    with tenant_scope(tenant):
        search(tenant, "heron number 7")
        fetch("SELECT pg_stat_force_next_flush()")

    after = scans()
    assert after["terms_tsv"] > before["terms_tsv"]
    assert after["embedding_in_page_order"] > before["embedding_in_page_order"]
    assert after["sequential"] == before["sequential"]


def scans() -> dict[str, int]:
    """Return how often the lanes' indexes, and their tables without an index, have been read."""
    found = fetch(
        "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes"
        " WHERE relname IN ('knowledge_chunkterms', 'knowledge_embedding')"
        " UNION ALL SELECT 'sequential', sum(seq_scan)::bigint FROM pg_stat_user_tables"
        " WHERE relname IN ('knowledge_chunkterms', 'knowledge_embedding', 'knowledge_chunk')"
    )
    return {str(name): int(str(number)) for name, number in found}


def test_a_search_while_a_page_is_replaced_sees_one_of_its_states(tenant: TenantFacts) -> None:
    states = {version: {f"heron {version} {number}" for number in range(6)} for version in ("old", "new")}
    make_page(tenant, "a.md", sorted(states["old"]))
    done = threading.Event()
    failed: list[BaseException] = []

    def replace() -> None:
        try:
            for number in range(10):
                make_page(tenant, "a.md", sorted(states["new" if number % 2 == 0 else "old"]))
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()
            connection.close()

    thread = threading.Thread(target=replace)
    thread.start()
    seen = []
    while not done.is_set():
        seen.append({hit.text for hit in search(tenant, "heron", top_k=64).hits})
    thread.join()

    assert failed == []
    assert all(found in states.values() for found in seen)
