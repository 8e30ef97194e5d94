from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.chunking import (
    DEFAULT,
    SEED,
    ChunkSizes,
    chunk,
    contextual_prefix,
    front_matter,
    kind_of,
    title_of,
)
from knowledge.chunking.kinds import KINDS, NAMES, PROSE

SMALL = ChunkSizes(markdown=60, code=60, text=60, tiny=15)
OVERLAPPING = ChunkSizes(markdown=60, code=80, text=60, overlap=25, tiny=15)
PATHS = sorted({f"docs/page.{extension}" for extension in KINDS} | set(NAMES) | {"notes", "page.xyz"})

LINES = st.sampled_from(
    [
        *[
            "# One",
            "## Two",
            "### Three",
            "Title",
            "=====",
            "-----",
            "~~~",
            "```",
            "```py",
            "---",
            "> quoted",
            "- item",
        ],
        *["| a | b |", "| --- | --- |", "<div>", "    indented", "\tdef inner():", "def outer(a,", "class Thing:"],
        *["    @decorated", "# a comment", "// another", "/*", " */", "}", "{", "end", '"""', "key: value", "  deep:"],
        *[
            "[section]",
            "",
            "",
            "   ",
            "palabra " * 12,
            "слово и ещё слово.",
            "x" * 130,
            "e\u0301" * 70,
            "👩‍👩‍👧 family",
        ],
        *["\r", "text\r", "\x0c", "\ufeffmarked", "\u2028", "a\x00b", "lone \ud800", "\x1f", "title: x", "'''"],
    ]
)
BODIES = st.one_of(st.lists(LINES, max_size=40).map("\n".join), st.text(max_size=400))


@given(path=st.sampled_from(PATHS), body=BODIES, limits=st.sampled_from([DEFAULT, SMALL, OVERLAPPING, SEED]))
@settings(deadline=None, max_examples=400)
def test_pieces_are_exact_slices_in_order_that_hold_everything(path: str, body: str, limits: ChunkSizes) -> None:
    pieces = chunk(path, body, limits=limits)
    kind = kind_of(path)
    cap = {"markdown": limits.markdown, "code": limits.code}.get(kind or "text", limits.text)
    covered = bytearray(len(body))
    covered[: len(body) - len(front_matter(body)[1]) if kind in PROSE else 0] = b"\1" * len(body)
    for piece in pieces:
        covered[piece.start : piece.start + len(piece.text)] = b"\1" * len(piece.text)
    assert all(body[piece.start : piece.start + len(piece.text)] == piece.text for piece in pieces)
    assert all(piece.text == piece.text.strip() != "" for piece in pieces)
    assert all(len(piece.text) <= cap for piece in pieces)
    assert all(before.start < after.start for before, after in pairwise(pieces))
    assert "".join(character for character, seen in zip(body, covered, strict=False) if not seen).strip() == ""


@given(path=st.sampled_from(PATHS), body=BODIES, limits=st.sampled_from([SMALL, OVERLAPPING]))
@settings(deadline=None, max_examples=200)
def test_lines_are_those_of_the_body(path: str, body: str, limits: ChunkSizes) -> None:
    rows = body.split("\n")
    for piece in chunk(path, body, limits=limits):
        shown = rows[piece.first_line - 1 : piece.last_line]
        assert piece.text in "\n".join(shown)
        assert piece.text.partition("\n")[0] in shown[0]
        assert piece.text.rpartition("\n")[2] in shown[-1]


def test_it_works() -> None:
    body = "# Guide\n\nIntro.\n\n## Install\n\nRun the setup.\n"
    (piece,) = chunk("docs/guide.md", body)
    assert (piece.text, piece.start, piece.first_line, piece.last_line) == (body.strip(), 0, 1, 7)
    assert piece.trail == ("Guide",)


@pytest.mark.parametrize("path", PATHS)
def test_a_blank_page_has_no_pieces(path: str) -> None:
    assert chunk(path, "") == chunk(path, " \n\t\n\r\n ") == []


def test_extensions_are_known_in_any_case() -> None:
    assert (kind_of("A.MD"), kind_of("x/Makefile"), kind_of("photo.png"), kind_of("notes")) == (
        "markdown",
        "code",
        None,
        None,
    )


def test_sizes_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 50"):
        ChunkSizes(code=10)
    with pytest.raises(ValueError, match="half of the code size"):
        ChunkSizes(overlap=900)
    with pytest.raises(ValueError, match="tiny"):
        ChunkSizes(tiny=-1)


def test_the_seeds_sizes_cut_code_with_overlap() -> None:
    body = "".join(f"value_{number} = {number}\n" for number in range(200))
    pieces = chunk("values.py", body, limits=SEED)
    assert max(len(piece.text) for piece in pieces) <= 500
    assert all(after.start < before.start + len(before.text) for before, after in pairwise(pieces))
    assert all(before.start + len(before.text) - after.start <= 100 for before, after in pairwise(pieces))


def test_three_megabytes_on_one_line_are_cut_in_windows() -> None:
    body = "".join(f"function f{number}(a){{return a*{number}}};" for number in range(85_000))
    pieces = chunk("dist.min.js", body)
    assert len(body) > 3_000_000 - 500_000
    assert len(pieces) < 1.5 * len(body) / DEFAULT.code
    assert {(piece.first_line, piece.last_line) for piece in pieces} == {(1, 1)}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        *[("page.md", "- a list item\n"), ("page.md", "word "), ("page.md", "# a\n"), ("page.md", "[a]: b\n")],
        *[("page.py", "}\n"), ("page.py", "# comment\n"), ("page.py", "a = 1\n"), ("page.py", "(")],
        *[("page.yaml", "key:\n"), ("page.json", '"a": {\n'), ("page.txt", "verse\n\n"), ("page.c", "int a b c ")],
    ],
)
def test_monotonous_text_is_cut_too(path: str, line: str) -> None:
    body = line * (200_000 // len(line))
    assert sum(len(piece.text.split()) for piece in chunk(path, body)) >= len(body.split())


def test_indentation_a_thousand_levels_deep_is_no_recursion() -> None:
    body = "".join(f"{' ' * depth}if x:\n" for depth in range(1500))
    assert chunk("deep.py", body)


def test_the_prefix_names_path_title_and_trail_once() -> None:
    assert contextual_prefix("a/b.md", ("Guide", "Install"), "Guide") == "a/b.md\nGuide > Install"
    assert contextual_prefix("a/b.md", ("Install",), "Guide") == "a/b.md\nGuide > Install"
    assert contextual_prefix("a/b.py", (), "b.py") == "a/b.py"
    assert contextual_prefix("a/b\nc.md", ("two\nlines",)) == "a/b c.md\ntwo lines"


def test_the_prefix_stays_short() -> None:
    prefix = contextual_prefix("deep/" * 100 + "file.md", ["Top", *["middle " * 10] * 9, "Bottom"])
    assert len(prefix) < 420
    assert prefix.endswith("Bottom")
    assert "\nTop > " in prefix


def test_the_title_is_the_first_heading_then_front_matter_then_the_name() -> None:
    assert title_of("a/b.md", "---\ntitle: Said\n---\n## The *first* [one](x)\n") == "The *first* one"
    assert title_of("a/b.md", "---\ntitle: Said\n---\nNo heading.\n") == "Said"
    assert title_of("a/b.md", "No heading.\n") == "b.md"
    assert title_of("a/b.py", "# no heading\n") == "b.py"
