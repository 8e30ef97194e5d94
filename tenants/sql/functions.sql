-- The tenant of this transaction. It raises when none is set: an empty answer would hide the mistake.
CREATE OR REPLACE FUNCTION kb_tenant_id() RETURNS uuid
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  setting text := current_setting('app.tenant_id', true);
BEGIN
  IF setting IS NULL OR setting = '' THEN
    RAISE EXCEPTION 'tenant context missing' USING ERRCODE = '42501';
  END IF;
  RETURN setting::uuid;
END
$$;
GRANT EXECUTE ON FUNCTION kb_tenant_id() TO kb_app, kb_staff, kb_search;
