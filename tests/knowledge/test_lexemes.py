"""What a text is made of for the text lane."""

from __future__ import annotations

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.lexemes import lexemes

TEXTS = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300)


def test_it_works() -> None:
    assert lexemes("The installed maps", language="en") == {"instal": 1, "map": 1}


@pytest.mark.parametrize("name", ["alloc_map", "allocMap", "AllocMap", "ALLOC_MAP"])
def test_names_in_code_come_in_parts_and_whole(name: str) -> None:
    assert lexemes(name, language="en") == {"alloc": 1, "map": 1, "allocmap": 1}


def test_dotted_and_slashed_names_fall_apart() -> None:
    found = lexemes("os.path.join /usr/share std::vec", language="simple")

    assert set(found) == {"os", "path", "join", "usr", "share", "std", "vec"}


def test_abbreviations_are_words() -> None:
    assert set(lexemes("XMLHttpRequest", language="xx")) == {"xml", "http", "request", "xmlhttprequest"}


def test_russian_has_its_stemmer_and_no_marks() -> None:
    assert lexemes("«Слово» — это слова…", language="ru") == {"слов": 2, "эт": 1}


def test_spanish_questions_have_no_marks() -> None:
    assert lexemes("¿Qué es la “instalación”?", language="es") == {"instal": 1}


def test_vowel_signs_of_hindi_stay_with_their_word() -> None:
    assert lexemes("हिन्दी", language="xx") == {"हिन्दी": 1}


def test_a_blob_is_no_word() -> None:
    assert lexemes("x" * 101 + " word", language="en") == {"word": 1}


@given(text=TEXTS)
@settings(max_examples=50, deadline=None)
def test_no_text_can_make_a_tenant_lexeme(text: str) -> None:
    assert not any(lexeme.startswith("~") for lexeme in lexemes(f"~t{text} ~t", language="en"))


@given(text=TEXTS)
@settings(max_examples=50, deadline=None)
def test_any_text_has_weights(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT kb_weights(l, 10)::text, kb_length(l) FROM kb_lexemes('english', %s) AS l", [text])
        weights, length = cursor.fetchone()

    assert weights.endswith("/536870912")
    assert length >= 0
