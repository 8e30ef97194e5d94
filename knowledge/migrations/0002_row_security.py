"""Row-level security and keys of the corpus, how its tables lie on disk, and its functions."""

from django.db import migrations

from tenants.rowsecurity import SecureTable, SqlFile

DROP_LEXEMES = """
DROP FUNCTION IF EXISTS kb_configuration(text), kb_weights(tsvector, double precision), kb_dimension(text), kb_tenant_lexeme(uuid),
  kb_length(tsvector), kb_lexemes(regconfig, text), kb_ident(text), kb_split(text);
"""
DROP_SEARCH = """
SET ROLE kb_search;
DROP FUNCTION IF EXISTS kb_search(text, text, text, double precision, double precision, integer, double precision,
  text[], text[], text[], text[], text, boolean, boolean, text), kb_question(uuid, text, regconfig[], bigint, integer),
  kb_text_evidence(double precision);
RESET ROLE;
"""
DROP_PUBLISH = """
DROP FUNCTION IF EXISTS kb_add_vectors(smallint, bigint[], text[]), kb_delete_pages(bigint[], jsonb),
  kb_swap_chunks(bigint, bigint, text, text, smallint, text, text), kb_counted(jsonb, text, integer),
  kb_enter(bigint[], bigint[], text, text), kb_enter_vectors(bigint[], bigint[], smallint),
  kb_have_set(smallint, bigint);
"""


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0001_initial"), ("tenants", "0002_row_security")]

    operations = [
        SecureTable("source", search=True),
        SecureTable("page", search=True),
        SecureTable("chunk", search=True),
        SecureTable("chunkterms", search=True),
        SecureTable("embedding", search=True),
        SecureTable("stagedchunk"),
        SecureTable("lexeme", search=True),
        SecureTable("corpus", search=True),
        SecureTable("embeddingset", search=True),
        SecureTable("job"),
        SecureTable("jobfile"),
        SqlFile("knowledge/sql/tables.sql"),
        SqlFile("knowledge/sql/lexemes.sql", backwards=DROP_LEXEMES),
        SqlFile("knowledge/sql/publish.sql", backwards=DROP_PUBLISH),
        SqlFile("knowledge/sql/search.sql", backwards=DROP_SEARCH),
    ]
