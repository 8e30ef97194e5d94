-- What a text is made of, for BM25. Functions used by ingest (publish.sql) and by the search.

-- Names in code become words: snake_case, camelCase, dotted and slashed names fall apart, and marks become
-- spaces: those of ASCII and Latin-1, of Armenian, Arabic and Devanagari, then general and other
-- punctuation, symbols, full-width marks and emoji. The parser cannot be left to do it: with a database
-- whose locale is C it takes every character beyond ASCII for a letter, and a word in «» or before … for
-- another word. "Not a letter" would be no rule either: it breaks words at the vowel signs of Hindi.
CREATE OR REPLACE FUNCTION kb_split(body text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
  SELECT regexp_replace(regexp_replace(regexp_replace(body,
    '[\u0001-\u002f:-@\u005b-\u0060\u007b-\u00a9\u00ab-\u00b4\u00b6\u00b8\u00b9\u00bb-\u00bf\u00d7\u00f7'
    '\u055a-\u055f\u0589\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965'
    '\u2000-\u200b\u200e-\u206f\u2190-\u2bff\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u30fb'
    '\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U0001f000-\U0001faff]+', ' ', 'g'),
    '([[:lower:][:digit:]])([[:upper:]])', '\1 \2', 'g'),
    '([[:upper:]])([[:upper:]][[:lower:]])', '\1 \2', 'g')
$$;

-- The names themselves, whole, without underscores and in lower case, so that alloc_map, allocMap and
-- AllocMap are the same word. Plain words are not among them.
CREATE OR REPLACE FUNCTION kb_ident(body text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
  SELECT coalesce(string_agg(lower(replace(found[1], '_', '')), ' '), '')
  FROM regexp_matches(body,
    '([[:alpha:]_][[:alnum:]]*(?:_+[[:alnum:]]+)+'
    '|[[:alpha:]][[:alnum:]]*[[:lower:][:digit:]][[:upper:]][[:alnum:]]*'
    '|[[:upper:]]{2,}[[:lower:]][[:alnum:]]*)', 'g') AS found
$$;

-- A text search configuration by name; "simple" where this PostgreSQL has none of that name.
CREATE OR REPLACE FUNCTION kb_configuration(name text) RETURNS regconfig
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT coalesce(
    (SELECT c.oid::regconfig FROM pg_catalog.pg_ts_config AS c
     WHERE c.cfgname = name AND c.cfgnamespace = 'pg_catalog'::regnamespace),
    'pg_catalog.simple'::regconfig)
$$;

-- The lexemes of a text in a language, with their positions. A "word" of more than 100 characters is none.
CREATE OR REPLACE FUNCTION kb_lexemes(configuration regconfig, body text) RETURNS tsvector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
  SELECT ts_delete(made.lexemes, ARRAY(
    SELECT entry.lexeme FROM unnest(made.lexemes) AS entry
    WHERE length(entry.lexeme) > 100 OR entry.lexeme ^@ '~'))
  FROM (
    SELECT to_tsvector(configuration, kb_split(body)) || to_tsvector('pg_catalog.simple', kb_ident(body))
    OFFSET 0  -- made once, not once per use
  ) AS made (lexemes)
$$;

-- The number of lexemes, repetitions counted.
CREATE OR REPLACE FUNCTION kb_length(lexemes tsvector) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
  SELECT coalesce(sum(cardinality(entry.positions)), 0)::integer FROM unnest(lexemes) AS entry
$$;

-- The lexeme that every chunk of a tenant holds: with it the text index knows tenants.
CREATE OR REPLACE FUNCTION kb_tenant_lexeme(tenant uuid) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT '~t' || replace(tenant::text, '-', '') $$;

-- A lexeme's place in the sparse vectors. Two may share one (once in 30,000 lexemes); their weights add up.
CREATE OR REPLACE FUNCTION kb_dimension(lexeme text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT (hashtext(lexeme) & 536870911) + 1 $$;

-- BM25's weight of each lexeme in a text, tf (k1 + 1) / (tf + k1 (1 - b + b length / average)), with
-- k1 = 1.2 and b = 0.75 (Robertson and Zaragoza 2009). Times a question's idf it is the score.
CREATE OR REPLACE FUNCTION kb_weights(lexemes tsvector, average double precision) RETURNS sparsevec
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
  WITH entry AS (
    SELECT kb_dimension(found.lexeme) AS dimension, cardinality(found.positions)::double precision AS tf
    FROM unnest(lexemes) AS found WHERE NOT found.lexeme ^@ '~'
  ), norm AS (
    SELECT 1.2 * (0.25 + 0.75 * coalesce(sum(tf), 0) / greatest(average, 1)) AS k FROM entry
  ), weight AS (
    SELECT dimension, sum(tf * 2.2 / (tf + norm.k))::real AS value FROM entry, norm GROUP BY dimension
  )
  SELECT ('{' || coalesce(string_agg(dimension || ':' || value, ',' ORDER BY dimension), '') || '}/536870912')::sparsevec
  FROM weight
$$;
