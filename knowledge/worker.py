"""The worker: takes jobs from the queue, and takes up again those of workers that died."""

from __future__ import annotations

import asyncio
import logging
import signal

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.contrib.django import app
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException

from knowledge.queue import QUEUE

APPLICATION_NAME = "kbplatform worker"  # of its connections to the queue, in pg_stat_activity
HEARTBEAT_SECONDS = 2.0
DEAD_AFTER_SECONDS = 6.0  # three heartbeats missed
REAPER_SECONDS = 2.0
POOL_SECONDS = 5.0  # without a connection for so long the worker ends
POLL_SECONDS = 5.0  # new jobs are announced; this is for an announcement that was missed
# A running job asks between two steps of a few seconds whether it must stop.
GRACE_SECONDS = 0.5

_log = logging.getLogger(__name__)


class WorkerEnded(Exception):
    """The worker ended without being asked to, as it does when PostgreSQL goes away: start it again."""


def run_worker(*, concurrency: int) -> None:
    """Work until TERM or INT: then running jobs stop at their next step and stay in the queue.

    Raises WorkerEnded when it ends by itself.
    """
    facts = {**connector_params(), "application_name": APPLICATION_NAME}
    try:
        psycopg.connect(**facts).close()  # refused at once, where the pool would try for half a minute
        # A second app with connections of its own: through the first, tasks queue jobs in Django's transactions.
        worker_app = app.with_connector(PsycopgConnector(kwargs=facts, min_size=2, max_size=6, timeout=POOL_SECONDS))
        asked = asyncio.run(_run(worker_app, concurrency))
    except (ConnectorException, psycopg.OperationalError) as error:
        raise WorkerEnded(f"no database: {str(error).strip()}") from error
    if not asked:
        raise WorkerEnded("the worker lost its database")


async def _run(worker_app: App, concurrency: int) -> bool:
    """Work until the end and return whether it was asked for."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    async with worker_app.open_async():
        worker = asyncio.create_task(_work(worker_app, concurrency))
        others = [asyncio.create_task(_reap_for_ever(worker_app)), asyncio.create_task(asked.wait())]
        await asyncio.wait({worker, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in (worker, *others):
            task.cancel()
        ended = await asyncio.gather(worker, *others, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
    return asked.is_set()


async def _work(worker_app: App, concurrency: int) -> None:
    await worker_app.run_worker_async(
        queues=[QUEUE],
        concurrency=concurrency,
        fetch_job_polling_interval=POLL_SECONDS,
        shutdown_graceful_timeout=GRACE_SECONDS,
        update_heartbeat_interval=HEARTBEAT_SECONDS,
        stalled_worker_timeout=DEAD_AFTER_SECONDS,
        delete_jobs="successful",  # our own Job is the record
        install_signal_handlers=False,
    )


async def _reap_for_ever(worker_app: App) -> None:
    """Look for jobs of dead workers, and be the first to notice that the database is gone."""
    while True:
        await reap(worker_app)
        await asyncio.sleep(REAPER_SECONDS)


async def reap(worker_app: App) -> int:
    """Put back the jobs of workers whose heartbeat has stopped; returns how many."""
    stalled = await worker_app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=DEAD_AFTER_SECONDS)
    number = 0
    for job in stalled:
        _log.warning("a worker died; its job %s is taken up again", job.id)
        await worker_app.job_manager.retry_job(job)
        number += 1
    await worker_app.job_manager.prune_stalled_workers(DEAD_AFTER_SECONDS)
    return number
