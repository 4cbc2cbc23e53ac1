-- What most commits are, with as few statements and arrays as can be: each of them costs
-- the server more than the rows that it writes.

-- Reports whether conditions hold. Spaces are given by name; see test.
CREATE OR REPLACE FUNCTION {schema}.holds(p_now bigint, c_space text[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
	RETURN NOT EXISTS (
		SELECT FROM (SELECT generate_series(1, cardinality(c_test)) AS i) u
		LEFT JOIN {schema}.space s ON s.name = c_space[u.i]
		LEFT JOIN LATERAL (
			SELECT * FROM {schema}.key o WHERE o.space = s.id AND o.name = c_name[u.i] AND o.mark = c_mark[u.i] OFFSET 0
		) k ON true
		WHERE CASE WHEN c_test[u.i] = 0 THEN k.version IS DISTINCT FROM c_version[u.i]
			WHEN c_test[u.i] = 3 THEN
				coalesce(k.position, k.written, (SELECT t.traces FROM {schema}.total t WHERE t.space = s.id)) > c_version[u.i]
			ELSE (c_test[u.i] = 1) =
			(k.position IS NOT NULL AND k.tomb = 0 AND ((k.expires IS NULL OR k.expires > p_now) AND (s.max_age = 0 OR coalesce(k.clock, k.time) >= p_now - s.max_age)
				OR {schema}.still(p_now, k.id, k.version, coalesce(k.clock, k.time), k.expires, s.max_age))) IS TRUE END);
END $$;

-- Commits puts to one key, in a transaction of its own. p_n records carry p_items items and
-- hold p_bytes bytes. If there is one, it is p_headers and p_value, else they are in the
-- arrays, and w_upto has the items up to the end of each, w_count those in each; null means
-- one in each. w_ttl is null if none of them expires. p_ttl is for the last record.
--
-- Returns the position before the first record, the time, and the version before the first
-- item. Returns null, and has written nothing, if the call must be made in the general way,
-- with the function commit: because a condition does not hold, the space does not exist, or
-- the key gets more records than its space keeps.
CREATE OR REPLACE FUNCTION {schema}.append(p_now bigint, p_given bigint, p_sync text,
	c_space text[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[],
	p_space text, p_name bytea, p_mark bytea, p_rest bytea,
	p_n integer, p_items bigint, p_bytes bigint, p_ttl bigint, p_headers bytea, p_value bytea,
	w_upto bigint[], w_count bigint[], w_ttl bigint[], w_size integer[], w_headers bytea[], w_value bytea[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
	base bigint;
	now bigint; -- what the clock shows
	at bigint;  -- the time of the records
	latest bigint;
	far bigint;
	space_id integer;
	keep integer;
	head bigint;
	had bigint;
	key_id bigint;
	fresh boolean;
	ends bigint;
	gone bigint := 0;
	freed bigint := 0;
BEGIN
	IF p_sync IS NOT NULL THEN
		PERFORM set_config('synchronous_commit', p_sync, true);
	END IF;
	-- As in enter. An expression is evaluated without all that a statement needs.
	IF pg_advisory_xact_lock({order}) IS NULL THEN
		RETURN NULL;
	END IF;
	SELECT l.position, l.clock, l.reading, {schema}.tick(p_now), s.id, s.history, coalesce(k.version, t.floor), coalesce(k.held, 0), coalesce(k.id, l.position + p_n), k.id IS NULL
	INTO base, at, latest, now, space_id, keep, head, had, key_id, fresh
	FROM {schema}.space s JOIN {schema}.total t ON t.space = s.id CROSS JOIN {schema}.log l
	LEFT JOIN LATERAL (
		SELECT * FROM {schema}.key o WHERE o.space = s.id AND o.name = p_name AND o.mark = p_mark OFFSET 0
	) k ON true
	WHERE s.name = p_space;
	IF p_given IS NOT NULL OR latest - now > 1000000000 THEN -- not so often
		SELECT p.o_now, p.o_time INTO now, at FROM {schema}.present(p_now, p_given) p;
	ELSE
		now := greatest(now, latest);
		at := greatest(at, now);
	END IF;
	IF space_id IS NULL OR keep > 0 AND p_n > keep OR c_test IS NOT NULL AND NOT {schema}.holds(now, c_space, c_name, c_mark, c_test, c_version) THEN
		RETURN NULL;
	END IF;
	IF p_ttl > 0 THEN
		ends := now + least(p_ttl, 9223372036854775807 - now);
	END IF;
	IF fresh THEN
		INSERT INTO {schema}.key (id, space, name, mark, rest, version, position, time, clock, expires, tomb, held)
		VALUES (key_id, space_id, p_name, p_mark, p_rest, head + p_items, key_id, at, nullif(now, at), ends, 0, p_n);
	ELSE
		IF keep > 0 AND had + p_n > keep THEN
			WITH d AS (
				DELETE FROM {schema}.record r WHERE r.key = key_id AND r.version <= CASE WHEN p_n = keep THEN head ELSE (
					SELECT o.version FROM {schema}.record o WHERE o.key = key_id ORDER BY o.version DESC OFFSET keep - p_n LIMIT 1) END
				RETURNING r.size
			) SELECT count(*), coalesce(sum(d.size), 0) INTO gone, freed FROM d;
		END IF;
		UPDATE {schema}.key k SET version = head + p_items, position = base + p_n, time = at, clock = nullif(now, at), expires = ends, tomb = 0, held = had + p_n - gone
		WHERE k.id = key_id;
	END IF;
	IF p_n = 1 THEN
		INSERT INTO {schema}.record (key, version, position, time, clock, expires, count, space, size, tomb, headers, value)
		VALUES (key_id, head + p_items, base + 1, at, nullif(now, at), ends, p_items, space_id, p_bytes, 0, p_headers, p_value);
	ELSIF w_count IS NULL AND w_ttl IS NULL THEN
		INSERT INTO {schema}.record (key, version, position, time, clock, count, space, size, tomb, headers, value)
		SELECT key_id, head + u.i, base + u.i, at, nullif(now, at), 1, space_id, w_size[u.i], 0, w_headers[u.i], w_value[u.i]
		FROM (SELECT generate_series(1, p_n) AS i) u;
	ELSE
		far := 9223372036854775807 - now;
		INSERT INTO {schema}.record (key, version, position, time, clock, expires, count, space, size, tomb, headers, value)
		SELECT key_id, head + coalesce(w_upto[u.i], u.i), base + u.i, at, nullif(now, at), CASE WHEN w_ttl[u.i] > 0 THEN now + least(w_ttl[u.i], far) END,
			coalesce(w_count[u.i], 1), space_id, w_size[u.i], 0, w_headers[u.i], w_value[u.i]
		FROM (SELECT generate_series(1, p_n) AS i) u;
	END IF;
	UPDATE {schema}.total t SET keys = t.keys + (had = 0)::integer, records = t.records + p_n - gone, bytes = t.bytes + p_bytes - freed,
		last = base + p_n, updated = at
	WHERE t.space = space_id;
	UPDATE {schema}.log SET position = base + p_n, clock = at, reading = greatest(reading, now);
	IF NOT pg_try_advisory_xact_lock({listen}) THEN
		PERFORM {schema}.announce(base + p_n, ARRAY[space_id]);
	END IF;
	RETURN ARRAY[base, at, head];
END $$;
