-- Takes the place at the end of the order: until the transaction ends, nobody else
-- gets one. Only then is anything read, so that it is the state before the batch.
-- o_time is the reading of the clock, or p_given; see present.
CREATE OR REPLACE FUNCTION {schema}.enter(p_now bigint, p_given bigint, OUT o_base bigint, OUT o_time bigint)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock({order});
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		-- A snapshot from before the lock would show an older state: this fails then.
		PERFORM 1 FROM {schema}.log FOR UPDATE;
	END IF;
	SELECT p.o_base, p.o_now INTO o_base, o_time FROM {schema}.present(p_now, p_given) p;
END $$;

-- Tells listeners, if there are any, that spaces have records up to p_last. Whoever
-- listens holds a lock that this cannot get; whoever begins to listen waits for it.
CREATE OR REPLACE FUNCTION {schema}.announce(p_last bigint, p_spaces integer[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	names text;
BEGIN
	IF pg_try_advisory_xact_lock({listen}) THEN
		RETURN;
	END IF;
	SELECT string_agg(s.name, E'\n') INTO names FROM {schema}.space s WHERE s.id = ANY (p_spaces);
	IF octet_length(names) > 7900 THEN
		names := '';
	END IF;
	PERFORM pg_notify('{channel}', p_last || E'\n' || coalesce(names, ''));
END $$;

-- Writes of a call come with the keys that they write to, each of which is there once:
--
--   k_space, k_name, k_mark, k_rest   the space, by its place in p_ids, and the key
--   w_key                             the place of its key among those
--
-- k_rest is null if no key has one.

-- Applies puts, the common case, when none of them is to be left out. The client has
-- added up for each key: k_n and k_bytes, its records and their bytes; k_count, their
-- items; k_last and k_ttl, the place of its last record and how long that lives; and for
-- each record w_upto, the items of its key up to its end. So versions are those of the
-- heads, o_heads, plus w_upto, and positions p_base plus the place. p_now is the reading of
-- the clock; the time of the records is never before that of the newest. Spaces are given by
-- name. Does nothing, and returns no o_last, if one does not exist or a key gets more
-- records than its space keeps.
CREATE OR REPLACE FUNCTION {schema}.puts(p_base bigint, p_now bigint, p_spaces text[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	k_n integer[], k_bytes bigint[], k_count bigint[], k_last integer[], k_ttl bigint[],
	w_key integer[], w_upto bigint[], w_count bigint[], w_ttl bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_heads bigint[], OUT o_last bigint, OUT o_spaces integer[])
LANGUAGE plpgsql AS $$
DECLARE
	far bigint := 9223372036854775807 - p_now; -- a time to live beyond this is for ever
	places integer := cardinality(k_space);
	at bigint := (SELECT greatest(l.clock, p_now) FROM {schema}.log l);
	ids bigint[];
	held bigint[];
	history integer[];
	fresh boolean;
	known boolean;
	trim boolean;
	over boolean;
BEGIN
	-- Arrays are read by subscript: unnest would first copy each of them. What is in the arrays
	-- made here must be in the order of the keys: the inner statement sorts, because the server
	-- joins in any order, by its statistics. The outer one has no join, so that it keeps the
	-- order (PostgreSQL's documentation, "Aggregate Functions").
	-- OFFSET 0 makes the index be asked for all three columns: joined to tables that were
	-- small when it was planned, it might be asked for the space only.
	SELECT array_agg(p.id), array_agg(p.head), array_agg(p.held), array_agg(p.space), array_agg(p.history),
		bool_or(p.id IS NULL), bool_or(p.id IS NOT NULL),
		bool_or(p.history > 0 AND p.had + p.n > p.history), bool_or(p.history > 0 AND p.n > p.history)
	INTO ids, o_heads, held, o_spaces, history, fresh, known, trim, over
	FROM (
		SELECT k.id, coalesce(k.version, t.floor) AS head, coalesce(k.held, 0) AS held, k.held AS had, s.id AS space, s.history, k_n[u.i] AS n
		FROM (SELECT generate_series(1, places) AS i) u
		JOIN {schema}.space s ON s.name = p_spaces[k_space[u.i]]
		JOIN {schema}.total t ON t.space = s.id
		LEFT JOIN LATERAL (
			SELECT * FROM {schema}.key o WHERE o.space = s.id AND o.name = k_name[u.i] AND o.mark = k_mark[u.i] OFFSET 0
		) k ON true
		ORDER BY u.i
	) p;
	IF over OR cardinality(ids) IS DISTINCT FROM places THEN
		RETURN;
	END IF;
	IF fresh THEN
		INSERT INTO {schema}.key (id, space, name, mark, rest, version, position, time, clock, expires, tomb, held)
		SELECT p_base + k_last[u.i], o_spaces[u.i], k_name[u.i], k_mark[u.i], coalesce(k_rest[u.i], ''), o_heads[u.i] + k_count[u.i], p_base + k_last[u.i], at, nullif(p_now, at),
			CASE WHEN k_ttl[u.i] > 0 THEN p_now + least(k_ttl[u.i], far) END, 0, k_n[u.i]
		FROM (SELECT generate_series(1, places) AS i) u WHERE ids[u.i] IS NULL;
	END IF;
	IF known THEN
		UPDATE {schema}.key k SET version = o_heads[u.i] + k_count[u.i], position = p_base + k_last[u.i], time = at, clock = nullif(p_now, at),
			expires = CASE WHEN k_ttl[u.i] > 0 THEN p_now + least(k_ttl[u.i], far) END, tomb = 0,
			held = CASE WHEN history[u.i] = 0 THEN k.held + k_n[u.i] ELSE least(k.held + k_n[u.i], history[u.i]) END
		FROM (SELECT generate_series(1, places) AS i) u WHERE k.id = ids[u.i];
	END IF;
	IF trim THEN
		WITH d AS (
			DELETE FROM {schema}.record r USING (
				SELECT ids[u.i] AS id, CASE WHEN k_n[u.i] = history[u.i] THEN o_heads[u.i] ELSE (
					SELECT o.version FROM {schema}.record o WHERE o.key = ids[u.i]
					ORDER BY o.version DESC OFFSET history[u.i] - k_n[u.i] LIMIT 1) END AS upto
				FROM (SELECT generate_series(1, places) AS i) u
				WHERE history[u.i] > 0 AND held[u.i] + k_n[u.i] > history[u.i]
			) c WHERE r.key = c.id AND r.version <= c.upto
			RETURNING r.space, r.size
		)
		UPDATE {schema}.total t SET records = t.records - x.n, bytes = t.bytes - x.size
		FROM (SELECT d.space, count(*) AS n, sum(d.size) AS size FROM d GROUP BY d.space) x WHERE t.space = x.space;
	END IF;
	INSERT INTO {schema}.record (key, version, position, time, clock, expires, count, space, size, tomb, headers, value)
	SELECT coalesce(ids[w_key[u.i]], p_base + k_last[w_key[u.i]]), o_heads[w_key[u.i]] + w_upto[u.i], p_base + u.i, at, nullif(p_now, at),
		CASE WHEN w_ttl[u.i] > 0 THEN p_now + least(w_ttl[u.i], far) END, w_count[u.i], o_spaces[w_key[u.i]], w_size[u.i], 0, w_headers[u.i], w_value[u.i]
	FROM (SELECT generate_series(1, cardinality(w_key)) AS i) u;
	UPDATE {schema}.total t SET keys = t.keys + x.keys, records = t.records + x.n, bytes = t.bytes + x.bytes,
		last = p_base + x.last, updated = at
	FROM (
		SELECT o_spaces[u.i] AS space, sum((held[u.i] = 0)::integer) AS keys, sum(k_n[u.i]) AS n, sum(k_bytes[u.i]) AS bytes, max(k_last[u.i]) AS last
		FROM (SELECT generate_series(1, places) AS i) u GROUP BY o_spaces[u.i]
	) x WHERE t.space = x.space;
	o_last := p_base + cardinality(w_key);
	UPDATE {schema}.log SET position = o_last, clock = at, reading = greatest(reading, p_now);
END $$;

-- Applies puts and tombstones, in their order, those of the batches in p_skip left out.
-- Returns the version that each wrote, 0 for none. Everything happens in one statement:
-- w finds the heads of the keys, e says which writes make a record, v gives versions and
-- positions, x says what is newest, and the rest changes the tables.
CREATE OR REPLACE FUNCTION {schema}.apply(p_base bigint, p_now bigint, p_ids integer[], p_skip integer[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	w_batch integer[], w_key integer[], w_op smallint[], w_count bigint[], w_ttl bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_versions bigint[], OUT o_last bigint, OUT o_spaces integer[])
LANGUAGE plpgsql AS $$
DECLARE
	far bigint := 9223372036854775807 - p_now;
	at bigint := (SELECT greatest(l.clock, p_now) FROM {schema}.log l);
BEGIN
	WITH w AS MATERIALIZED (
		SELECT u.ord, u.key, s.id AS space, u.op, u.count, u.size, s.history,
			CASE WHEN u.ttl > 0 THEN p_now + least(u.ttl, far) END AS expires,
			k.id, coalesce(k.version, t.floor) AS head, coalesce(k.held, 0) AS held,
			k.position IS NOT NULL AND k.tomb = 0 AND ((k.expires IS NULL OR k.expires > p_now) AND (s.max_age = 0 OR coalesce(k.clock, k.time) >= p_now - s.max_age)
				OR {schema}.still(p_now, k.id, k.version, coalesce(k.clock, k.time), k.expires, s.max_age)) AS live
		FROM unnest(w_batch, w_key, w_op, w_count, w_ttl, w_size) WITH ORDINALITY AS u(batch, key, op, count, ttl, size, ord)
		JOIN {schema}.space s ON s.id = p_ids[k_space[u.key]]
		JOIN {schema}.total t ON t.space = s.id
		LEFT JOIN LATERAL (
			SELECT * FROM {schema}.key i WHERE i.space = s.id AND i.name = k_name[u.key] AND i.mark = k_mark[u.key] OFFSET 0
		) k ON true
		WHERE u.batch <> ALL (p_skip)
	), e AS (
		SELECT w.*, w.op IN (0, 3) OR coalesce(lag(w.op) OVER same = 0, w.live) AS made
		FROM w WINDOW same AS (PARTITION BY w.key ORDER BY w.ord)
	), v AS MATERIALIZED (
		SELECT e.*, (e.head + sum(e.count) FILTER (WHERE e.made) OVER same)::bigint AS version,
			p_base + count(*) FILTER (WHERE e.made) OVER (ORDER BY e.ord) AS position
		FROM e WINDOW same AS (PARTITION BY e.key ORDER BY e.ord)
	), x AS MATERIALIZED (
		SELECT v.*, row_number() OVER (PARTITION BY v.key ORDER BY v.ord DESC) AS age,
			count(*) OVER same AS n, max(v.position) OVER same AS last
		FROM v WHERE v.made WINDOW same AS (PARTITION BY v.key)
	), known AS (
		UPDATE {schema}.key k SET version = x.version, position = x.position, time = at, clock = nullif(p_now, at), expires = x.expires, tomb = x.op,
			held = CASE WHEN x.history = 0 THEN k.held + x.n ELSE least(k.held + x.n, x.history) END
		FROM x WHERE x.age = 1 AND k.id = x.id
	), fresh AS (
		INSERT INTO {schema}.key (id, space, name, mark, rest, version, position, time, clock, expires, tomb, held)
		SELECT x.last, x.space, k_name[x.key], k_mark[x.key], coalesce(k_rest[x.key], ''), x.version, x.position, at, nullif(p_now, at), x.expires, x.op,
			CASE WHEN x.history = 0 THEN x.n ELSE least(x.n, x.history) END
		FROM x WHERE x.age = 1 AND x.id IS NULL
	), added AS (
		INSERT INTO {schema}.record (key, version, position, time, clock, expires, count, space, size, tomb, headers, value)
		SELECT coalesce(x.id, x.last), x.version, x.position, at, nullif(p_now, at), x.expires, x.count, x.space, x.size, x.op,
			w_headers[x.ord], w_value[x.ord]
		FROM x WHERE x.history = 0 OR x.age <= x.history
	), trimmed AS (
		DELETE FROM {schema}.record r USING (
			SELECT x.id, CASE WHEN x.n >= x.history THEN x.head ELSE (
				SELECT o.version FROM {schema}.record o WHERE o.key = x.id
				ORDER BY o.version DESC OFFSET x.history - x.n LIMIT 1) END AS upto
			FROM x WHERE x.age = 1 AND x.history > 0 AND x.held + x.n > x.history
		) c WHERE r.key = c.id AND r.version <= c.upto
		RETURNING r.space, r.size
	), sums AS (
		SELECT d.space, sum(d.keys) AS keys, sum(d.records) AS records, sum(d.bytes) AS bytes, max(d.position) AS last
		FROM (
			SELECT x.space, (x.age = 1 AND x.held = 0)::integer AS keys, kept::integer AS records,
				CASE WHEN kept THEN x.size::bigint ELSE 0 END AS bytes, x.position
			FROM x CROSS JOIN LATERAL (SELECT x.history = 0 OR x.age <= x.history) AS l(kept)
			UNION ALL
			SELECT t.space, 0, -1, -t.size::bigint, 0 FROM trimmed t
		) d GROUP BY d.space
	), counted AS (
		UPDATE {schema}.total t SET keys = t.keys + s.keys, records = t.records + s.records, bytes = t.bytes + s.bytes,
			last = greatest(t.last, s.last), updated = at
		FROM sums s WHERE t.space = s.space RETURNING t.space
	)
	SELECT array_agg(CASE WHEN v.made THEN v.version ELSE 0 END ORDER BY v.ord), coalesce(max(v.position), p_base),
		(SELECT array_agg(c.space) FROM counted c)
	INTO o_versions, o_last, o_spaces FROM v;
	IF o_last > p_base THEN
		UPDATE {schema}.log SET position = o_last, clock = at, reading = greatest(reading, p_now);
	END IF;
END $$;

-- Removes the records of a key whose versions are from p_from to p_to.
CREATE OR REPLACE FUNCTION {schema}.cut(p_key bigint, p_from bigint, p_to bigint, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	b bigint;
	k {schema}.key;
BEGIN
	WITH d AS (
		DELETE FROM {schema}.record r WHERE r.key = p_key AND r.version BETWEEN p_from AND p_to RETURNING r.size
	) SELECT count(*), coalesce(sum(d.size), 0) INTO n, b FROM d;
	IF n = 0 THEN
		RETURN;
	END IF;
	UPDATE {schema}.key SET held = held - n WHERE id = p_key RETURNING * INTO k;
	IF k.version BETWEEN p_from AND p_to THEN
		UPDATE {schema}.key SET position = NULL, written = coalesce(k.position, k.written), time = p_now, clock = NULL, expires = NULL, tomb = 0 WHERE id = p_key;
	END IF;
	UPDATE {schema}.total SET keys = keys - (k.held = 0)::integer, records = records - n, bytes = bytes - b WHERE space = k.space;
END $$;
