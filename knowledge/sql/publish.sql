-- Changing what can be retrieved. These run with the caller's rights, under row-level security, inside
-- the transaction that replaces a page; knowledge/index/ calls them.

-- Enter the corpus change of some chunks while the rows of both sets exist: document frequencies, the
-- embedding sets' sums and counts, the corpus row. Whoever enters holds the corpus row to the end of the
-- transaction, so one tenant's changes meet here one after another and cannot deadlock.
CREATE OR REPLACE FUNCTION kb_enter(fresh bigint[], gone bigint[], fresh_language text, gone_language text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := kb_tenant_id();
  more_chunks integer := coalesce(cardinality(fresh), 0);
  less_chunks integer := coalesce(cardinality(gone), 0);
  more_lexemes text[];
  more_steps integer[];
  less_lexemes text[];
  less_steps integer[];
BEGIN
  PERFORM 1 FROM knowledge_corpus AS c WHERE c.tenant_id = tenant FOR UPDATE;

  WITH change AS MATERIALIZED (
    SELECT entry.lexeme COLLATE "C" AS lexeme, sum(side.step)::integer AS step
    FROM (SELECT unnest(fresh) AS chunk_id, 1 AS step UNION ALL SELECT unnest(gone), -1) AS side
    JOIN knowledge_chunkterms AS t ON t.tenant_id = tenant AND t.chunk_id = side.chunk_id
    CROSS JOIN LATERAL unnest(t.tsv) AS entry
    WHERE NOT entry.lexeme ^@ '~'
    GROUP BY 1 HAVING sum(side.step) <> 0
  )
  SELECT array_agg(c.lexeme ORDER BY c.lexeme) FILTER (WHERE c.step > 0), array_agg(c.step ORDER BY c.lexeme) FILTER (WHERE c.step > 0),
    array_agg(c.lexeme ORDER BY c.lexeme) FILTER (WHERE c.step < 0), array_agg(c.step ORDER BY c.lexeme) FILTER (WHERE c.step < 0)
  INTO more_lexemes, more_steps, less_lexemes, less_steps FROM change AS c;

  -- From arrays, one index look-up each. Joined to a query of thousands of words, the planner would go
  -- through all of them for each of the tenant's lexemes.
  IF more_lexemes IS NOT NULL THEN
    INSERT INTO knowledge_lexeme AS l (tenant_id, lexeme, df)
    SELECT tenant, c.lexeme, c.step FROM unnest(more_lexemes, more_steps) AS c (lexeme, step)
    ON CONFLICT (tenant_id, lexeme) DO UPDATE SET df = l.df + excluded.df;
  END IF;
  IF less_lexemes IS NOT NULL THEN
    DELETE FROM knowledge_lexeme AS l USING unnest(less_lexemes, less_steps) AS c (lexeme, step)
    WHERE l.tenant_id = tenant AND l.lexeme = c.lexeme AND l.df + c.step <= 0;
    UPDATE knowledge_lexeme AS l SET df = l.df + c.step FROM unnest(less_lexemes, less_steps) AS c (lexeme, step)
    WHERE l.tenant_id = tenant AND l.lexeme = c.lexeme;
  END IF;

  PERFORM kb_enter_vectors(fresh, gone, NULL);

  UPDATE knowledge_corpus AS c SET
    chunks = c.chunks + more_chunks - less_chunks,
    tokens = c.tokens + (
      SELECT coalesce(sum(t.length * CASE WHEN t.chunk_id = ANY (fresh) THEN 1 ELSE -1 END), 0)
      FROM knowledge_chunkterms AS t WHERE t.tenant_id = tenant AND t.chunk_id = ANY (fresh || gone)),
    languages = kb_counted(kb_counted(c.languages, fresh_language, more_chunks), gone_language, -less_chunks)
  WHERE c.tenant_id = tenant;
END
$$;

-- Enter vectors that came and went, of one model or of all.
CREATE OR REPLACE FUNCTION kb_enter_vectors(fresh bigint[], gone bigint[], of_model smallint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := kb_tenant_id();
BEGIN
  WITH came AS (
    SELECT e.model_id, sum(e.embedding::vector) AS total, count(*)::integer AS number
    FROM knowledge_embedding AS e
    WHERE e.tenant_id = tenant AND e.chunk_id = ANY (fresh) AND (of_model IS NULL OR e.model_id = of_model)
    GROUP BY e.model_id
  ), went AS (
    SELECT e.model_id, sum(e.embedding::vector) AS total, count(*)::integer AS number
    FROM knowledge_embedding AS e
    WHERE e.tenant_id = tenant AND e.chunk_id = ANY (gone) AND (of_model IS NULL OR e.model_id = of_model)
    GROUP BY e.model_id
  ), change AS (
    SELECT s.model_id, came.total AS more, went.total AS less,
      coalesce(came.number, 0) - coalesce(went.number, 0) AS step
    FROM knowledge_embeddingset AS s
    LEFT JOIN came ON came.model_id = s.model_id
    LEFT JOIN went ON went.model_id = s.model_id
    WHERE s.tenant_id = tenant AND (came.number > 0 OR went.number > 0)
  )
  UPDATE knowledge_embeddingset AS s SET
    count = greatest(s.count + change.step, 0),
    -- an empty set starts again at zero, free of rounding
    embedding_sum = CASE WHEN s.count + change.step <= 0 THEN s.embedding_sum - s.embedding_sum
      ELSE CASE WHEN change.less IS NULL THEN s.embedding_sum ELSE s.embedding_sum - change.less END
        + CASE WHEN change.more IS NULL THEN s.embedding_sum - s.embedding_sum ELSE change.more END END
  FROM change WHERE s.tenant_id = tenant AND s.model_id = change.model_id;
END
$$;

-- Make the tenant's set of a model's vectors if there is none: live when it is the tenant's first, else one
-- to be built. It counts what vectors are there already.
CREATE OR REPLACE FUNCTION kb_have_set(of_model smallint, set_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := kb_tenant_id();
BEGIN
  IF EXISTS (SELECT FROM knowledge_embeddingset AS s WHERE s.tenant_id = tenant AND s.model_id = of_model) THEN
    RETURN;
  END IF;
  PERFORM 1 FROM knowledge_corpus AS c WHERE c.tenant_id = tenant FOR UPDATE;
  INSERT INTO knowledge_embeddingset (tenant_id, id, model_id, state, embedding_sum, count, created_at)
  SELECT tenant, set_id, m.id,
    CASE WHEN EXISTS (SELECT FROM knowledge_embeddingset AS s WHERE s.tenant_id = tenant AND s.state = 'live')
      THEN 'building' ELSE 'live' END,
    coalesce(there.total, array_fill(0::real, ARRAY[m.dimensions::integer])::vector), there.number, now()
  FROM knowledge_embeddingmodel AS m CROSS JOIN (
    SELECT sum(e.embedding::vector) AS total, count(*)::integer AS number
    FROM knowledge_embedding AS e WHERE e.tenant_id = tenant AND e.model_id = of_model) AS there
  WHERE m.id = of_model
  ON CONFLICT (tenant_id, model_id) DO NOTHING;
END
$$;

-- Counts by name in a JSON object; names at zero are left out.
CREATE OR REPLACE FUNCTION kb_counted(counts jsonb, name text, step integer) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE
    WHEN name IS NULL OR step = 0 THEN counts
    WHEN coalesce((counts ->> name)::integer, 0) + step > 0
      THEN counts || jsonb_build_object(name, coalesce((counts ->> name)::integer, 0) + step)
    ELSE counts - name END
$$;

-- Replace a page's live chunks by those staged for it. A chunk whose prefix and text are the same as
-- before keeps its rows, its id and its vectors (unless the language changed, which makes other
-- lexemes). A staged chunk without a vector takes the live one of the same text; where there is none,
-- KB001 is raised and nothing changes.
CREATE OR REPLACE FUNCTION kb_swap_chunks(
  the_page bigint, from_source bigint, from_path text, from_hash text, with_model smallint,
  language text, language_before text)
RETURNS TABLE (added integer, removed integer, moved integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := kb_tenant_id();
  average double precision;
  live_kept bigint[];
  staged_kept bigint[];
  gone bigint[];
  fresh bigint[];
  late bigint[];
BEGIN
  WITH live AS (
    SELECT c.id, c.text_hash, row_number() OVER (PARTITION BY c.text_hash ORDER BY c.ord) AS nth
    FROM knowledge_chunk AS c
    WHERE c.tenant_id = tenant AND c.page_id = the_page AND language = language_before
  ), staged AS (
    SELECT s.id, s.text_hash, row_number() OVER (PARTITION BY s.text_hash ORDER BY s.ord) AS nth
    FROM knowledge_stagedchunk AS s
    WHERE s.tenant_id = tenant AND s.source_id = from_source AND s.path = from_path
      AND s.content_hash = from_hash AND s.model_id = with_model
  ), pair AS (
    SELECT live.id AS live_id, staged.id AS staged_id
    FROM staged LEFT JOIN live ON live.text_hash = staged.text_hash AND live.nth = staged.nth
  )
  SELECT coalesce(array_agg(live_id) FILTER (WHERE live_id IS NOT NULL), '{}'),
    coalesce(array_agg(staged_id) FILTER (WHERE live_id IS NOT NULL), '{}'),
    coalesce(array_agg(staged_id) FILTER (WHERE live_id IS NULL), '{}')
  INTO live_kept, staged_kept, fresh FROM pair;
  SELECT coalesce(array_agg(c.id), '{}') INTO gone FROM knowledge_chunk AS c
  WHERE c.tenant_id = tenant AND c.page_id = the_page AND c.id <> ALL (live_kept);

  INSERT INTO knowledge_chunk (tenant_id, id, page_id, ord, text, prefix, heading, first_line, last_line, text_hash)
  SELECT tenant, s.id, the_page, s.ord, s.text, s.prefix, s.heading, s.first_line, s.last_line, s.text_hash
  FROM knowledge_stagedchunk AS s WHERE s.tenant_id = tenant AND s.id = ANY (fresh) ORDER BY s.ord;

  INSERT INTO knowledge_embedding (tenant_id, chunk_id, model_id, page_id, embedding)
  SELECT tenant, s.id, with_model, the_page, s.embedding
  FROM knowledge_stagedchunk AS s WHERE s.tenant_id = tenant AND s.id = ANY (fresh) AND s.embedding IS NOT NULL;
  -- vectors of every model, from live chunks of the same text
  IF cardinality(live_kept || gone) > 0 THEN
    WITH live_text AS MATERIALIZED (
      SELECT DISTINCT ON (c.text_hash) c.text_hash, c.id FROM knowledge_chunk AS c
      WHERE c.tenant_id = tenant AND c.id = ANY (live_kept || gone) ORDER BY c.text_hash, c.id
    ), pair AS MATERIALIZED (
      SELECT s.id, m.id AS live_id FROM knowledge_stagedchunk AS s JOIN live_text AS m ON m.text_hash = s.text_hash
      WHERE s.tenant_id = tenant AND s.id = ANY (fresh)
    )
    INSERT INTO knowledge_embedding (tenant_id, chunk_id, model_id, page_id, embedding)
    SELECT tenant, pair.id, e.model_id, the_page, e.embedding
    FROM pair JOIN knowledge_embedding AS e ON e.tenant_id = tenant AND e.chunk_id = pair.live_id
    ON CONFLICT (tenant_id, chunk_id, model_id) DO NOTHING;
  END IF;
  IF EXISTS (SELECT FROM unnest(fresh) AS f (id) WHERE NOT EXISTS (
    SELECT FROM knowledge_embedding AS e WHERE e.tenant_id = tenant AND e.chunk_id = f.id AND e.model_id = with_model))
  THEN
    RAISE EXCEPTION 'a staged chunk of % has no vector, and no live chunk with its text', from_path USING ERRCODE = 'KB001';
  END IF;

  SELECT c.average_length INTO average FROM knowledge_corpus AS c WHERE c.tenant_id = tenant;
  IF coalesce(average, 0) = 0 THEN  -- the tenant's first chunks set the average until there are more
    SELECT avg(kb_length(kb_lexemes(kb_configuration(language), s.prefix || E'\n' || s.text))) INTO average
    FROM knowledge_stagedchunk AS s WHERE s.tenant_id = tenant AND s.id = ANY (fresh);
    UPDATE knowledge_corpus AS c SET average_length = coalesce(average, 0) WHERE c.tenant_id = tenant AND c.average_length = 0;
  END IF;

  INSERT INTO knowledge_chunkterms (tenant_id, chunk_id, page_id, tsv, bm, length)
  SELECT tenant, made.id, the_page, made.lexemes || array_to_tsvector(ARRAY[kb_tenant_lexeme(tenant)]),
    kb_weights(made.lexemes, average), kb_length(made.lexemes)
  FROM (
    SELECT s.id, kb_lexemes(kb_configuration(language), s.prefix || E'\n' || s.text) AS lexemes
    FROM knowledge_stagedchunk AS s WHERE s.tenant_id = tenant AND s.id = ANY (fresh) OFFSET 0
  ) AS made;

  UPDATE knowledge_chunk AS c SET ord = s.ord, heading = s.heading, first_line = s.first_line, last_line = s.last_line
  FROM unnest(live_kept, staged_kept) AS pair (live_id, staged_id)
  JOIN knowledge_stagedchunk AS s ON s.tenant_id = tenant AND s.id = pair.staged_id
  WHERE c.tenant_id = tenant AND c.id = pair.live_id
    AND (c.ord, c.heading, c.first_line, c.last_line)
      IS DISTINCT FROM (s.ord, s.heading, s.first_line::integer, s.last_line::integer);
  GET DIAGNOSTICS moved = ROW_COUNT;

  -- kept chunks that have no vector of this model yet
  WITH gained AS (
    INSERT INTO knowledge_embedding (tenant_id, chunk_id, model_id, page_id, embedding)
    SELECT tenant, pair.live_id, with_model, the_page, s.embedding
    FROM unnest(live_kept, staged_kept) AS pair (live_id, staged_id)
    JOIN knowledge_stagedchunk AS s ON s.tenant_id = tenant AND s.id = pair.staged_id
    WHERE s.embedding IS NOT NULL
    ON CONFLICT (tenant_id, chunk_id, model_id) DO NOTHING RETURNING chunk_id
  )
  SELECT coalesce(array_agg(chunk_id), '{}') INTO late FROM gained;

  IF cardinality(fresh) + cardinality(gone) > 0 THEN
    PERFORM kb_enter(fresh, gone, language, language_before);
  END IF;
  IF cardinality(late) > 0 THEN
    PERFORM 1 FROM knowledge_corpus AS c WHERE c.tenant_id = tenant FOR UPDATE;
    PERFORM kb_enter_vectors(late, '{}', with_model);
  END IF;
  DELETE FROM knowledge_chunk AS c WHERE c.tenant_id = tenant AND c.id = ANY (gone);
  added := cardinality(fresh);
  removed := cardinality(gone);
  RETURN NEXT;
END
$$;

-- Delete pages with their chunks; returns how many chunks went. The caller holds the pages' locks.
CREATE OR REPLACE FUNCTION kb_delete_pages(pages bigint[], configurations jsonb) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := kb_tenant_id();
  part record;
  number integer := 0;
BEGIN
  FOR part IN
    SELECT p.language, array_agg(c.id) AS gone
    FROM knowledge_page AS p JOIN knowledge_chunk AS c ON c.tenant_id = tenant AND c.page_id = p.id
    WHERE p.tenant_id = tenant AND p.id = ANY (pages) GROUP BY p.language
  LOOP
    PERFORM kb_enter('{}', part.gone, NULL, configurations ->> part.language);
    number := number + cardinality(part.gone);
  END LOOP;
  DELETE FROM knowledge_page AS p WHERE p.tenant_id = tenant AND p.id = ANY (pages);
  RETURN number;
END
$$;

-- Add vectors of a model to live chunks (a move to another model); returns how many were added. A chunk
-- that has gone meanwhile, or has its vector, is passed over.
CREATE OR REPLACE FUNCTION kb_add_vectors(with_model smallint, chunk_ids bigint[], vectors text[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := kb_tenant_id();
  gained bigint[];
BEGIN
  PERFORM 1 FROM knowledge_corpus AS c WHERE c.tenant_id = tenant FOR UPDATE;
  WITH given AS (
    INSERT INTO knowledge_embedding (tenant_id, chunk_id, model_id, page_id, embedding)
    SELECT tenant, c.id, with_model, c.page_id, pair.vector::halfvec
    FROM unnest(chunk_ids, vectors) AS pair (id, vector)
    JOIN knowledge_chunk AS c ON c.tenant_id = tenant AND c.id = pair.id
    ON CONFLICT (tenant_id, chunk_id, model_id) DO NOTHING RETURNING chunk_id
  )
  SELECT coalesce(array_agg(chunk_id), '{}') INTO gained FROM given;
  PERFORM kb_enter_vectors(gained, '{}', with_model);
  RETURN cardinality(gained);
END
$$;
