"""Usage rows: written in batches, once per request, to their own tenant."""

from dataclasses import replace
from uuid import UUID, uuid4

from django.db import connections

from tenants.facts import TenantFacts
from tenants.ledger import UsageQueue, UsageRecord, record
from tenants.models import Usage
from tenants.scope import tenant_scope


def row(tenant_id: UUID, request_id: str, input_tokens: int = 0) -> UsageRecord:
    return UsageRecord(
        tenant_id=tenant_id,
        request_id=request_id,
        key_public_id="kb_sk_a",
        team="t",
        status=200,
        x_cache="MISS",
        input_tokens=input_tokens,
    )


def seen(tenant: TenantFacts) -> list[tuple[str, int]]:
    with tenant_scope(tenant):
        return sorted(Usage.objects.values_list("request_id", "input_tokens"))


def test_it_works(tenant: TenantFacts) -> None:
    record([row(tenant.id, "req_a", input_tokens=7)])
    assert seen(tenant) == [("req_a", 7)]


def test_a_request_is_booked_once(tenant: TenantFacts) -> None:
    record([row(tenant.id, "req_a", input_tokens=7)])
    record([row(tenant.id, "req_a", input_tokens=9), row(tenant.id, "req_b", input_tokens=1)])
    assert seen(tenant) == [("req_a", 7), ("req_b", 1)]


def test_each_row_goes_to_its_tenant(tenant: TenantFacts, rival: TenantFacts) -> None:
    record([row(tenant.id, "req_a"), row(rival.id, "req_b"), row(tenant.id, "req_c")])
    assert seen(tenant) == [("req_a", 0), ("req_c", 0)]
    assert seen(rival) == [("req_b", 0)]


def test_a_drained_queue_has_written_everything(tenant: TenantFacts) -> None:
    queue = UsageQueue()
    for number in range(450):
        queue.put(row(tenant.id, f"req_{number}"))
    queue.drain()
    assert len(seen(tenant)) == 450


def test_a_queue_works_on_after_a_drain(tenant: TenantFacts) -> None:
    queue = UsageQueue()
    queue.put(row(tenant.id, "req_a"))
    queue.drain()
    queue.put(row(tenant.id, "req_b"))
    queue.drain()
    assert seen(tenant) == [("req_a", 0), ("req_b", 0)]


def test_rows_wait_while_the_database_is_locked(tenant: TenantFacts) -> None:
    queue = UsageQueue()
    with connections["owner"].cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE tenants_usage IN EXCLUSIVE MODE")
        queue.put(row(tenant.id, "req_a"))
        cursor.execute("ROLLBACK")
    queue.drain()
    assert seen(tenant) == [("req_a", 0)]


def test_what_an_upstream_reports_is_made_to_fit(tenant: TenantFacts) -> None:
    odd = replace(row(tenant.id, "req_a", 2**40), model="m\0x", output_tokens=-5, server_tool_use={"web\0": 2**70})
    record([odd])
    with tenant_scope(tenant):
        written = Usage.objects.get()
    assert (written.model, written.input_tokens, written.output_tokens) == ("mx", 2**31 - 1, 0)
    assert written.server_tool_use == {"web": 2**31 - 1}


def test_a_row_that_can_never_be_written_holds_up_no_other(tenant: TenantFacts, rival: TenantFacts) -> None:
    queue = UsageQueue()
    for lost in (replace(row(tenant.id, "req_b"), x_cache="x" * 17), row(uuid4(), "req_of_a_tenant_that_is_gone")):
        queue.put(lost)
    queue.put(row(tenant.id, "req_a"))
    queue.put(row(rival.id, "req_c"))
    queue.drain()
    assert seen(tenant) == [("req_a", 0)]
    assert seen(rival) == [("req_c", 0)]
