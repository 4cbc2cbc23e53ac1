-- Notes that the clock was set back to p_now after the record at p_position. If that was
-- noted before, the clock has passed the record's time meanwhile: it moves again.
CREATE OR REPLACE FUNCTION {schema}.set_back(p_position bigint, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE {schema}.log SET reading = p_now, set_backs = set_backs + 1, ahead = CASE WHEN p_now < boundary THEN 0 ELSE ahead END;
	DELETE FROM {schema}.set_back WHERE clock >= p_now;
	INSERT INTO {schema}.set_back (position, clock, low)
	SELECT p_position, p_now, coalesce(max(b.position), 0) FROM {schema}.set_back b
	ON CONFLICT (position) DO UPDATE SET clock = excluded.clock, done = DEFAULT, place = DEFAULT, below = DEFAULT;
END $$;

-- Gives up to p_limit records their old readings back, those that are not after p_due. The
-- newest of them counts as written again: a clock that is set back behind it is behind.
CREATE OR REPLACE FUNCTION {schema}.restore(p_due bigint, p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
	n integer := 0;
	m record;
	r record;
	newest bigint;
BEGIN
	FOR m IN SELECT * FROM {schema}.moved WHERE was <= p_due ORDER BY was LIMIT p_limit LOOP
		n := n + 1;
		UPDATE {schema}.record h SET clock = m.was,
			expires = CASE WHEN h.expires < 9223372036854775807 THEN h.expires + (m.was - coalesce(h.clock, h.time)) ELSE h.expires END
		WHERE h.key = m.key AND h.version = m.version RETURNING h.expires INTO r;
		IF FOUND THEN
			UPDATE {schema}.key SET clock = m.was, expires = r.expires WHERE id = m.key AND version = m.version AND position IS NOT NULL;
		END IF;
		DELETE FROM {schema}.moved WHERE key = m.key AND version = m.version;
		newest := m.was;
	END LOOP;
	UPDATE {schema}.log SET reading = newest WHERE reading < newest;
	RETURN n;
END $$;
