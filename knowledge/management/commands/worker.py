"""`worker`: index what was handed over, until TERM or INT."""

from __future__ import annotations

from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from knowledge.worker import WorkerEnded, run_worker


class Command(BaseCommand):
    """Runs a worker."""

    help = (
        "Works on queued jobs until TERM or INT, which stops it within seconds; what it had begun goes on later. "
        "Ends with 1 when it loses its database: let a supervisor always start it again."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare how many jobs run at once."""
        parser.add_argument("--concurrency", type=int, choices=range(1, 9), default=1, help="jobs at once (default 1)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Work."""
        try:
            run_worker(concurrency=options["concurrency"])
        except WorkerEnded as error:
            raise CommandError(str(error)) from error
