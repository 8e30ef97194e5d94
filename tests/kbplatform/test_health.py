"""`/health`, `/livez`, `/readyz` and `/metrics`."""

from __future__ import annotations

import pytest
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from pytest_django import Settings

from kbplatform import health
from knowledge import embedding

CLIENT = Client()


@pytest.fixture(autouse=True)
def loaded() -> None:
    """The embedding model of tests, in memory."""
    embedding.warm()


def test_it_works() -> None:
    answer = CLIENT.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "parts": {"database": "ok", "migrations": "ok", "queue": "ok", "embedder": "ok"},
        "reasons": [],
    }


@pytest.mark.parametrize("path", ["/health", "/livez"])
def test_a_living_process_says_ok(path: str) -> None:
    answer = CLIENT.get(path)

    assert (answer.status_code, answer.content.strip()) == (200, b"ok")


@pytest.mark.parametrize("path", ["/health", "/livez", "/readyz"])
def test_probes_may_name_any_host_and_get_no_cookie(path: str) -> None:
    answer = CLIENT.get(path, headers={"host": "10.1.2.3:8000", "accept-language": "es"})

    assert answer.status_code == 200
    assert not answer.cookies
    assert "vary" not in answer.headers


def test_metrics_are_closed() -> None:
    assert CLIENT.get("/metrics").status_code == 404
    assert CLIENT.get("/metrics", headers={"authorization": "Bearer nothing"}).status_code == 404


def test_a_model_that_is_not_loaded_holds_readiness(settings: Settings) -> None:
    settings.KB_EMBEDDING_MODEL = "hash-512"
    answer = CLIENT.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    assert answer.json()["reasons"] == [f"embedder: {answer.json()['parts']['embedder']}"]


def test_a_missing_migration_holds_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = MigrationRecorder(connections["owner"])
    monkeypatch.setattr(health, "_migrated", False)
    recorder.record_unapplied("tenants", "0001_initial")
    try:
        answer = CLIENT.get("/readyz")
    finally:
        recorder.record_applied("tenants", "0001_initial")

    assert answer.status_code == 503
    assert "1 not applied" in answer.json()["parts"]["migrations"]
    assert CLIENT.get("/readyz").status_code == 200


def test_a_database_that_is_away_holds_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DEFAULT_DB_ALIAS", "away")
    away = connections["owner"].copy("away")
    away.settings_dict = {**away.settings_dict, "PORT": "1"}
    connections["away"] = away
    answer = CLIENT.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["parts"]["database"] == "can't be reached"
    assert answer.json()["parts"]["queue"] == "unknown without the database"
    assert CLIENT.get("/livez").status_code == 200


def test_a_probe_that_finds_it_not_ready_fills_no_log(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    settings.KB_EMBEDDING_MODEL = "hash-512"
    assert CLIENT.get("/readyz").status_code == 503

    assert caplog.records == []
