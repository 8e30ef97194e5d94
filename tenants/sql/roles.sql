-- Run once by an administrator (superuser) in the database of kbplatform. Safe to run again.
-- Passwords are not set here: ALTER ROLE kb_app PASSWORD '…' and so on, one per role.
CREATE EXTENSION IF NOT EXISTS vector;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kb_owner') THEN CREATE ROLE kb_owner LOGIN; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kb_app') THEN CREATE ROLE kb_app LOGIN; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kb_staff') THEN CREATE ROLE kb_staff LOGIN; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'kb_search') THEN CREATE ROLE kb_search NOLOGIN; END IF;
END
$$;

-- None of them may look past a policy, make roles, or lend its rights.
ALTER ROLE kb_owner NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB;
ALTER ROLE kb_app NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB;
ALTER ROLE kb_staff NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB;
ALTER ROLE kb_search NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB;

-- kb_owner may hand functions to kb_search, but does not inherit its policies.
GRANT kb_search TO kb_owner WITH INHERIT FALSE, SET TRUE;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
-- With grant option: the migration that makes the search functions lends CREATE to kb_search while it runs.
GRANT USAGE, CREATE ON SCHEMA public TO kb_owner WITH GRANT OPTION;
GRANT USAGE ON SCHEMA public TO kb_app, kb_staff, kb_search;

-- Rows only: no TRUNCATE, which row-level security does not see.
ALTER DEFAULT PRIVILEGES FOR ROLE kb_owner IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO kb_app, kb_staff;
ALTER DEFAULT PRIVILEGES FOR ROLE kb_owner IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO kb_app, kb_staff;
