"""The machine endpoints beside the gateway: query and statistics, ingest, documents and jobs.

Reading order: `paths` (which requests are ours), `door` (key, path, answer, refusals), `application` (the
ninja API and how its errors become ours), `bodies` (what a body may hold), then one module per group of
endpoints: `query`, `knowledge`, `documents`.
"""
