"""What the worker's queue can do. Arguments are ids only: the database holds what is to be done."""

from __future__ import annotations

from uuid import UUID

from procrastinate import BaseRetryStrategy, JobContext, RetryDecision
from procrastinate.contrib.django import app
from procrastinate.exceptions import JobAborted
from procrastinate.jobs import Job as QueuedJob

from knowledge.ingest.documents import JobIsRunning, run_documents
from knowledge.ingest.pipeline import Interrupted
from knowledge.queue import INGEST, QUEUE
from tenants.registry import UnknownTenant, read_facts

_BUSY_SECONDS = 3
_LONGEST_WAIT = 60


class TryAgain(BaseRetryStrategy):
    """At once after a stop, soon after an error; the job itself decides when to give up."""

    def get_retry_decision(self, *, exception: BaseException, job: QueuedJob) -> RetryDecision:
        """Return when to try again."""
        if isinstance(exception, JobAborted):
            return RetryDecision(retry_in={"seconds": 0})
        if isinstance(exception, JobIsRunning):
            return RetryDecision(retry_in={"seconds": _BUSY_SECONDS})
        return RetryDecision(retry_in={"seconds": min(_LONGEST_WAIT, 2 * 4**job.attempts)})


@app.task(name=INGEST, queue=QUEUE, pass_context=True, retry=TryAgain())
def ingest(context: JobContext, *, tenant_id: str, job_id: int) -> None:
    """Index the documents of a job that are still waiting."""
    try:
        tenant = read_facts(UUID(tenant_id))
    except UnknownTenant:
        return  # erased meanwhile
    try:
        run_documents(tenant, job_id, must_stop=context.should_abort)
    except Interrupted as error:
        raise JobAborted from error
