-- How the tables of the corpus lie on disk and when they are vacuumed.

-- The lanes read whole rows of terms: keep the weights in the row, uncompressed.
ALTER TABLE knowledge_chunkterms SET (toast_tuple_target = 8160);
ALTER TABLE knowledge_chunkterms ALTER COLUMN bm SET STORAGE EXTERNAL;
ALTER TABLE knowledge_embedding SET (toast_tuple_target = 8160);
ALTER TABLE knowledge_embedding ALTER COLUMN embedding SET STORAGE PLAIN;

-- An exact scan reads the index alone only where the visibility map is fresh. PostgreSQL's own defaults
-- wait for a fifth of the table, which lets a new tenant read the heap for days (10k chunks: 34 ms
-- instead of 21).
ALTER TABLE knowledge_embedding SET (
  autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE knowledge_chunkterms SET (
  autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.01);
ALTER TABLE knowledge_chunk SET (
  autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.01);
-- Counters: updated in place, many at a time.
ALTER TABLE knowledge_lexeme SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE knowledge_corpus SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE knowledge_embeddingset SET (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
-- Staged rows live for seconds.
ALTER TABLE knowledge_stagedchunk SET (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.1);
ALTER TABLE knowledge_stagedchunk ALTER COLUMN embedding SET STORAGE EXTERNAL;

-- Names of models belong to nobody: anyone may add one, nobody may change it under others.
REVOKE UPDATE, DELETE ON knowledge_embeddingmodel FROM kb_app;
GRANT SELECT ON knowledge_embeddingmodel TO kb_search;
