"""Which language a text is in."""

import pytest
from django.db import connection

from knowledge.languages import configuration, detect
from tenants.languages import CONFIGURATIONS

SPANISH = """La base de conocimiento indexa los ficheros del proyecto y responde a las preguntas de los usuarios
con los fragmentos más relevantes que encuentra en la documentación."""
RUSSIAN = """База знаний индексирует файлы проекта и отвечает на вопросы пользователей, выбирая наиболее подходящие
фрагменты документации. Если ничего не найдено, ответ говорит об этом прямо, без догадок и предположений."""
POLISH = """Baza wiedzy indeksuje pliki projektu i odpowiada na pytania użytkowników za pomocą najbardziej odpowiednich
fragmentów dokumentacji, jeśli takie istnieją w systemie i są dostępne."""
CODE = """
def allocate(self, size, *, zeroed=False):
    block = self.free_blocks.pop(size)
    return Block(address=block.address, size=size) if block else self.grow(size)
"""


def test_it_works() -> None:
    assert detect(SPANISH, fallback="en") == "es"
    assert detect(RUSSIAN, fallback="en") == "ru"


def test_a_short_text_is_in_the_expected_language() -> None:
    assert detect("Hola, ¿qué tal?", fallback="ru") == "ru"
    assert detect("", fallback="ru") == "ru"


def test_code_is_in_the_expected_language() -> None:
    assert detect(CODE * 10, fallback="es") == "es"


def test_code_in_prose_does_not_count() -> None:
    assert detect(f"{SPANISH}\n```\n{CODE * 20}\n```\n", fallback="en") == "es"


def test_a_language_without_a_stemmer_is_known_as_itself() -> None:
    code = detect(POLISH, fallback="en")

    assert code == "pl"
    assert configuration(code) == "simple"


def test_the_answer_is_always_the_same() -> None:
    assert {detect(RUSSIAN, fallback="en") for _ in range(5)} == {"ru"}


@pytest.mark.parametrize(
    ("code", "name"), [("es", "spanish"), ("es-MX", "spanish"), ("nb", "norwegian"), ("xx", "simple")]
)
def test_codes_have_configurations(code: str, name: str) -> None:
    assert configuration(code) == name


def test_every_configuration_of_the_server_has_a_code() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace")
        there = {name for (name,) in cursor.fetchall()}

    assert there - {"simple"} == {configuration(code) for code in CONFIGURATIONS.values()}


def test_a_configuration_that_the_server_lacks_is_simple() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT kb_configuration('klingon')::text, kb_configuration('russian')::text")

        assert cursor.fetchone() == ("simple", "russian")
