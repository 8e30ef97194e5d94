"""Languages as people name them."""

import pytest
from django.db import connections

from tenants.languages import CODES, CONFIGURATIONS, UnknownLanguage, language_code


def test_it_works() -> None:
    assert [language_code(text) for text in ("es", "ES-mx", "pg_catalog.spanish", "Russian")] == [
        "es",
        "es",
        "es",
        "ru",
    ]


def test_every_configuration_of_the_server_is_known() -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace")
        names = {row[0] for row in cursor.fetchall()}

    assert names - {"simple"} <= set(CONFIGURATIONS)
    assert set(CONFIGURATIONS.values()) <= CODES


@pytest.mark.parametrize("text", ["", "klingon", "e", "simple", "zz", "\0"])
def test_what_is_no_language_is_refused(text: str) -> None:
    with pytest.raises(UnknownLanguage, match="no language"):
        language_code(text)
