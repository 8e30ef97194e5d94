-- A search, in one call. Owned by kb_search, which may read every tenant's rows; the tenant comes from
-- kb_tenant_id() and from nowhere else. That is not a way around row-level security but what makes it
-- affordable: "@@" is not leakproof, so under a policy the text index is never used.
--
-- STABLE, so that all statements inside see one snapshot: VOLATILE gave torn reads while a page was
-- replaced. The static parts are cached generic plans; only the two lanes are EXECUTEd, whose USING values
-- the planner takes for constants (the tenant's true size, no quoting, nothing to inject).
GRANT CREATE ON SCHEMA public TO kb_search;
SET ROLE kb_search;

-- A question as the text lane needs it.
-- ceiling: the highest score a chunk could reach; weights: idf by lexeme; wanted: the lexemes that name
-- candidates (the three rarest and all that stand in at most a tenth of the chunks), NULL for none.
--
-- A word has a lexeme per language present in the tenant. It counts once: by its rarest lexeme that is
-- known there; not at all when it is a stop word in one of the languages and unknown in the others; else
-- as the rarest of words. prior is a number of pseudo-chunks that know no word: without them a tenant's
-- first page would make every word a common one.
CREATE OR REPLACE FUNCTION kb_question(
  tenant uuid, question text, configurations regconfig[], chunks bigint, prior integer,
  OUT ceiling double precision, OUT weights sparsevec, OUT wanted tsquery)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  rarest double precision := ln((chunks + prior + 1) / 0.5);
BEGIN
  WITH word AS (
    SELECT DISTINCT found.token AS word, false AS whole
    FROM ts_parse('default', kb_split(question)) AS found WHERE found.tokid <> 12
    UNION
    SELECT name, true FROM regexp_split_to_table(kb_ident(question), ' ') AS name WHERE name <> ''
  ), reading AS (
    SELECT w.word, w.whole, entry.lexeme
    FROM word AS w CROSS JOIN unnest(configurations) AS c (configuration)
    LEFT JOIN LATERAL unnest(to_tsvector(CASE WHEN w.whole THEN 'pg_catalog.simple'::regconfig ELSE c.configuration END, w.word)) AS entry ON true
    WHERE entry.lexeme IS NULL OR (length(entry.lexeme) <= 100 AND NOT entry.lexeme ^@ '~')
  ), meaning AS (
    -- words with the same lexemes are the same word
    SELECT DISTINCT array_agg(DISTINCT r.lexeme ORDER BY r.lexeme) FILTER (WHERE r.lexeme IS NOT NULL) AS lexemes,
      bool_or(r.lexeme IS NULL) AS stopped
    FROM reading AS r GROUP BY r.word, r.whole
  ), known AS MATERIALIZED (
    SELECT l.lexeme, least(l.df, chunks) AS df, ln((chunks + prior + 1) / (least(l.df, chunks) + 0.5)) AS idf
    FROM (SELECT DISTINCT unnest(m.lexemes) AS lexeme FROM meaning AS m) AS asked
    -- LIMIT: one look-up each, whatever the planner believes of the number of words
    CROSS JOIN LATERAL (
      SELECT known.lexeme, known.df FROM knowledge_lexeme AS known
      WHERE known.tenant_id = tenant AND known.lexeme = asked.lexeme LIMIT 1) AS l
  ), height AS (
    SELECT coalesce(
      (SELECT max(k.idf) FROM known AS k WHERE k.lexeme = ANY (m.lexemes)),
      CASE WHEN m.stopped THEN 0 ELSE rarest END) AS idf
    FROM meaning AS m WHERE m.lexemes IS NOT NULL
  ), place AS (
    SELECT kb_dimension(k.lexeme) AS dimension, max(k.idf)::real AS idf FROM known AS k GROUP BY 1
  ), choice AS (
    SELECT k.lexeme, k.df, row_number() OVER (ORDER BY k.df, k.lexeme) AS nth FROM known AS k
  )
  SELECT
    (SELECT 2.2 * coalesce(sum(h.idf), 0) FROM height AS h),
    (SELECT ('{' || coalesce(string_agg(p.dimension || ':' || p.idf, ',' ORDER BY p.dimension), '') || '}/536870912')::sparsevec FROM place AS p),
    (SELECT string_agg('''' || replace(replace(c.lexeme, '\', '\\'), '''', '''''') || '''', '|')::tsquery
     FROM choice AS c WHERE c.nth <= 3 OR c.df <= 0.1 * chunks)
  INTO ceiling, weights, wanted;
END
$$;

-- The search itself. The first row always comes; its chunk_id is NULL when there is no hit.
--
-- vector is the question's embedding of unit length as text, NULL for a search by text alone; model names
-- what made it, background is that model's mean cosine between unrelated texts (the prior of the mean).
-- The lists narrow the pages; NULL or empty restricts nothing. unmarked says whether a page without a mark
-- counts as user-facing; own_product, where not empty, is the only product (or none) of user-facing pages.
CREATE OR REPLACE FUNCTION kb_search(
  question text, vector text, model text, background double precision, dense_weight double precision,
  top_k integer, min_evidence double precision, sources text[], source_types text[], products text[],
  apps text[], path_prefix text, user_facing boolean, unmarked boolean, own_product text)
RETURNS TABLE (
  corpus_version bigint, corpus_chunks bigint, best_evidence double precision, vector_used boolean,
  chunk_id bigint, path text, body text, prefix text, score double precision, evidence double precision,
  heading text[], first_line integer, last_line integer, page_id bigint, slug text, title text, url text,
  source text, source_type text, text_rank integer, vector_rank integer, text_score double precision,
  vector_score double precision, content_hash text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET max_parallel_workers_per_gather = 0
SET work_mem = '16MB'
-- with the default of 4 a tenant of 100,000 chunks would be read by a sequential scan of everyone's
SET random_page_cost = 1.1
-- plans are kept: one made while the tables were small must not outlive that
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
  lane constant integer := 100;
  prior constant integer := 50;
  tenant constant uuid := kb_tenant_id();
  version bigint := 0;
  chunks bigint := 0;
  configurations regconfig[];
  -- the vector lane
  vec vector;
  half halfvec;
  model_key smallint;
  mean double precision;
  vector_ids bigint[] := '{}';
  vector_pages bigint[] := '{}';
  cosines double precision[] := '{}';
  -- the text lane
  ceiling double precision;
  weights sparsevec;
  wanted tsquery;
  text_ids bigint[] := '{}';
  text_pages bigint[] := '{}';
  matches double precision[] := '{}';
  -- the filter
  pages bigint[];
  matching bigint;
  condition text := '';
  -- chunks without a lexeme in common or a vector, when there are too few others
  found integer;
  other_ids bigint[] := '{}';
  other_pages bigint[] := '{}';
BEGIN
  SELECT c.version, c.chunks, ARRAY(SELECT DISTINCT kb_configuration(name) FROM jsonb_object_keys(c.languages) AS name)
  INTO version, chunks, configurations FROM knowledge_corpus AS c WHERE c.tenant_id = tenant;
  version := coalesce(version, 0);
  chunks := coalesce(chunks, 0);
  IF cardinality(configurations) IS NULL OR cardinality(configurations) = 0 THEN
    configurations := ARRAY['pg_catalog.simple'::regconfig];
  END IF;

  IF vector IS NOT NULL THEN
    vec := vector::vector;
    IF vector_norm(vec) < 1e-6 THEN
      RAISE EXCEPTION 'the question''s vector is zero' USING ERRCODE = '22023';
    END IF;
    SELECT s.model_id, (-(s.embedding_sum <#> vec) + prior * background) / (s.count + prior)
    INTO model_key, mean
    FROM knowledge_embeddingset AS s JOIN knowledge_embeddingmodel AS m ON m.id = s.model_id
    WHERE s.tenant_id = tenant AND m.name = model AND s.state IN ('live', 'kept') AND m.dimensions = vector_dims(vec);
    half := vec::halfvec;
  END IF;
  vector_used := model_key IS NOT NULL;
  mean := least(coalesce(mean, 0), 0.999);

  matching := chunks;
  IF cardinality(sources) > 0 OR cardinality(source_types) > 0 OR cardinality(products) > 0 OR cardinality(apps) > 0
     OR path_prefix <> '' OR user_facing THEN
    SELECT coalesce(array_agg(p.id ORDER BY p.id), '{}'), coalesce(sum(p.chunk_count), 0) INTO pages, matching
    FROM knowledge_page AS p JOIN knowledge_source AS s ON s.tenant_id = tenant AND s.id = p.source_id
    WHERE p.tenant_id = tenant AND p.chunk_count > 0
      AND (coalesce(cardinality(sources), 0) = 0 OR s.name = ANY (sources))
      AND (coalesce(cardinality(source_types), 0) = 0 OR coalesce(nullif(p.source_type, ''), s.source_type) = ANY (source_types))
      AND (coalesce(cardinality(products), 0) = 0 OR coalesce(nullif(p.product, ''), s.product) = ANY (products))
      AND (coalesce(cardinality(apps), 0) = 0 OR coalesce(nullif(p.app, ''), s.app) = ANY (apps))
      AND p.path >= coalesce(path_prefix, '') AND p.path ^@ coalesce(path_prefix, '')
      AND (NOT coalesce(kb_search.user_facing, false) OR (
        coalesce(p.user_facing, s.user_facing, unmarked, false)
        AND (coalesce(own_product, '') = '' OR coalesce(nullif(p.product, ''), s.product) IN ('', own_product))));
    -- few pages: an index condition each; many: read in order and look each up
    condition := CASE WHEN matching > chunks / 3 THEN ' AND (x.page_id + 0) = ANY ($3)' ELSE ' AND x.page_id = ANY ($3)' END;
  END IF;

  IF vector_used AND matching > 0 THEN
    -- "+ 0" keeps the exact scan whatever vector index there may be
    EXECUTE 'SELECT coalesce(array_agg(n.chunk_id), ''{}''), coalesce(array_agg(n.page_id), ''{}''), coalesce(array_agg(1 - n.distance), ''{}'')
      FROM (SELECT x.chunk_id, x.page_id, (x.embedding <=> $1) + 0 AS distance FROM knowledge_embedding AS x
        WHERE x.tenant_id = $2 AND x.model_id = $4' || condition || ' ORDER BY (x.embedding <=> $1) + 0, x.chunk_id LIMIT $5) AS n'
    INTO vector_ids, vector_pages, cosines USING half, tenant, pages, model_key, lane;
  END IF;

  IF chunks > 0 THEN
    SELECT q.ceiling, q.weights, q.wanted INTO ceiling, weights, wanted
    FROM kb_question(tenant, question, configurations, chunks, prior) AS q;
  END IF;
  IF wanted IS NOT NULL AND matching > 0 THEN
    -- Without a filter the tenant's lexeme alone names the tenant to the index: as a plain condition the
    -- tenant would add a second index scan over all its chunks.
    EXECUTE 'SELECT coalesce(array_agg(n.chunk_id), ''{}''), coalesce(array_agg(n.page_id), ''{}''), coalesce(array_agg(n.match), ''{}'')
      FROM (SELECT x.chunk_id, x.page_id, -(x.bm <#> $1) AS match FROM knowledge_chunkterms AS x
        WHERE x.tsv @@ $4 AND ' || CASE WHEN pages IS NULL OR matching > chunks / 3 THEN '(x.tenant_id = $2) IS TRUE' ELSE 'x.tenant_id = $2' END
        || condition || ' ORDER BY 3 DESC, x.chunk_id LIMIT $5) AS n'
    INTO text_ids, text_pages, matches
    USING weights, tenant, pages, ('''' || kb_tenant_lexeme(tenant) || '''')::tsquery && wanted, lane;
  END IF;

  SELECT count(*) INTO found FROM (SELECT unnest(vector_ids) UNION SELECT unnest(text_ids)) AS candidate;
  IF found < least(top_k, matching) THEN
    EXECUTE 'SELECT coalesce(array_agg(n.id), ''{}''), coalesce(array_agg(n.page_id), ''{}'')
      FROM (SELECT x.id, x.page_id FROM knowledge_chunk AS x
        WHERE x.tenant_id = $2 AND x.id <> ALL ($1)' || condition || ' ORDER BY x.page_id, x.ord LIMIT $4) AS n'
    INTO other_ids, other_pages USING vector_ids || text_ids, tenant, pages, top_k - found;
  END IF;

  RETURN QUERY
  WITH listed AS (
    SELECT v.id, v.page_id, v.cosine, NULL::double precision AS match, v.nth AS vector_rank, NULL::bigint AS text_rank
    FROM unnest(vector_ids, vector_pages, cosines) WITH ORDINALITY AS v (id, page_id, cosine, nth)
    UNION ALL
    SELECT t.id, t.page_id, NULL, t.match, NULL, t.nth
    FROM unnest(text_ids, text_pages, matches) WITH ORDINALITY AS t (id, page_id, match, nth)
    UNION ALL
    SELECT o.id, o.page_id, NULL, NULL, NULL, NULL FROM unnest(other_ids, other_pages) AS o (id, page_id)
  ), candidate AS MATERIALIZED (
    SELECT l.id, l.page_id, max(l.cosine) AS cosine, max(l.match) AS match,
      min(l.vector_rank)::integer AS vector_rank, min(l.text_rank)::integer AS text_rank
    FROM listed AS l GROUP BY l.id, l.page_id
  ), measured AS MATERIALIZED (
    -- Each part for every candidate, also for those that only the other lane named. "+ 0" leaves the primary
    -- key as the way in: without statistics the planner would read all of the tenant's vectors each time.
    SELECT c.id, c.page_id, c.vector_rank, c.text_rank,
      CASE WHEN vector_used THEN greatest(0, (coalesce(c.cosine, (
        SELECT 1 - (e.embedding <=> half) FROM knowledge_embedding AS e
        WHERE e.tenant_id = tenant AND e.chunk_id = c.id AND (e.model_id + 0) = model_key)) - mean) / (1 - mean)) END AS vector_part,
      CASE WHEN ceiling > 0 THEN least(1, coalesce(c.match, (
        SELECT -(t.bm <#> weights) FROM knowledge_chunkterms AS t
        WHERE t.tenant_id = tenant AND t.chunk_id = c.id), 0) / ceiling) END AS text_part
    FROM candidate AS c
  ), weighed AS MATERIALIZED (
    SELECT m.*,
      CASE WHEN vector_used THEN dense_weight * coalesce(m.vector_part, 0) + (1 - dense_weight) * coalesce(m.text_part, 0)
        ELSE coalesce(m.text_part, 0) END AS part,
      CASE WHEN vector_used THEN 0.5 * coalesce(m.vector_part, 0) + 0.5 * coalesce(m.text_part, 0)
        ELSE kb_text_evidence(coalesce(m.text_part, 0)) END AS evidence
    FROM measured AS m
  ), document AS (
    SELECT w.page_id, sum(w.part) / greatest(max(p.chunk_count), 1) AS mean
    FROM weighed AS w JOIN knowledge_page AS p ON p.tenant_id = tenant AND p.id = w.page_id GROUP BY w.page_id
  ), ranked AS (
    SELECT w.*, w.part + 0.5 * d.mean AS total
    FROM weighed AS w JOIN document AS d ON d.page_id = w.page_id
    WHERE w.evidence >= min_evidence
    ORDER BY w.part + 0.5 * d.mean DESC, w.id LIMIT top_k
  ), hit AS (
    SELECT r.*, c.text, c.prefix, c.heading, c.first_line, c.last_line, c.text_hash,
      p.path, p.slug, p.title, p.url, s.name AS source, coalesce(nullif(p.source_type, ''), s.source_type) AS source_type
    FROM ranked AS r
    JOIN knowledge_chunk AS c ON c.tenant_id = tenant AND c.id = r.id
    JOIN knowledge_page AS p ON p.tenant_id = tenant AND p.id = r.page_id
    JOIN knowledge_source AS s ON s.tenant_id = tenant AND s.id = p.source_id
  )
  SELECT version, chunks, coalesce((SELECT max(w.evidence) FROM weighed AS w), 0), vector_used,
    h.id, h.path::text, h.text, h.prefix, CASE WHEN h.total < 1.5 THEN h.total / 1.5 ELSE 1 END, CASE WHEN h.evidence < 1 THEN h.evidence ELSE 1 END, h.heading, h.first_line, h.last_line,
    h.page_id, h.slug::text, h.title::text, h.url::text, h.source::text, h.source_type::text, h.text_rank, h.vector_rank,
    h.text_part, CASE WHEN h.vector_part > 1 THEN 1 ELSE h.vector_part END, h.text_hash::text
  FROM (SELECT) AS always LEFT JOIN hit AS h ON true
  ORDER BY h.total DESC NULLS LAST, h.id;
END
$$;

-- What the text part alone says on the scale of evidence (docs/retrieval.md tells how it was calibrated).
CREATE OR REPLACE FUNCTION kb_text_evidence(part double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT least(1, part / 0.9) $$;

REVOKE ALL ON FUNCTION kb_search(text, text, text, double precision, double precision, integer, double precision,
  text[], text[], text[], text[], text, boolean, boolean, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kb_search(text, text, text, double precision, double precision, integer, double precision,
  text[], text[], text[], text[], text, boolean, boolean, text) TO kb_app, kb_staff;
REVOKE ALL ON FUNCTION kb_question(uuid, text, regconfig[], bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kb_question(uuid, text, regconfig[], bigint, integer) TO kb_app, kb_staff;
RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM kb_search;
