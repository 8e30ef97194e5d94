"""`ingest PATH… --tenant SLUG`: bring a source to what lies in folders and files now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management import CommandError, CommandParser
from tqdm import tqdm

from knowledge.ingest import Flags, ingest_folder
from knowledge.jobs import job_report
from knowledge.management.corpus_command import CorpusCommand
from knowledge.models import JobState
from tenants.facts import TenantFacts


class Command(CorpusCommand):
    """Indexes folders and files; what is unchanged is left alone, what is gone is deleted."""

    help = (
        "Indexes folders and files of this machine. Unchanged files are left alone; pages whose files are gone from "
        "the folder are deleted, unless part of it could not be read. Exit status 1 when a file failed."
    )

    def declare_more(self, parser: CommandParser) -> None:
        """Declare the places, the source and what is said about all pages."""
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a folder or a file")
        parser.add_argument("--source", help="name of the source (default: the folder's name)")
        parser.add_argument("--source-type", help="for pages whose front matter says nothing else: doc, model, faq …")
        parser.add_argument("--app", help="likewise: the app they are about")
        parser.add_argument("--product", help="likewise: the product they are about")
        parser.add_argument("--user-facing", action="store_true", default=None, help="likewise: visitors may see them")

    def facts_of(self, tenant: TenantFacts, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Index and return the job."""
        flags = Flags(**{name: options[name] for name in ("source_type", "app", "product", "user_facing")})
        with _progress_bar() as progress:
            job = ingest_folder(tenant, options["paths"], source=options["source"], flags=flags, progress=progress)
        report = job_report(tenant, str(job.pk))
        assert report is not None  # noqa: S101
        self.failed = job.failed
        self.fault = job.reason if job.state == JobState.FAILED else ""
        return report

    def text(self, facts: Mapping[str, Any]) -> str:
        """Say what became of the files, each reason, and what visitors see."""
        counts = ", ".join(f"{number} {name}" for name, number in facts["counts"].items() if number)
        files = [f"  {file['path']}: {file['state']}, {file['reason']}" for file in facts["files"]]
        return "\n".join([f"source {facts['source']}: {counts or 'nothing there'}", *files, str(facts["summary"])])

    def handle(self, *args: Any, **options: Any) -> None:
        """Index, print the job, and end with 1 when something failed."""
        super().handle(*args, **options)
        if self.fault:
            raise CommandError(self.fault)
        if self.failed:
            raise CommandError(f"{self.failed} file{'' if self.failed == 1 else 's'} could not be indexed")


@contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None]]:
    """Give a function that shows how far the work is; silent unless a person looks on."""
    with tqdm(unit="file", file=sys.stderr, disable=not sys.stderr.isatty(), leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show
