"""Narrowing what a key or request may see: never wider than either side."""

from hypothesis import given
from hypothesis import strategies as st

from tenants.filters import ALL, KnowledgeFilter

NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3).map(tuple)
FILTERS = st.builds(
    KnowledgeFilter,
    sources=NAMES,
    source_types=NAMES,
    products=NAMES,
    apps=NAMES,
    path_prefix=st.sampled_from(["", "docs/", "docs/help/", "src/"]),
    user_facing=st.booleans(),
)


def allows(restriction: KnowledgeFilter, name: str, path: str, *, facing: bool) -> bool:
    """Tell whether a page whose every field is `name` passes."""
    lists = (restriction.sources, restriction.source_types, restriction.products, restriction.apps)
    fits = all(not wanted or name in wanted for wanted in lists)
    return fits and path.startswith(restriction.path_prefix) and (facing or not restriction.user_facing)


def test_it_works() -> None:
    both = KnowledgeFilter(sources=("a", "b")).narrowed(KnowledgeFilter(sources=("b", "c"), apps=("x",)))
    assert both == KnowledgeFilter(sources=("b",), apps=("x",))


def test_nothing_in_common_is_none() -> None:
    assert KnowledgeFilter(sources=("a",)).narrowed(KnowledgeFilter(sources=("b",))) is None
    assert KnowledgeFilter(path_prefix="docs/").narrowed(KnowledgeFilter(path_prefix="src/")) is None


def test_a_longer_prefix_narrows() -> None:
    both = KnowledgeFilter(path_prefix="docs/").narrowed(KnowledgeFilter(path_prefix="docs/help/"))
    assert both == KnowledgeFilter(path_prefix="docs/help/")


def test_user_facing_cannot_be_taken_back() -> None:
    both = KnowledgeFilter(user_facing=True).narrowed(ALL)
    assert both == KnowledgeFilter(user_facing=True)


@given(
    FILTERS,
    FILTERS,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["docs/x", "docs/help/x", "src/x"]),
    st.booleans(),
)
def test_both_allow_what_their_narrowing_allows(
    left: KnowledgeFilter, right: KnowledgeFilter, name: str, path: str, facing: bool
) -> None:
    both = left.narrowed(right)
    either = allows(left, name, path, facing=facing) and allows(right, name, path, facing=facing)
    assert (both is not None and allows(both, name, path, facing=facing)) == either


@given(FILTERS, FILTERS)
def test_equal_filters_have_equal_fingerprints(left: KnowledgeFilter, right: KnowledgeFilter) -> None:
    def canonical(restriction: KnowledgeFilter) -> tuple[object, ...]:
        lists = (restriction.sources, restriction.source_types, restriction.products, restriction.apps)
        return (*(frozenset(names) for names in lists), restriction.path_prefix, restriction.user_facing)

    assert (left.fingerprint() == right.fingerprint()) == (canonical(left) == canonical(right))
