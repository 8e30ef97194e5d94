"""What a text is made of in the eyes of the text lane; the rules are in knowledge/sql/lexemes.sql."""

from __future__ import annotations

from django.db import connection

from knowledge.languages import configuration


def lexemes(text: str, *, language: str) -> dict[str, int]:
    """Return the lexemes of a text in a language (ISO code) with how often each stands in it.

    Needs a connection but no tenant. Stop words are left out; names in code come whole and in parts.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT entry.lexeme, cardinality(entry.positions)"
            " FROM unnest(kb_lexemes(kb_configuration(%s), %s)) AS entry",
            [configuration(language), text],
        )
        return dict(cursor.fetchall())
