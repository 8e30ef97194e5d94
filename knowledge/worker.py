"""The worker: takes jobs from the queue, and takes up again those of workers that died."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from typing import cast

from procrastinate import App
from procrastinate.contrib.django import app
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import ConnectorException

from knowledge.queue import QUEUE

HEARTBEAT_SECONDS = 2.0
DEAD_AFTER_SECONDS = 6.0  # three heartbeats missed
REAPER_SECONDS = 2.0
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
    # A second app with connections of its own: through the first, tasks queue jobs in Django's transactions.
    connector = cast(DjangoConnector, app.connector)
    worker_app = app.with_connector(connector.get_worker_connector())
    try:
        asked = asyncio.run(_run(worker_app, concurrency))
    except ConnectorException as error:
        raise WorkerEnded(f"the worker lost its database: {error}") from error
    if not asked:
        raise WorkerEnded("the worker lost its database")


async def _run(worker_app: App, concurrency: int) -> bool:
    """Work until the end and return whether it was asked for."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    async with worker_app.open_async():
        worker = asyncio.create_task(_work(worker_app, concurrency))
        reaper = asyncio.create_task(_reap_for_ever(worker_app))
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait({worker, stop}, return_when=asyncio.FIRST_COMPLETED)
        reaper.cancel()
        stop.cancel()
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
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
    while True:
        try:
            await reap(worker_app)
        except Exception:  # the next round tries again; without a database the worker itself ends
            _log.warning("jobs of dead workers could not be looked for", exc_info=True)
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
