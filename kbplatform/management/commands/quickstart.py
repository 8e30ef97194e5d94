"""`quickstart`: migrations, model and first start in one process; `./kb up` runs it before it serves."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, call_command

from kbplatform.commandline import PROJECT
from kbplatform.quickstart import quickstart
from tenants.facts import TenantFacts


class Command(BaseCommand):
    """Prepare a data directory so that the server can start."""

    help = "Migrates, builds the embedding model, and makes what the first start needs."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options; `./kb up` passes its own on."""
        parser.add_argument("--data", type=Path, required=True, help="data directory")
        parser.add_argument("--origin", required=True, help="the server's own origin, http://host:port")
        parser.add_argument("--no-demo", action="store_true", help="do not ingest the project's own documents")
        parser.add_argument("--no-torch", action="store_true", help="do not build the model where torch is needed")

    def handle(self, *args: Any, **options: Any) -> None:
        """Bring everything up to date; each step does nothing when there is nothing to do."""
        call_command("migrate", database="owner", interactive=False, verbosity=0)
        call_command("build_model", no_torch=options["no_torch"], stdout=self.stderr)
        ingest = None if options["no_demo"] else self._ingest
        quickstart(options["data"], origin=options["origin"], ingest=ingest)

    def _ingest(self, tenant: TenantFacts) -> None:
        self.stderr.write("reading README.md and docs/ into the demo corpus")
        roots = [str(path) for path in (PROJECT / "README.md", PROJECT / "docs") if path.exists()]
        try:
            call_command("ingest", *roots, tenant=tenant.slug, source="demo", user_facing=True, stdout=self.stderr)
        except CommandError as error:  # a page less is no reason not to serve
            self.stderr.write(f"the demo corpus is incomplete: {error}")
