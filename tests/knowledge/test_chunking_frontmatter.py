import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.chunking import chunk, front_matter

KNOWN = """---
title: A guide
slug: a-guide
tags: [one, two]
product: racks
status: active
app: monitoring
source_type: doc
user_facing: true
language: es
author: nobody asked
---
"""


def test_it_works() -> None:
    fields, body, lines = front_matter(KNOWN + "# Text\n")
    assert (body, lines) == ("# Text\n", 12)
    assert fields == {
        "title": "A guide",
        "slug": "a-guide",
        "tags": ["one", "two"],
        "product": "racks",
        "status": "active",
        "app": "monitoring",
        "source_type": "doc",
        "user_facing": True,
        "language": "es",
    }


def test_it_is_not_indexed_and_moves_no_line() -> None:
    (piece,) = chunk("guide.md", KNOWN + "\nThe text.\n")
    assert (piece.text, piece.first_line, piece.last_line) == ("The text.", 14, 14)
    assert (KNOWN + "\nThe text.\n")[piece.start :].startswith("The text.")


def test_configuration_keeps_its_first_document() -> None:
    assert "title: A guide" in chunk("guide.yaml", KNOWN + "other: document\n")[0].text


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: [broken\n---\nText\n",
        "---\n- a list\n---\nText\n",
        "---\ntitle: never closed\n",
        "---\na: &a [x]\nb: [*a, *a]\n---\nText\n",
        "---\n" + "[" * 5000 + "\n---\nText\n",
        "---\nwhen: 2024-99-99\n---\nText\n",
        "---\n? {a: b}\n: c\n---\nText\n",
        "---\nn: " + "9" * 5000 + "\n---\nText\n",
        "----\ntitle: x\n---\n",
        " ---\ntitle: x\n---\n",
    ],
)
def test_what_is_broken_is_text(text: str) -> None:
    assert front_matter(text) == ({}, text, 0)


def test_fields_of_the_wrong_type_are_left_out() -> None:
    text = (
        "---\ntitle: {a: b}\nslug: true\nuser_facing: maybe\ntags: 7\nproduct: 0x" + "f" * 5000 + "\nstatus: ''\n---\n"
    )
    assert front_matter(text)[0] == {}


def test_other_ways_to_write_it() -> None:
    text = "\ufeff---\r\ntitle: 2024\r\ntags: one, two\r\nuser_facing: 'No'\r\n...\r\nText\r\n"
    fields, body, lines = front_matter(text)
    assert fields == {"title": "2024", "tags": ["one", "two"], "user_facing": False}
    assert (body, lines) == ("Text\r\n", 5)


@given(st.text(max_size=200))
def test_anything_can_stand_in_it(text: str) -> None:
    fields, body, lines = front_matter(f"---\n{text}\n---\nrest")
    assert body.endswith("rest")
    assert lines or not fields
