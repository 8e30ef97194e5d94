"""The stand-in for the Messages API speaks as the real one does, and does what it is told."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic

from tests.proxy.demo import Demo, running

PADDING = "a sentence that fills the prompt until it is worth keeping. " * 80


@pytest.fixture(scope="module")
def started() -> Iterator[Demo]:
    with running() as demo:
        yield demo


@pytest.fixture
def demo(started: Demo) -> Demo:
    started.reset()
    return started


def ask(demo: Demo, **fields: Any) -> dict[str, Any]:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}], **fields}
    answer: dict[str, Any] = json.loads(post(demo, json.dumps(body).encode()).read())
    return answer


def post(demo: Demo, body: bytes, path: str = "/v1/messages", **headers: str) -> Any:
    request = urllib.request.Request(demo.url + path, body, {"x-api-key": "k", **headers})
    return urllib.request.urlopen(request, timeout=10)


def marked(words: str, **marker: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral", **marker}}


def test_it_works(demo: Demo) -> None:
    with Anthropic(base_url=demo.url, api_key="k", max_retries=0) as client:
        answer = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Which port?"}])

    assert answer.content[0].type == "text"
    assert "not a language model" in answer.content[0].text


def test_the_sdk_reads_a_stream_with_thinking_and_a_tool(demo: Demo) -> None:
    call = {"name": "Read", "input": {"path": "ü.txt"}}
    demo.script({"kind": "tools", "thinking": "A look first.", "text": "Reading.", "tools": [call], "noise": True})
    with (
        Anthropic(base_url=demo.url, api_key="k", max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "Read it"}]) as stream,
    ):
        answer = stream.get_final_message()

    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
    assert answer.stop_reason == "tool_use"
    assert answer.content[2].model_dump()["input"] == call["input"]


def test_events_come_in_upstreams_order(demo: Demo) -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    demo.script({"kind": "text", "text": "Short."})
    lines = post(demo, json.dumps(body).encode()).read().decode().splitlines()

    assert [line[7:] for line in lines if line.startswith("event: ")] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_it_answers_from_the_passages_in_the_request(demo: Demo) -> None:
    block = (
        "<kb_context>\nAbout.\n\nops/a.md#L3-L4 (Relay > Port)\nThe port is 47113.\n\nb.md#L1-L1\nMore.\n</kb_context>"
    )
    answer = ask(demo, messages=[{"role": "user", "content": [marked(block), marked("Which port?")]}])

    text = answer["content"][0]["text"]
    assert "The port is 47113." in text
    assert text.endswith("Sources: ops/a.md#L3-L4, b.md#L1-L1")
    assert "stand-in" in text


def test_what_it_received_can_be_read(demo: Demo) -> None:
    post(demo, b'{"messages": [] }', "/some/path/v1/messages?beta=true", **{"X-Odd": "Kept"}).read()
    [entry] = demo.log

    assert (entry.method, entry.path, entry.query) == ("POST", "/some/path/v1/messages", "beta=true")
    assert entry.header("x-odd") == "Kept"
    assert entry.body == b'{"messages": [] }'
    assert entry.finished


def test_errors_are_scripted_with_headers(demo: Demo) -> None:
    demo.script({"kind": "error", "status": 429, "headers": {"retry-after": "7"}, "message": "Slow down"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(demo)
    with refused.value as answer:
        error = json.loads(answer.read())

    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert error["error"] == {"type": "rate_limit_error", "message": "Slow down"}
    assert ask(demo)["type"] == "message"


def test_a_stream_breaks_with_an_error_event(demo: Demo) -> None:
    demo.script({"kind": "stream_error", "text": "Half of it. " * 9, "after": 4})
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    data = post(demo, json.dumps(body).encode()).read()

    assert data.endswith(b'"error":{"type":"overloaded_error","message":"scripted fault"}}\n\n')


@pytest.mark.parametrize("after", [-1, 4])
def test_a_connection_is_cut(demo: Demo, after: int) -> None:
    demo.script({"kind": "cut", "text": "Half of it. " * 9, "after": after})
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}

    with pytest.raises((http.client.HTTPException, ConnectionError)):
        post(demo, json.dumps(body).encode()).read()


def test_a_script_may_wait_for_certain_requests(demo: Demo) -> None:
    demo.script({"kind": "text", "text": "For the other.", "match": "other"})

    assert ask(demo)["content"][0]["text"] != "For the other."
    assert ask(demo, messages=[{"role": "user", "content": "other"}])["content"][0]["text"] == "For the other."


@pytest.mark.parametrize("order", [[{"kind": "dance"}], [{"knid": "text"}], [7], {"later": []}, 7, {"next": {}}])
def test_a_script_that_cannot_be_read_is_refused(demo: Demo, order: Any) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(demo, json.dumps(order).encode(), "/_demo/script")
    with refused.value as answer:
        assert answer.status == 400


def test_the_prompt_cache_is_billed_by_prefix(demo: Demo) -> None:
    system = [marked(PADDING)]
    first, second = (ask(demo, system=system)["usage"] for _ in range(2))
    later = ask(demo, system=system, messages=[{"role": "user", "content": "Something else"}])["usage"]
    demo.script(advance_seconds=301)
    expired = ask(demo, system=system)["usage"]

    assert first["cache_creation_input_tokens"] == second["cache_read_input_tokens"] > 1024
    assert later["cache_read_input_tokens"] == second["cache_read_input_tokens"]
    assert expired["cache_creation_input_tokens"] == first["cache_creation_input_tokens"]


def test_an_hour_is_billed_apart_and_lives_longer(demo: Demo) -> None:
    system = [marked(PADDING, ttl="1h")]
    first = ask(demo, system=system)["usage"]
    demo.script(advance_seconds=3000)

    assert first["cache_creation"]["ephemeral_1h_input_tokens"] > 1024
    assert ask(demo, system=system)["usage"]["cache_read_input_tokens"] > 1024


def test_a_short_prefix_is_not_kept(demo: Demo) -> None:
    assert ask(demo, system=[marked("Short.")])["usage"]["cache_creation_input_tokens"] == 0


def test_a_fifth_marker_is_refused(demo: Demo) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(demo, system=[marked(str(n)) for n in range(5)])
    with refused.value as answer:
        assert b"maximum of 4" in answer.read()


def test_tokens_are_counted_and_models_listed(demo: Demo) -> None:
    with Anthropic(base_url=demo.url, api_key="k") as client:
        counted = client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "Hello there"}])
        models = [model.id for model in client.models.list()]

    assert counted.input_tokens > 3
    assert all(name.startswith("claude-") for name in models)


def test_a_credential_is_asked_for(demo: Demo) -> None:
    request = urllib.request.Request(f"{demo.url}/v1/messages", b"{}")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as answer:
        assert answer.status == 401


def test_it_listens_on_loopback_only() -> None:
    command = [sys.executable, "-m", "proxy.demo_upstream", "--host", "0.0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)

    assert done.returncode == 2
    assert "loopback" in done.stderr


def test_nothing_of_ours_is_imported() -> None:
    folder = Path(__file__).parents[2] / "proxy" / "demo_upstream"
    text = "\n".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))

    assert not [line for line in text.splitlines() if line.startswith(("from proxy", "from tenants", "from knowledge"))]
