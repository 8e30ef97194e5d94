"""Work over a request's body: at once for a usual one, beside the event loop for a large one."""

from __future__ import annotations

import threading

import pytest

from proxy.gateway.threads import beside


@pytest.mark.parametrize(("size", "here"), [(60_000, True), (5_000_000, False)])
async def test_it_works(size: int, here: bool) -> None:
    thread = await beside(size, threading.get_ident)

    assert (thread == threading.get_ident()) is here
