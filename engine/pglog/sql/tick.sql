-- The reading of the clock for a call. A positive number is the reading itself, null
-- believes the server. A negative number is what the client expects: the clock of the
-- server counts up to a second beyond that, so that a jump forward has no effect before the
-- client has noticed it. A clock that was set back is believed at once. Otherwise a call
-- that was sent before the client noticed could bring the time before back into the log.
CREATE OR REPLACE FUNCTION {schema}.tick(p_now bigint) RETURNS bigint LANGUAGE sql AS $$
	SELECT CASE WHEN p_now >= 0 THEN p_now ELSE
		least((date_part('epoch', clock_timestamp()) * 1000000)::bigint * 1000, -p_now + 1000000000) END
$$;
