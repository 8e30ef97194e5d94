"""The fork between programs and people: machine paths don't pass through the pages' middleware."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from kbplatform.health import OPEN_PATHS
from proxy.api.door import answer, is_machine_path


class MachinePathsMiddleware:
    """Answers machine paths itself: no session, no form token, no language, no host rule, no redirect."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, or pass a page's request on."""
        view = OPEN_PATHS.get(request.path_info)
        if view is not None:
            try:
                return view(request)
            finally:
                connections["default"].close()
        return answer(request) if is_machine_path(request.path_info) else self.get_response(request)
