UPDATE suppressions SET lifted_at = %(now)s WHERE scope = %(scope)s AND value_hash = UNHEX(SHA2(%(value)s, 256)) AND lifted_at IS NULL;
