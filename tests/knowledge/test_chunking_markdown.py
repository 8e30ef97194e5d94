from knowledge.chunking import ChunkSizes, Piece, chunk

PARAGRAPH = "Each valve is opened slowly and the pressure is read twice before the next one. " * 4


def trails(pieces: list[Piece]) -> list[tuple[str, ...]]:
    return [piece.trail for piece in pieces]


def test_it_works() -> None:
    headings = ("# Plant", "## Valves", "### Old ones", "## Pumps")
    body = "".join(f"{heading}\n\n{PARAGRAPH}\n\n" for heading in headings)
    assert trails(chunk("plant.md", body)) == [
        ("Plant",),
        ("Plant", "Valves"),
        ("Plant", "Valves", "Old ones"),
        ("Plant", "Pumps"),
    ]


def test_a_heading_without_text_goes_with_what_follows() -> None:
    first, second = chunk("plant.md", f"# Plant\n\n## Valves\n\n{PARAGRAPH}\n\n## Pumps\n\n### New\n\n{PARAGRAPH}\n")
    assert first.text.startswith("# Plant\n\n## Valves")
    assert second.text.startswith("## Pumps\n\n### New")
    assert second.trail == ("Plant", "Pumps", "New")


def test_a_heading_without_text_at_the_end_goes_with_what_precedes() -> None:
    (piece,) = chunk("plant.md", f"# Plant\n\n{PARAGRAPH}\n\n## To be written\n")
    assert piece.text.endswith("## To be written")
    assert piece.trail == ("Plant",)


def test_a_long_section_keeps_its_heading_with_text() -> None:
    code = "\n".join(f"step {number} of the long listing" for number in range(60))
    pieces = chunk("plant.md", f"# Plant\n\n```text\n{code}\n```\n\n## Next\n")
    assert len(pieces) > 1
    assert pieces[0].text.startswith("# Plant\n\n```text\nstep 0")
    assert pieces[-1].text.endswith("## Next")
    assert len(pieces[-1].text) > 100


def test_tiny_siblings_are_joined_under_their_parent() -> None:
    body = f"# Plant\n\n{PARAGRAPH}\n\n## One\n\nShort.\n\n## Two\n\nShort too.\n\n## Long\n\n{PARAGRAPH * 2}\n"
    pieces = chunk("plant.md", body)
    assert trails(pieces) == [("Plant",), ("Plant", "Long")]
    joined = next(piece for piece in pieces if "Short." in piece.text)
    assert "Short too." in joined.text
    assert joined.trail == ("Plant",)


def test_cousins_are_not_joined() -> None:
    body = f"# Plant\n\n{PARAGRAPH}\n\n## A\n\n### Deep\n\n{PARAGRAPH}\n\n## B\n\nShort.\n"
    assert trails(chunk("plant.md", body))[-2:] == [("Plant", "A", "Deep"), ("Plant", "B")]


def test_what_stands_above_the_first_heading_belongs_to_it() -> None:
    (piece,) = chunk("plant.md", "A badge.\n\n# Plant\n\nThe text.\n")
    assert piece.trail == ("Plant",)


def test_hashes_in_code_are_no_headings() -> None:
    listed = "- item\n\n  ```sh\n  # neither\n  ```\n\n    # nor this\n"
    body = f"# Plant\n\n{PARAGRAPH}\n\n```sh\n# not a heading\n```\n\n{listed}"
    assert {piece.trail for piece in chunk("plant.md", body)} == {("Plant",)}


def test_a_rule_directly_under_text_makes_no_heading() -> None:
    table = "| a | b |\n| --- | --- |\n| c | d |\n---\n"
    body = f"# Plant\n{PARAGRAPH}\n---\n## Valves\n{table}## Pumps\n> Quoted\n---\nThe end.\n---\n"
    names = {name for piece in chunk("plant.md", body, limits=ChunkSizes(tiny=0)) for name in piece.trail}
    assert names == {"Plant", "Valves", "Pumps"}


def test_underlined_headings_count() -> None:
    body = f"Plant\n=====\n\n{PARAGRAPH}\n\nValves\n------\n\n{PARAGRAPH}\n"
    assert trails(chunk("plant.md", body)) == [("Plant",), ("Plant", "Valves")]


def test_lone_short_lines_are_titles_when_nothing_is_marked() -> None:
    parts = ["The plant", "Written on Monday, by nobody.", "Valves", PARAGRAPH * 2, "Pumps (v2.1)", PARAGRAPH * 2]
    body = "\n\n".join([*parts, "Next", "- one\n- two\n"])
    pieces = chunk("plant.md", body)
    assert ("The plant", "Valves") in trails(pieces)
    assert ("The plant", "Pumps (v2.1)") in trails(pieces)


def test_a_poem_has_no_titles() -> None:
    body = "\n\n".join(["A line", "Another line", "One more line", "The last line"] * 3)
    assert {piece.trail for piece in chunk("poem.txt", body)} == {()}


def test_prose_without_headings_is_cut_at_sentences() -> None:
    pieces = chunk("plain.md", PARAGRAPH * 8)
    assert len(pieces) > 1
    assert all(piece.text.endswith(".") for piece in pieces)


def test_restructured_text_has_its_own_headings() -> None:
    body = f"=====\nPlant\n=====\n\n{PARAGRAPH}\n\nValves\n~~~~~~\n\n{PARAGRAPH}\n\nPumps\n~~~~~\n\n{PARAGRAPH}\n"
    assert trails(chunk("plant.rst", body)) == [("Plant",), ("Plant", "Valves"), ("Plant", "Pumps")]


def test_comments_in_plain_text_are_no_headings() -> None:
    assert {piece.trail for piece in chunk("requirements.txt", "# by hand\ndjango==5.2\n\n# more\norjson==3\n")} == {()}


def test_windows_and_old_mac_line_ends_keep_their_lines() -> None:
    body = f"# Plant\r\n\r\n{PARAGRAPH}\r\n\r\n## Valves\r\rstill here\r\n\r\n{PARAGRAPH}\r\n"
    pieces = chunk("plant.md", body)
    assert [(piece.trail[0], piece.first_line) for piece in pieces] == [("Plant", 1), ("Plant", 5)]
