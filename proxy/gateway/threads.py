"""Where the gateway's database work runs: in threads of its own, each job giving its connection back to the
pool.

`sync_to_async` would put all of it behind one thread per request (136 searches a second against 385 here),
and Django would keep the connection until the answer has been streamed.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from django.conf import settings
from django.db import connections

_LARGE: Final = 1 << 20  # bytes; a coding client's request has 50 to 500 kB, which takes a few milliseconds
P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """A few threads for synchronous database work."""

    def __init__(self, name: str, size: Callable[[], int]) -> None:
        self._name, self._size = name, size
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a job; its database connections are back in the pool when it ends."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size(), thread_name_prefix=self._name)
        return self._pool.submit(_released, lambda: job(*args, **kwargs))

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a job and return what it returns."""
        return await asyncio.wrap_future(self.submit(job, *args, **kwargs))

    def close(self) -> None:
        """Finish what was begun and end the threads; a later job starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)


async def beside(size: int, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do pure work over a body of so many bytes: at once for a usual one, in a thread for a large one.

    Reading a conversation of 60,000 messages takes seconds, in which the event loop would serve nobody else.
    """
    if size < _LARGE:
        return job(*args, **kwargs)
    return await asyncio.to_thread(job, *args, **kwargs)


def _released(job: Callable[[], T]) -> T:
    try:
        return job()
    finally:
        for connection in connections.all(initialized_only=True):
            connection.close()


def _half_the_pool() -> int:
    """Searches leave the other half of the pool to pages, keys and usage rows."""
    return max(1, int(settings.KB_DATABASE_POOL) // 2)


# Two sets, so that a burst of searches never makes a key or a remembered block wait.
SEARCHES: Final = Threads("gateway-search", _half_the_pool)
SMALL: Final = Threads("gateway-small", lambda: 2)
