"""Text blocks are put into the received bytes, and every other byte stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.gateway.splice import BeforeBlock, CannotSplice, append_to_system, has_doubled, splice

ODD = (
    b' {"model" : "m","x":[12345678901234567890123, 1.50,1E+2,-0,-0.0,1e-400],"s":"\\ud83d \\u0000 \\/ ]}\\"",\r\n'
    b'"max_tokens":10,"max_tokens": 11 ,\t"messages":[{"role":"user","content":[ {"type":"image"} , '
    b'{"type":"text","text":"Which \\"port\\"? {["}]}, {"content" : "plain [\\\\" , "role":"user"}],"tail":null}\n'
)


def test_it_works() -> None:
    body = b'{"messages":[{"role":"user","content":[{"type":"text","text":"Which port?"}]}]}'

    assert splice(body, [BeforeBlock(0, 0, "Known.")]) == (
        b'{"messages":[{"role":"user","content":[{"type":"text","text":"Known."},'
        b'{"type":"text","text":"Which port?"}]}]}'
    )


def test_a_string_becomes_a_list_of_two_blocks() -> None:
    body = b'{"messages":[{"role":"user","content":"Which \\u0070ort?"}]}'

    assert splice(body, [BeforeBlock(0, None, "Known.")]) == (
        b'{"messages":[{"role":"user","content":[{"type":"text","text":"Known."},'
        b'{"type":"text","text":"Which \\u0070ort?"}]}]}'
    )


def test_several_blocks_in_one_pass_leave_every_other_byte() -> None:
    got = splice(ODD, [BeforeBlock(1, None, "Two."), BeforeBlock(0, 1, "One.")])

    first, second = (
        b'{"type":"text","text":"One."},',
        b'[{"type":"text","text":"Two."},{"type":"text","text":',
    )
    assert got.replace(first, b"").replace(second, b"").replace(b'[\\\\"}]', b'[\\\\"') == ODD
    assert got.index(first) == ODD.index(b'{"type":"text","text":"Which')


def test_of_doubled_keys_the_last_counts() -> None:
    body = b'{"messages":[],"m\\u0065ssages":[{"content":"a","content":"b"}]}'

    assert json.loads(splice(body, [BeforeBlock(0, None, "x")]))["messages"][0]["content"][1]["text"] == "b"


@pytest.mark.parametrize(
    ("body", "system"),
    [
        (b'{"system":"Be kind."}', [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "x"}]),
        (
            b'{"system":[{"type":"text","text":"a"} ] }',
            [{"type": "text", "text": "a"}, {"type": "text", "text": "x"}],
        ),
        (b'{"system":[]}', [{"type": "text", "text": "x"}]),
        (b'{"model":"m"}', [{"type": "text", "text": "x"}]),
        (b"{}", [{"type": "text", "text": "x"}]),
    ],
)
def test_a_block_at_the_end_of_system(body: bytes, system: list[Any]) -> None:
    got = json.loads(append_to_system(body, "x"))

    assert got == {**json.loads(body), "system": system}


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"messages":7}',
        b'{"messages":[]}',
        b'{"messages":[{"content":null}]}',
        b'{"messages":[{}]}',
    ],
)
def test_a_body_without_the_place_is_refused(body: bytes) -> None:
    with pytest.raises(CannotSplice):
        splice(body, [BeforeBlock(0, 0, "x")])


def test_a_system_of_another_shape_is_refused() -> None:
    with pytest.raises(CannotSplice):
        append_to_system(b'{"system":null}', "x")


def test_doubled_keys_are_seen() -> None:
    assert has_doubled(b'{"model":"a", "m\\u006fdel":"b"}', "model")
    assert not has_doubled(b'{"model":"a","x":{"model":"b"}}', "model")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
blocks = st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=4)
messages = st.lists(
    st.fixed_dictionaries({"x": json_values, "content": st.text() | blocks, "role": st.just("user")}),
    min_size=1,
    max_size=4,
)


@given(messages, json_values, st.sampled_from([None, 1, "\t"]), st.booleans(), st.text(), st.data())
def test_the_result_is_the_input_and_the_block(
    sent: list[dict[str, Any]], other: Any, indent: Any, ascii_only: bool, words: str, data: st.DataObject
) -> None:
    body = json.dumps({"a": other, "messages": sent, "z": other}, indent=indent, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )
    index = data.draw(st.integers(0, len(sent) - 1))
    content = sent[index]["content"]
    block = None if isinstance(content, str) else data.draw(st.integers(0, len(content) - 1))
    words = words.encode("utf-8", "replace").decode()

    got = splice(body, [BeforeBlock(index, block, words)])

    added = {"type": "text", "text": words}
    wanted = json.loads(body.decode("utf-8", "surrogatepass"))
    was = wanted["messages"][index]["content"]
    listed = [{"type": "text", "text": was}] if block is None else was
    wanted["messages"][index]["content"] = [*listed[: block or 0], added, *listed[block or 0 :]]
    assert json.dumps(json.loads(got.decode("utf-8", "surrogatepass"))) == json.dumps(wanted)
    assert is_subsequence_of_pieces(body, got)


def is_subsequence_of_pieces(body: bytes, got: bytes) -> bool:
    """Whether the body's bytes stand in the result in order, cut in at most two places."""
    head = next((i for i, (a, b) in enumerate(zip(body, got, strict=False)) if a != b), len(body))
    tail = next((i for i, (a, b) in enumerate(zip(body[::-1], got[::-1], strict=False)) if a != b), len(body))
    middle = body[head : len(body) - tail] if head + tail < len(body) else b""
    return middle in got
