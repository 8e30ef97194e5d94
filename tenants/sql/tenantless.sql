-- The only reads that need no tenant, each with the least columns. They run as kb_owner, whose policy
-- shows all rows; nobody else can reach these tables without a tenant.

-- Which key does this digest open? Expired secrets open nothing.
CREATE OR REPLACE FUNCTION kb_resolve_key(wanted bytea) RETURNS TABLE (tenant_id uuid, key_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
  SELECT s.tenant_id, s.key_id FROM public.tenants_keysecret s
  WHERE s.digest = wanted AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
  LIMIT 1
$$;
REVOKE ALL ON FUNCTION kb_resolve_key(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kb_resolve_key(bytea) TO kb_app;

-- Which tenants are there? For commands (slug to id) and for work that visits each tenant in turn.
CREATE OR REPLACE FUNCTION kb_tenant_ids() RETURNS TABLE (id uuid, slug text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$ SELECT t.id, t.slug::text FROM public.tenants_tenant t $$;
REVOKE ALL ON FUNCTION kb_tenant_ids() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kb_tenant_ids() TO kb_app, kb_staff;
