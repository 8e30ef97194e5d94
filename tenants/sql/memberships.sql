-- Which tenants may this person enter, and as what? Asked before a tenant is chosen, like the functions of
-- tenantless.sql, and run as kb_owner for the same reason.
DROP FUNCTION IF EXISTS kb_memberships(bigint);
CREATE FUNCTION kb_memberships(person bigint) RETURNS TABLE (tenant_id uuid, slug text, role text, team_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
  SELECT m.tenant_id, t.slug::text, m.role::text, m.team_id
  FROM public.tenants_membership m JOIN public.tenants_tenant t ON t.id = m.tenant_id
  WHERE m.user_id = person ORDER BY t.slug
$$;
REVOKE ALL ON FUNCTION kb_memberships(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION kb_memberships(bigint) TO kb_app, kb_staff;
