"""Build the embedding model that the settings name, once per machine."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from knowledge.embedding.building import build_model
from knowledge.embedding.built import BuildFailed, Manifest, as_json, directory_of, identity_of
from knowledge.embedding.specs import ModelUnusable

LOCAL_PROVIDERS = ("onnx", "sentence-transformers")


class Command(BaseCommand):
    """`manage.py build_model [--model NAME|DIR] [--no-torch] [--json]`"""

    help = "Builds the embedding model below KB_MODEL_DIR when it is not there yet (about a minute, needs torch)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--model", help="a known model, a name on the hub or a directory")
        parser.add_argument("--no-torch", action="store_true", help="only accept a model that is built already")
        parser.add_argument("--json", action="store_true", help="print the model's manifest as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["model"] is None and settings.KB_EMBEDDING_PROVIDER not in LOCAL_PROVIDERS:
            self._say_nothing_to_build(as_json=options["json"])
            return
        name = options["model"] or settings.KB_EMBEDDING_MODEL
        manifest = self._built(name, torch=not options["no_torch"])
        if options["json"]:
            place = str(directory_of(settings.KB_MODEL_DIR, name))
            self.stdout.write(json.dumps({"directory": place, **as_json(manifest)}))
        else:
            self.stdout.write(f"{manifest.spec.id} is built (parity {manifest.parity.mean:.3f}).")

    def _say_nothing_to_build(self, *, as_json: bool) -> None:
        provider = settings.KB_EMBEDDING_PROVIDER
        text = f"The {provider} provider needs no built model."
        self.stdout.write(json.dumps({"provider": provider, "built": None}) if as_json else text)

    def _built(self, name: str, *, torch: bool) -> Manifest:
        started = time.monotonic()

        def say(step: str) -> None:
            self.stderr.write(f"{time.monotonic() - started:5.0f} s  {identity_of(name)}: {step}")

        try:
            return build_model(settings.KB_MODEL_DIR, name, torch=torch, progress=say)
        except (BuildFailed, ModelUnusable) as error:
            raise CommandError(str(error)) from error
