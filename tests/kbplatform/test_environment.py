"""Settings from the environment: known names, checked values, older names honoured."""

from pathlib import Path

import pytest

from kbplatform.environment import SETTINGS, BadSetting, read


def test_it_works() -> None:
    assert read({"KB_SEARCH_DEADLINE_MS": "200"})["KB_SEARCH_DEADLINE_MS"] == 200


def test_an_unknown_name_stops_the_start() -> None:
    with pytest.raises(BadSetting, match="KB_SERCH_DEADLINE_MS"):
        read({"KB_SERCH_DEADLINE_MS": "200"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KB_SEARCH_DEADLINE_MS", "soon"),
        ("KB_SEARCH_DEADLINE_MS", "1"),
        ("KB_EMBEDDING_PROVIDER", "magic"),
        ("KB_DEBUG", "perhaps"),
        ("KB_EVIDENCE_GATE", "0.9"),
        ("ANTHROPIC_BASE_URL", "http://example.com"),
        ("ANTHROPIC_BASE_URL", "example.com"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=name):
        read({name: value})


def test_plain_http_is_fine_to_loopback() -> None:
    assert read({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/x/"})["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9/x"


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-from-a-file\n")
    assert read({"ANTHROPIC_API_KEY_FILE": str(file)})["ANTHROPIC_API_KEY"] == "sk-from-a-file"


def test_a_missing_secret_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="KB_SECRET_KEY_FILE"):
        read({"KB_SECRET_KEY_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize(("threshold", "gate"), [("0.75", 0.25), ("0.9", 0.3), ("0", 0.05), ("1", 0.25 / 0.75)])
def test_the_older_threshold_becomes_the_gate(threshold: str, gate: float) -> None:
    assert read({"KNOWLEDGE_SIMILARITY_THRESHOLD": threshold})["KB_EVIDENCE_GATE"] == pytest.approx(gate)


def test_our_own_gate_wins_over_the_older_threshold() -> None:
    both = {"KNOWLEDGE_SIMILARITY_THRESHOLD": "0.9", "KB_EVIDENCE_GATE": "0.2"}
    assert read(both)["KB_EVIDENCE_GATE"] == 0.2


def test_the_older_mock_provider_is_the_hashing_one() -> None:
    assert read({"CLAW_RAG_MOCK_PROVIDERS": "1"})["KB_EMBEDDING_PROVIDER"] == "hash"


def test_a_key_lying_about_sends_no_text_out() -> None:
    found = read({"CLAW_RAG_OPENAI_API_KEY": "sk-x", "CLAW_RAG_EMBEDDING_MODEL": "text-embedding-3-small"})
    assert found["KB_EMBEDDING_PROVIDER"] == "onnx"


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    assert [setting.name for setting in SETTINGS if f"`{setting.name}`" not in text] == []
