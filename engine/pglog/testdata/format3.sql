-- A log of format 3 as the program of that time made it, with one record of a clock that was
-- ahead by a year, in the schema mainstem.
CREATE SCHEMA mainstem;
CREATE TABLE mainstem.migration (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now());
-- The tables of a log, format 1. "mainstem" is the schema that the log was given.
-- Times are nanoseconds since 1970, in the order of the log never decreasing.

-- One row: the newest position and the newest time given out. Every transaction that
-- writes records updates it, so there is room for its old versions on its page.
CREATE TABLE "mainstem".log (
	position bigint NOT NULL DEFAULT 0,
	clock    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO "mainstem".log DEFAULT VALUES;

-- A number is never given to another space, so what a dropped one leaves behind can
-- never show up in its successor of the same name.
CREATE TABLE "mainstem".space (
	id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name          text COLLATE "C" NOT NULL UNIQUE,
	created       bigint NOT NULL,
	history       integer NOT NULL,
	max_age       bigint NOT NULL,
	max_bytes     bigint NOT NULL,
	tombstone_age bigint NOT NULL,
	no_feed       boolean NOT NULL,
	metadata      json
);

-- What each space holds. Apart from its description, because every commit changes it.
CREATE TABLE "mainstem".total (
	space   integer PRIMARY KEY,
	keys    bigint NOT NULL DEFAULT 0,
	records bigint NOT NULL DEFAULT 0,
	bytes   bigint NOT NULL DEFAULT 0,
	last    bigint NOT NULL DEFAULT 0, -- position of the newest record ever written
	updated bigint NOT NULL DEFAULT 0,
	floor   bigint NOT NULL DEFAULT 0  -- keys that are new begin above this version
) WITH (fillfactor = 25);

-- One row for each key that holds records or whose version must be remembered.
-- Bytes of the key beyond 2560 do not fit into an index: they stand in rest,
-- and their SHA-256 in mark takes part in the index instead. By (name, rest) keys
-- are in the order of their bytes.
CREATE TABLE "mainstem".key (
	id       bigint PRIMARY KEY, -- the position of a record that it was made for
	space    integer NOT NULL,
	name     bytea NOT NULL,
	mark     bytea NOT NULL,
	rest     bytea NOT NULL,
	version  bigint NOT NULL,   -- the newest ever given
	position bigint,            -- of the record that ends at version; null if it is not held
	time     bigint NOT NULL,   -- of that record, or since when it is not held
	expires  bigint,            -- of that record
	tomb     smallint NOT NULL, -- of that record
	held     bigint NOT NULL    -- how many records are held
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX key_name ON "mainstem".key (space, name, mark);
CREATE INDEX key_ghost ON "mainstem".key (space, time) WHERE held = 0;

CREATE TABLE "mainstem".record (
	key      bigint NOT NULL,
	version  bigint NOT NULL,   -- of its last item
	position bigint NOT NULL,
	time     bigint NOT NULL,
	expires  bigint,
	count    bigint NOT NULL,   -- items
	space    integer NOT NULL,
	size     integer NOT NULL,  -- bytes of key, headers and value
	tomb     smallint NOT NULL, -- 0 value, 1 deleted, 2 purged, 3 expired
	headers  bytea,             -- see headers.go
	value    bytea,
	PRIMARY KEY (key, version)
);
-- Values are what they are, often compressed already.
ALTER TABLE "mainstem".record ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX record_feed ON "mainstem".record (space, position);
CREATE INDEX record_expires ON "mainstem".record (expires) WHERE expires IS NOT NULL;
CREATE INDEX record_tomb ON "mainstem".record (space, time) WHERE tomb <> 0;

-- Receipts of batches with an ID.
CREATE TABLE "mainstem".batch (
	id       bytea PRIMARY KEY,
	stored   bigint NOT NULL,
	first    bigint NOT NULL,
	last     bigint NOT NULL,
	time     bigint NOT NULL,
	versions bigint[] NOT NULL
);
CREATE INDEX batch_stored ON "mainstem".batch (stored);

-- Dropped spaces whose keys and records have not been swept up yet.
CREATE TABLE "mainstem".gone (space integer PRIMARY KEY);
-- Time of the log: p_now, or that of the server.
CREATE OR REPLACE FUNCTION "mainstem".tick(p_now bigint) RETURNS bigint LANGUAGE sql AS $$
	SELECT coalesce(p_now, (date_part('epoch', clock_timestamp()) * 1000000)::bigint * 1000)
$$;

-- Takes the place at the end of the order: until the transaction ends, nobody else
-- gets one. Only then is anything read, so that it is the state before the batch.
-- The time is that of the clock, or p_given if it is earlier, but never decreases.
CREATE OR REPLACE FUNCTION "mainstem".enter(p_now bigint, p_given bigint, OUT o_base bigint, OUT o_time bigint)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(1836253185, 906006281);
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		-- A snapshot from before the lock would show an older state: this fails then.
		PERFORM 1 FROM "mainstem".log FOR UPDATE;
	END IF;
	SELECT l.position, greatest(l.clock, least(p_given, "mainstem".tick(p_now))) INTO o_base, o_time FROM "mainstem".log l;
END $$;

-- Tells listeners, if there are any, that spaces have records up to p_last. Whoever
-- listens holds a lock that this cannot get; whoever begins to listen waits for it.
CREATE OR REPLACE FUNCTION "mainstem".announce(p_last bigint, p_spaces integer[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	names text;
BEGIN
	IF pg_try_advisory_xact_lock(1836253186, 906006281) THEN
		RETURN;
	END IF;
	SELECT string_agg(s.name, E'\n') INTO names FROM "mainstem".space s WHERE s.id = ANY (p_spaces);
	IF octet_length(names) > 7900 THEN
		names := '';
	END IF;
	PERFORM pg_notify('mainstem_mainstem', p_last || E'\n' || coalesce(names, ''));
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
-- heads, o_heads, plus w_upto, and positions p_base plus the place. Spaces are given by
-- name. Does nothing, and returns no o_last, if one does not exist or a key gets more
-- records than its space keeps.
CREATE OR REPLACE FUNCTION "mainstem".puts(p_base bigint, p_now bigint, p_spaces text[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	k_n integer[], k_bytes bigint[], k_count bigint[], k_last integer[], k_ttl bigint[],
	w_key integer[], w_upto bigint[], w_count bigint[], w_ttl bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_heads bigint[], OUT o_last bigint, OUT o_spaces integer[])
LANGUAGE plpgsql AS $$
DECLARE
	far bigint := 9223372036854775807 - p_now; -- a time to live beyond this is for ever
	places integer := cardinality(k_space);
	ids bigint[];
	held bigint[];
	history integer[];
	fresh boolean;
	known boolean;
	trim boolean;
	over boolean;
BEGIN
	-- Arrays are read by subscript: unnest would first copy each of them. A nested loop keeps
	-- the order of the places, so the arrays made here are in the order of the keys.
	-- OFFSET 0 makes the index be asked for all three columns: joined to tables that were
	-- small when it was planned, it might be asked for the space only.
	SELECT array_agg(k.id), array_agg(coalesce(k.version, t.floor)), array_agg(coalesce(k.held, 0)), array_agg(s.id), array_agg(s.history),
		bool_or(k.id IS NULL), bool_or(k.id IS NOT NULL),
		bool_or(s.history > 0 AND k.held + k_n[u.i] > s.history), bool_or(s.history > 0 AND k_n[u.i] > s.history)
	INTO ids, o_heads, held, o_spaces, history, fresh, known, trim, over
	FROM (SELECT generate_series(1, places) AS i) u
	JOIN "mainstem".space s ON s.name = p_spaces[k_space[u.i]]
	JOIN "mainstem".total t ON t.space = s.id
	LEFT JOIN LATERAL (
		SELECT * FROM "mainstem".key o WHERE o.space = s.id AND o.name = k_name[u.i] AND o.mark = k_mark[u.i] OFFSET 0
	) k ON true;
	IF over OR cardinality(ids) IS DISTINCT FROM places THEN
		RETURN;
	END IF;
	IF fresh THEN
		INSERT INTO "mainstem".key (id, space, name, mark, rest, version, position, time, expires, tomb, held)
		SELECT p_base + k_last[u.i], o_spaces[u.i], k_name[u.i], k_mark[u.i], coalesce(k_rest[u.i], ''), o_heads[u.i] + k_count[u.i], p_base + k_last[u.i], p_now,
			CASE WHEN k_ttl[u.i] > 0 THEN p_now + least(k_ttl[u.i], far) END, 0, k_n[u.i]
		FROM (SELECT generate_series(1, places) AS i) u WHERE ids[u.i] IS NULL;
	END IF;
	IF known THEN
		UPDATE "mainstem".key k SET version = o_heads[u.i] + k_count[u.i], position = p_base + k_last[u.i], time = p_now,
			expires = CASE WHEN k_ttl[u.i] > 0 THEN p_now + least(k_ttl[u.i], far) END, tomb = 0,
			held = CASE WHEN history[u.i] = 0 THEN k.held + k_n[u.i] ELSE least(k.held + k_n[u.i], history[u.i]) END
		FROM (SELECT generate_series(1, places) AS i) u WHERE k.id = ids[u.i];
	END IF;
	IF trim THEN
		WITH d AS (
			DELETE FROM "mainstem".record r USING (
				SELECT ids[u.i] AS id, CASE WHEN k_n[u.i] = history[u.i] THEN o_heads[u.i] ELSE (
					SELECT o.version FROM "mainstem".record o WHERE o.key = ids[u.i]
					ORDER BY o.version DESC OFFSET history[u.i] - k_n[u.i] LIMIT 1) END AS upto
				FROM (SELECT generate_series(1, places) AS i) u
				WHERE history[u.i] > 0 AND held[u.i] + k_n[u.i] > history[u.i]
			) c WHERE r.key = c.id AND r.version <= c.upto
			RETURNING r.space, r.size
		)
		UPDATE "mainstem".total t SET records = t.records - x.n, bytes = t.bytes - x.size
		FROM (SELECT d.space, count(*) AS n, sum(d.size) AS size FROM d GROUP BY d.space) x WHERE t.space = x.space;
	END IF;
	INSERT INTO "mainstem".record (key, version, position, time, expires, count, space, size, tomb, headers, value)
	SELECT coalesce(ids[w_key[u.i]], p_base + k_last[w_key[u.i]]), o_heads[w_key[u.i]] + w_upto[u.i], p_base + u.i, p_now,
		CASE WHEN w_ttl[u.i] > 0 THEN p_now + least(w_ttl[u.i], far) END, w_count[u.i], o_spaces[w_key[u.i]], w_size[u.i], 0, w_headers[u.i], w_value[u.i]
	FROM (SELECT generate_series(1, cardinality(w_key)) AS i) u;
	UPDATE "mainstem".total t SET keys = t.keys + x.keys, records = t.records + x.n, bytes = t.bytes + x.bytes,
		last = p_base + x.last, updated = p_now
	FROM (
		SELECT o_spaces[u.i] AS space, sum((held[u.i] = 0)::integer) AS keys, sum(k_n[u.i]) AS n, sum(k_bytes[u.i]) AS bytes, max(k_last[u.i]) AS last
		FROM (SELECT generate_series(1, places) AS i) u GROUP BY o_spaces[u.i]
	) x WHERE t.space = x.space;
	o_last := p_base + cardinality(w_key);
	UPDATE "mainstem".log SET position = o_last, clock = p_now;
END $$;

-- Applies puts and tombstones, in their order, those of the batches in p_skip left out.
-- Returns the version that each wrote, 0 for none. Everything happens in one statement:
-- w finds the heads of the keys, e says which writes make a record, v gives versions and
-- positions, x says what is newest, and the rest changes the tables.
CREATE OR REPLACE FUNCTION "mainstem".apply(p_base bigint, p_now bigint, p_ids integer[], p_skip integer[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	w_batch integer[], w_key integer[], w_op smallint[], w_count bigint[], w_ttl bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_versions bigint[], OUT o_last bigint, OUT o_spaces integer[])
LANGUAGE plpgsql AS $$
DECLARE
	far bigint := 9223372036854775807 - p_now;
BEGIN
	WITH w AS MATERIALIZED (
		SELECT u.ord, u.key, s.id AS space, u.op, u.count, u.size, s.history,
			CASE WHEN u.ttl > 0 THEN p_now + least(u.ttl, far) END AS expires,
			k.id, coalesce(k.version, t.floor) AS head, coalesce(k.held, 0) AS held,
			k.position IS NOT NULL AND k.tomb = 0 AND (k.expires IS NULL OR k.expires > p_now)
				AND (s.max_age = 0 OR k.time >= p_now - s.max_age) AS live
		FROM unnest(w_batch, w_key, w_op, w_count, w_ttl, w_size) WITH ORDINALITY AS u(batch, key, op, count, ttl, size, ord)
		JOIN "mainstem".space s ON s.id = p_ids[k_space[u.key]]
		JOIN "mainstem".total t ON t.space = s.id
		LEFT JOIN LATERAL (
			SELECT * FROM "mainstem".key i WHERE i.space = s.id AND i.name = k_name[u.key] AND i.mark = k_mark[u.key] OFFSET 0
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
		UPDATE "mainstem".key k SET version = x.version, position = x.position, time = p_now, expires = x.expires, tomb = x.op,
			held = CASE WHEN x.history = 0 THEN k.held + x.n ELSE least(k.held + x.n, x.history) END
		FROM x WHERE x.age = 1 AND k.id = x.id
	), fresh AS (
		INSERT INTO "mainstem".key (id, space, name, mark, rest, version, position, time, expires, tomb, held)
		SELECT x.last, x.space, k_name[x.key], k_mark[x.key], coalesce(k_rest[x.key], ''), x.version, x.position, p_now, x.expires, x.op,
			CASE WHEN x.history = 0 THEN x.n ELSE least(x.n, x.history) END
		FROM x WHERE x.age = 1 AND x.id IS NULL
	), added AS (
		INSERT INTO "mainstem".record (key, version, position, time, expires, count, space, size, tomb, headers, value)
		SELECT coalesce(x.id, x.last), x.version, x.position, p_now, x.expires, x.count, x.space, x.size, x.op,
			w_headers[x.ord], w_value[x.ord]
		FROM x WHERE x.history = 0 OR x.age <= x.history
	), trimmed AS (
		DELETE FROM "mainstem".record r USING (
			SELECT x.id, CASE WHEN x.n >= x.history THEN x.head ELSE (
				SELECT o.version FROM "mainstem".record o WHERE o.key = x.id
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
		UPDATE "mainstem".total t SET keys = t.keys + s.keys, records = t.records + s.records, bytes = t.bytes + s.bytes,
			last = greatest(t.last, s.last), updated = p_now
		FROM sums s WHERE t.space = s.space RETURNING t.space
	)
	SELECT array_agg(CASE WHEN v.made THEN v.version ELSE 0 END ORDER BY v.ord), coalesce(max(v.position), p_base),
		(SELECT array_agg(c.space) FROM counted c)
	INTO o_versions, o_last, o_spaces FROM v;
	IF o_last > p_base THEN
		UPDATE "mainstem".log SET position = o_last, clock = p_now;
	END IF;
END $$;

-- Removes the records of a key whose versions are from p_from to p_to.
CREATE OR REPLACE FUNCTION "mainstem".cut(p_key bigint, p_from bigint, p_to bigint, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	b bigint;
	k "mainstem".key;
BEGIN
	WITH d AS (
		DELETE FROM "mainstem".record r WHERE r.key = p_key AND r.version BETWEEN p_from AND p_to RETURNING r.size
	) SELECT count(*), coalesce(sum(d.size), 0) INTO n, b FROM d;
	IF n = 0 THEN
		RETURN;
	END IF;
	UPDATE "mainstem".key SET held = held - n WHERE id = p_key RETURNING * INTO k;
	IF k.version BETWEEN p_from AND p_to THEN
		UPDATE "mainstem".key SET position = NULL, time = p_now, expires = NULL, tomb = 0 WHERE id = p_key;
	END IF;
	UPDATE "mainstem".total SET keys = keys - (k.held = 0)::integer, records = records - n, bytes = bytes - b WHERE space = k.space;
END $$;
-- Applies one write that edits history: purge 2, forget 3, truncate 4, rewrite 5,
-- remove 6. o_version is what it wrote, o_fault what is wrong: a version that is not
-- there, with o_got the newest of the key.
CREATE OR REPLACE FUNCTION "mainstem".edit(p_base bigint, p_now bigint, p_space integer, p_name bytea, p_mark bytea, p_op smallint,
	p_version bigint, p_size integer, p_headers bytea, p_value bytea,
	OUT o_version bigint, OUT o_fault boolean, OUT o_got bigint)
LANGUAGE plpgsql AS $$
DECLARE
	k "mainstem".key;
	r record;
	bigger bigint;
BEGIN
	o_version := 0;
	SELECT * INTO k FROM "mainstem".key WHERE space = p_space AND name = p_name AND mark = p_mark;
	o_got := coalesce(k.version, 0);
	IF p_op = 2 THEN
		SELECT a.o_versions[1] INTO o_version FROM "mainstem".apply(p_base, p_now, ARRAY[p_space], '{}',
			ARRAY[1], ARRAY[p_name], ARRAY[p_mark], NULL, ARRAY[1], ARRAY[1], ARRAY[p_op], ARRAY[1::bigint], ARRAY[0::bigint], ARRAY[p_size], ARRAY[p_headers], NULL) a;
		IF o_version > 0 THEN
			PERFORM "mainstem".cut(k.id, 0, o_version - 1, p_now);
		END IF;
	ELSIF p_op = 3 THEN
		PERFORM "mainstem".cut(k.id, 0, 9223372036854775807, p_now);
	ELSIF p_op = 4 THEN
		IF k.held > 0 THEN
			o_fault := p_version > k.version + 1;
			IF NOT o_fault THEN
				PERFORM "mainstem".cut(k.id, 0, p_version - 1, p_now);
			END IF;
		END IF;
	ELSE
		SELECT h.tomb, h.size INTO r FROM "mainstem".record h JOIN "mainstem".space s ON s.id = h.space
		WHERE h.key = k.id AND h.version = p_version AND (h.expires IS NULL OR h.expires > p_now)
			AND (s.max_age = 0 OR h.time >= p_now - s.max_age);
		IF NOT FOUND THEN
			o_fault := true;
		ELSIF p_op = 6 THEN
			PERFORM "mainstem".cut(k.id, p_version, p_version, p_now);
		ELSE
			IF r.tomb <> 0 THEN
				p_size := p_size - coalesce(octet_length(p_value), 0);
				p_value := NULL;
			END IF;
			bigger := p_size - r.size;
			UPDATE "mainstem".record h SET headers = p_headers, value = p_value, size = p_size WHERE h.key = k.id AND h.version = p_version;
			UPDATE "mainstem".total t SET bytes = t.bytes + bigger WHERE t.space = p_space;
		END IF;
	END IF;
	o_fault := coalesce(o_fault, false);
END $$;

-- Applies the writes of one batch, some of which edit history. Runs of others are
-- applied together.
CREATE OR REPLACE FUNCTION "mainstem".edits(p_base bigint, p_now bigint, p_ids integer[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	w_key integer[], w_op smallint[], w_count bigint[], w_ttl bigint[], w_version bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_versions bigint[], OUT o_last bigint, OUT o_spaces integer[], OUT o_fault integer, OUT o_got bigint)
LANGUAGE plpgsql AS $$
DECLARE
	n integer := cardinality(w_op);
	i integer := 1;
	j integer;
	k integer;
	e record;
	a record;
BEGIN
	o_versions := '{}';
	o_spaces := '{}';
	o_last := p_base;
	WHILE i <= n LOOP
		j := i;
		IF w_op[i] >= 2 THEN
			k := w_key[i];
			SELECT * INTO e FROM "mainstem".edit(o_last, p_now, p_ids[k_space[k]], k_name[k], k_mark[k], w_op[i], w_version[i], w_size[i], w_headers[i], w_value[i]);
			IF e.o_fault THEN
				o_fault := i;
				o_got := e.o_got;
				RETURN;
			END IF;
			o_versions := o_versions || e.o_version;
			IF e.o_version > 0 THEN
				o_last := o_last + 1;
				o_spaces := o_spaces || p_ids[k_space[k]];
			END IF;
		ELSE
			WHILE j < n AND w_op[j + 1] < 2 LOOP
				j := j + 1;
			END LOOP;
			SELECT * INTO a FROM "mainstem".apply(o_last, p_now, p_ids, '{}', k_space, k_name, k_mark, k_rest,
				array_fill(1, ARRAY[j - i + 1]), w_key[i:j], w_op[i:j], w_count[i:j], w_ttl[i:j], w_size[i:j], w_headers[i:j], w_value[i:j]);
			o_versions := o_versions || a.o_versions;
			o_last := a.o_last;
			o_spaces := o_spaces || a.o_spaces;
		END IF;
		i := j + 1;
	END LOOP;
END $$;

-- The numbers of spaces by name, null for those that do not exist.
CREATE OR REPLACE FUNCTION "mainstem".numbers(p_names text[]) RETURNS integer[] LANGUAGE plpgsql STRICT AS $$
BEGIN
	RETURN (SELECT array_agg(s.id ORDER BY n.ord) FROM unnest(p_names) WITH ORDINALITY AS n(name, ord)
		LEFT JOIN "mainstem".space s ON s.name = n.name);
END $$;

-- Creates the spaces described in p_spaces that do not exist; returns how many.
CREATE OR REPLACE FUNCTION "mainstem".ensure(p_spaces json, p_now bigint) RETURNS bigint LANGUAGE sql AS $$
	WITH made AS (
		INSERT INTO "mainstem".space (name, created, history, max_age, max_bytes, tombstone_age, no_feed, metadata)
		SELECT e.name, p_now, e.history, e.max_age, e.max_bytes, e.tombstone_age, e.no_feed, e.metadata
		FROM json_to_recordset(p_spaces) AS e(name text, history integer, max_age bigint, max_bytes bigint, tombstone_age bigint, no_feed boolean, metadata json)
		ON CONFLICT (name) DO NOTHING RETURNING id
	), counted AS (
		INSERT INTO "mainstem".total (space) SELECT id FROM made
	)
	SELECT count(*) FROM made
$$;

-- Tests the conditions of batches against the state before them. Returns for each
-- batch with one that does not hold which it is, and what was found.
CREATE OR REPLACE FUNCTION "mainstem".test(p_now bigint, p_ids integer[], p_skip integer[],
	c_batch integer[], c_space integer[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[],
	OUT o_batches integer[], OUT o_found jsonb)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT array_agg(f.batch), jsonb_agg(jsonb_build_object('batch', f.batch, 'condition', f.ord, 'got', f.got, 'live', f.live))
	INTO o_batches, o_found
	FROM (
		SELECT DISTINCT ON (c.batch) c.batch, c.ord, coalesce(k.version, 0) AS got, l.live
		FROM unnest(c_batch, c_space, c_name, c_mark, c_test, c_version) WITH ORDINALITY AS c(batch, space, name, mark, test, version, ord)
		LEFT JOIN LATERAL (
			SELECT * FROM "mainstem".key i WHERE i.space = p_ids[c.space] AND i.name = c.name AND i.mark = c.mark OFFSET 0
		) k ON true
		LEFT JOIN "mainstem".space s ON s.id = k.space
		CROSS JOIN LATERAL (SELECT (k.position IS NOT NULL AND k.tomb = 0 AND (k.expires IS NULL OR k.expires > p_now)
			AND (s.max_age = 0 OR k.time >= p_now - s.max_age)) IS TRUE) AS l(live)
		WHERE c.batch <> ALL (p_skip)
			AND CASE c.test WHEN 0 THEN k.version IS DISTINCT FROM c.version WHEN 1 THEN l.live ELSE NOT l.live END
		ORDER BY c.batch, c.ord
	) f;
END $$;

-- Applies the one batch that creates spaces or edits history. What it changed before it
-- failed is undone, and what is wrong is returned, so that a transaction around it goes on.
CREATE OR REPLACE FUNCTION "mainstem".alone(p_base bigint, p_now bigint, p_spaces text[], p_ensures json,
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	w_key integer[], w_op smallint[], w_count bigint[], w_ttl bigint[], w_version bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_versions bigint[], OUT o_last bigint, OUT o_spaces integer[], OUT o_failure jsonb)
LANGUAGE plpgsql AS $$
DECLARE
	ids integer[];
	missing integer;
	r record;
BEGIN
	o_versions := '{}';
	IF p_ensures IS NOT NULL THEN
		PERFORM "mainstem".ensure(p_ensures, p_now);
	END IF;
	IF w_op IS NULL THEN
		RETURN;
	END IF;
	ids := "mainstem".numbers(p_spaces);
	SELECT min(k.space) INTO missing FROM unnest(k_space) AS k(space) WHERE ids[k.space] IS NULL;
	IF missing IS NOT NULL THEN
		o_failure := jsonb_build_object('batch', 1, 'space', missing);
		RAISE SQLSTATE 'MS000';
	END IF;
	SELECT * INTO r FROM "mainstem".edits(p_base, p_now, ids, k_space, k_name, k_mark, k_rest,
		w_key, w_op, w_count, w_ttl, w_version, w_size, w_headers, w_value);
	IF r.o_fault IS NOT NULL THEN
		o_failure := jsonb_build_object('batch', 1, 'write', r.o_fault, 'got', r.o_got);
		RAISE SQLSTATE 'MS000';
	END IF;
	o_versions := r.o_versions;
	o_last := r.o_last;
	o_spaces := r.o_spaces;
EXCEPTION WHEN SQLSTATE 'MS000' THEN
	RETURN; -- variables keep their values, tables do not
END $$;

-- Remembers the receipts of the batches with IDs.
CREATE OR REPLACE FUNCTION "mainstem".remember(p_base bigint, p_time bigint, p_ids bytea[], p_skip integer[], w_batch integer[], p_versions bigint[]) RETURNS void
LANGUAGE sql AS $$
	WITH z AS (
		SELECT b.batch, b.ord, p_versions[b.ord] AS version,
			p_base + count(*) FILTER (WHERE p_versions[b.ord] > 0) OVER (ORDER BY b.ord) AS position
		FROM (
			SELECT u.batch, row_number() OVER (ORDER BY u.ord) AS ord
			FROM unnest(w_batch) WITH ORDINALITY AS u(batch, ord) WHERE u.batch <> ALL (p_skip)
		) b
	), s AS (
		SELECT z.batch, array_agg(z.version ORDER BY z.ord) AS versions,
			min(z.position) FILTER (WHERE z.version > 0) AS first, max(z.position) FILTER (WHERE z.version > 0) AS last
		FROM z GROUP BY z.batch
	)
	INSERT INTO "mainstem".batch (id, stored, first, last, time, versions)
	SELECT i.id, p_time, coalesce(s.first, 0), coalesce(s.last, 0), CASE WHEN s.batch IS NULL THEN 0 ELSE p_time END, coalesce(s.versions, '{}')
	FROM unnest(p_ids) WITH ORDINALITY AS i(id, batch) LEFT JOIN s ON s.batch = i.batch
	WHERE i.id IS NOT NULL AND i.batch <> ALL (p_skip)
$$;

-- Commits batches: each wholly or not at all, in their order. Conditions are tested
-- against the state before all of them, so no batch may have a condition on a key that
-- an earlier one writes. A batch with p_given, p_ensures or p_edits comes alone. If all
-- writes are puts, k_n and what follows it are there; see puts.
--
-- o_versions has an entry for each write of the batches that are neither in
-- o_failures nor in o_duplicates; their records have the positions after o_base. If it is
-- null, o_heads has one for each key; see puts.
CREATE OR REPLACE FUNCTION "mainstem".commit(p_now bigint, p_given bigint, p_sync text, p_spaces text[], p_ids bytea[], p_ensures json, p_edits boolean,
	c_batch integer[], c_space integer[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	k_n integer[], k_bytes bigint[], k_count bigint[], k_last integer[], k_ttl bigint[],
	w_batch integer[], w_key integer[], w_op smallint[], w_count bigint[], w_upto bigint[], w_ttl bigint[],
	w_version bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_base bigint, OUT o_time bigint, OUT o_versions bigint[], OUT o_failures jsonb, OUT o_duplicates jsonb, OUT o_heads bigint[])
LANGUAGE plpgsql AS $$
DECLARE
	ids integer[];
	skip integer[] := '{}';
	list integer[];
	found jsonb;
	newest bigint;
	touched integer[];
BEGIN
	IF p_sync IS NOT NULL THEN
		PERFORM set_config('synchronous_commit', p_sync, true);
	END IF;
	-- As in enter, which would be one more call.
	PERFORM pg_advisory_xact_lock(1836253185, 906006281);
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM 1 FROM "mainstem".log FOR UPDATE;
	END IF;
	SELECT l.position, greatest(l.clock, least(p_given, "mainstem".tick(p_now))) INTO o_base, o_time FROM "mainstem".log l;
	IF p_ids IS NOT NULL THEN
		SELECT array_agg(u.i), jsonb_agg(jsonb_build_object('batch', u.i, 'first', b.first, 'last', b.last, 'time', b.time, 'versions', b.versions))
		INTO list, o_duplicates FROM unnest(p_ids) WITH ORDINALITY AS u(id, i) JOIN "mainstem".batch b ON b.id = u.id;
		skip := coalesce(list, skip);
	END IF;
	IF c_batch IS NOT NULL THEN
		ids := "mainstem".numbers(p_spaces);
		SELECT t.o_batches, t.o_found INTO list, o_failures FROM "mainstem".test(o_time, ids, skip, c_batch, c_space, c_name, c_mark, c_test, c_version) t;
		skip := skip || coalesce(list, '{}');
	END IF;
	IF p_ensures IS NOT NULL OR p_edits THEN
		o_versions := '{}';
		IF skip = '{}' THEN
			SELECT a.o_versions, a.o_last, a.o_spaces, a.o_failure INTO o_versions, newest, touched, found
			FROM "mainstem".alone(o_base, o_time, p_spaces, p_ensures, k_space, k_name, k_mark, k_rest,
				w_key, w_op, w_count, w_ttl, w_version, w_size, w_headers, w_value) a;
			IF found IS NOT NULL THEN
				o_failures := jsonb_build_array(found);
				skip := '{1}';
			END IF;
		END IF;
	ELSIF w_batch IS NULL THEN
		o_versions := '{}';
	ELSE
		IF k_n IS NOT NULL AND skip = '{}' THEN
			SELECT p.o_heads, p.o_last, p.o_spaces INTO o_heads, newest, touched
			FROM "mainstem".puts(o_base, o_time, p_spaces, k_space, k_name, k_mark, k_rest, k_n, k_bytes, k_count, k_last, k_ttl,
				w_key, w_upto, w_count, w_ttl, w_size, w_headers, w_value) p;
		END IF;
		IF newest IS NULL THEN
			o_heads := NULL;
			ids := coalesce(ids, "mainstem".numbers(p_spaces));
			IF array_position(ids, NULL) IS NOT NULL THEN
				SELECT array_agg(f.batch), jsonb_agg(jsonb_build_object('batch', f.batch, 'space', f.space)) INTO list, found
				FROM (
					SELECT w.batch, min(k_space[w.key]) AS space FROM unnest(w_batch, w_key) AS w(batch, key)
					WHERE ids[k_space[w.key]] IS NULL AND w.batch <> ALL (skip) GROUP BY w.batch
				) f;
				skip := skip || coalesce(list, '{}');
				o_failures := coalesce(o_failures || found, o_failures, found);
			END IF;
			SELECT a.o_versions, a.o_last, a.o_spaces INTO o_versions, newest, touched
			FROM "mainstem".apply(o_base, o_time, ids, skip, k_space, k_name, k_mark, k_rest,
				w_batch, w_key, w_op, w_count, w_ttl, w_size, w_headers, w_value) a;
		END IF;
	END IF;
	IF p_ids IS NOT NULL THEN
		PERFORM "mainstem".remember(o_base, o_time, p_ids, skip, w_batch,
			coalesce(o_versions, (SELECT array_agg(o_heads[w.key] + w.upto) FROM unnest(w_key, w_upto) AS w(key, upto))));
	END IF;
	IF newest > o_base THEN
		PERFORM "mainstem".announce(newest, touched);
	ELSIF p_sync IS DISTINCT FROM 'off' AND pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() THEN
		-- What this batch found, itself perhaps, may have been committed without a flush.
		-- Something must be written for this transaction to flush it.
		UPDATE "mainstem".log SET clock = clock;
	END IF;
END $$;

-- The same for a transaction of others, whose session plans as it likes.
CREATE OR REPLACE FUNCTION "mainstem".commit_inside(p_now bigint, p_given bigint, p_sync text, p_spaces text[], p_ids bytea[], p_ensures json, p_edits boolean,
	c_batch integer[], c_space integer[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	k_n integer[], k_bytes bigint[], k_count bigint[], k_last integer[], k_ttl bigint[],
	w_batch integer[], w_key integer[], w_op smallint[], w_count bigint[], w_upto bigint[], w_ttl bigint[],
	w_version bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_base bigint, OUT o_time bigint, OUT o_versions bigint[], OUT o_failures jsonb, OUT o_duplicates jsonb, OUT o_heads bigint[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
	SELECT c.o_base, c.o_time, c.o_versions, c.o_failures, c.o_duplicates, c.o_heads
	INTO o_base, o_time, o_versions, o_failures, o_duplicates, o_heads
	FROM "mainstem".commit(p_now, p_given, p_sync, p_spaces, p_ids, p_ensures, p_edits,
		c_batch, c_space, c_name, c_mark, c_test, c_version, k_space, k_name, k_mark, k_rest, k_n, k_bytes, k_count, k_last, k_ttl,
		w_batch, w_key, w_op, w_count, w_upto, w_ttl, w_version, w_size, w_headers, w_value) c;
END $$;
-- Removes up to p_limit records whose time to live is over. If one was the newest of its
-- key, and the space has a feed, a tombstone follows it so that followers hear of it.
CREATE OR REPLACE FUNCTION "mainstem".sweep_expired(p_now bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
	base bigint;
	now bigint;
	newest bigint;
	touched integer[] := '{}';
	n integer := 0;
	r record;
BEGIN
	-- Without the lock: a look that finds nothing must not wait for anybody.
	IF NOT EXISTS (SELECT FROM "mainstem".record WHERE expires <= "mainstem".tick(p_now)) THEN
		RETURN 0;
	END IF;
	SELECT e.o_base, e.o_time INTO base, now FROM "mainstem".enter(p_now, NULL) e;
	newest := base;
	FOR r IN
		SELECT h.key, h.version, h.tomb, h.space, k.name, k.mark, s.no_feed,
			k.version = h.version AS last, octet_length(k.name) + octet_length(k.rest) AS size
		FROM (SELECT * FROM "mainstem".record WHERE expires <= now ORDER BY expires LIMIT p_limit) h
		LEFT JOIN "mainstem".key k ON k.id = h.key LEFT JOIN "mainstem".space s ON s.id = h.space
	LOOP
		n := n + 1;
		IF r.no_feed IS NULL THEN -- its space was dropped
			DELETE FROM "mainstem".record WHERE key = r.key AND version = r.version;
			CONTINUE;
		END IF;
		PERFORM "mainstem".cut(r.key, r.version, r.version, now);
		IF r.last AND r.tomb = 0 AND NOT r.no_feed THEN
			SELECT a.o_last INTO newest FROM "mainstem".apply(newest, now, ARRAY[r.space], '{}', ARRAY[1], ARRAY[r.name], ARRAY[r.mark], NULL,
				ARRAY[1], ARRAY[1], ARRAY[3::smallint], ARRAY[1::bigint], ARRAY[0::bigint], ARRAY[r.size], NULL, NULL) a;
			touched := touched || r.space;
		END IF;
	END LOOP;
	IF newest > base THEN
		PERFORM "mainstem".announce(newest, touched);
	END IF;
	RETURN n;
END $$;

-- Removes up to p_limit traces of ended keys of a space with bounded history: tombstones
-- from before p_before, and keys of which nothing is held since then. The space's floor
-- remembers their versions.
CREATE OR REPLACE FUNCTION "mainstem".sweep_ended(p_space integer, p_before bigint, p_now bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	n integer := 0;
	top bigint := 0;
	more bigint;
	high bigint;
	r record;
BEGIN
	FOR r IN
		SELECT h.key, h.version, k.version AS newest, k.held
		FROM (SELECT * FROM "mainstem".record WHERE space = p_space AND tomb <> 0 AND time < p_before ORDER BY time LIMIT p_limit) h
		JOIN "mainstem".key k ON k.id = h.key
	LOOP
		n := n + 1;
		IF r.version < r.newest THEN
			PERFORM "mainstem".cut(r.key, r.version, r.version, p_now);
		ELSE
			PERFORM "mainstem".cut(r.key, 0, r.newest, p_now);
			DELETE FROM "mainstem".key WHERE id = r.key;
			top := greatest(top, r.newest);
		END IF;
	END LOOP;
	WITH d AS (
		DELETE FROM "mainstem".key k USING (
			SELECT g.id FROM "mainstem".key g WHERE g.space = p_space AND g.held = 0 AND g.time < p_before ORDER BY g.time LIMIT p_limit
		) g WHERE k.id = g.id RETURNING k.version
	) SELECT count(*), max(d.version) INTO more, high FROM d;
	n := n + more;
	top := greatest(top, high);
	IF top > 0 THEN
		UPDATE "mainstem".total SET floor = greatest(floor, top) WHERE space = p_space;
	END IF;
	RETURN n;
END $$;

-- Removes up to p_limit of the oldest records of a space: those written before p_before,
-- and as many as are needed to free p_excess bytes.
CREATE OR REPLACE FUNCTION "mainstem".sweep_oldest(p_space integer, p_before bigint, p_excess bigint, p_now bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	n integer := 0;
	r record;
BEGIN
	FOR r IN
		SELECT o.key, o.version FROM (
			SELECT h.key, h.version, h.time, sum(h.size) OVER (ORDER BY h.position) - h.size AS freed
			FROM (SELECT * FROM "mainstem".record WHERE space = p_space ORDER BY position LIMIT p_limit) h
		) o WHERE o.time < p_before OR o.freed < p_excess
	LOOP
		n := n + 1;
		PERFORM "mainstem".cut(r.key, r.version, r.version, p_now);
	END LOOP;
	RETURN n;
END $$;

-- Enforces what the policies of the spaces say about age and size, up to p_limit
-- records of each. Returns how many it removed.
CREATE OR REPLACE FUNCTION "mainstem".sweep_spaces(p_now bigint, p_default_age bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
	now bigint;
	n integer := 0;
	s record;
BEGIN
	IF NOT EXISTS (SELECT FROM "mainstem".space WHERE history > 0 OR max_age > 0 OR max_bytes > 0) THEN
		RETURN 0;
	END IF;
	SELECT e.o_time INTO now FROM "mainstem".enter(p_now, NULL) e;
	FOR s IN
		SELECT p.*, t.bytes, CASE WHEN p.tombstone_age = 0 THEN p_default_age ELSE p.tombstone_age END AS age
		FROM "mainstem".space p JOIN "mainstem".total t ON t.space = p.id
	LOOP
		IF s.history > 0 AND s.age > 0 THEN
			n := n + "mainstem".sweep_ended(s.id, now - s.age, now, p_limit);
		END IF;
		IF s.max_age > 0 OR s.max_bytes > 0 AND s.bytes > s.max_bytes THEN
			n := n + "mainstem".sweep_oldest(s.id, CASE WHEN s.max_age > 0 THEN now - s.max_age ELSE 0 END,
				CASE WHEN s.max_bytes > 0 THEN s.bytes - s.max_bytes ELSE 0 END, now, p_limit);
		END IF;
	END LOOP;
	RETURN n;
END $$;

-- Removes up to p_limit rows that no reader sees: receipts from before their age, and
-- what dropped spaces left behind.
CREATE OR REPLACE FUNCTION "mainstem".sweep_remains(p_now bigint, p_id_age bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
	n integer;
	more integer;
	rest integer;
	g record;
BEGIN
	DELETE FROM "mainstem".batch WHERE id IN (
		SELECT b.id FROM "mainstem".batch b WHERE b.stored < "mainstem".tick(p_now) - p_id_age ORDER BY b.stored LIMIT p_limit FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS n = ROW_COUNT;
	FOR g IN SELECT space FROM "mainstem".gone FOR UPDATE SKIP LOCKED LOOP
		DELETE FROM "mainstem".record WHERE (space, position) IN (
			SELECT r.space, r.position FROM "mainstem".record r WHERE r.space = g.space ORDER BY r.position LIMIT p_limit);
		GET DIAGNOSTICS more = ROW_COUNT;
		DELETE FROM "mainstem".key WHERE id IN (SELECT k.id FROM "mainstem".key k WHERE k.space = g.space LIMIT p_limit);
		GET DIAGNOSTICS rest = ROW_COUNT;
		IF more + rest = 0 THEN
			DELETE FROM "mainstem".gone WHERE space = g.space;
		END IF;
		n := n + more + rest;
	END LOOP;
	RETURN n;
END $$;
-- Views for people: nothing in Mainstem reads them.

-- Bytes as text if they are text, else in hexadecimal.
CREATE OR REPLACE FUNCTION "mainstem".readable(p bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN convert_from(p, 'UTF8');
EXCEPTION WHEN OTHERS THEN
	RETURN '\x' || encode(p, 'hex');
END $$;

-- Headers as an object; of those with the same name the first. See headers.go.
CREATE OR REPLACE FUNCTION "mainstem".headers(p bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	at integer := 2;
	n integer;
	name text;
	value text;
	all_of jsonb := '{}';
BEGIN
	IF p IS NULL THEN
		RETURN NULL;
	END IF;
	FOR i IN 1 .. get_byte(p, 0) * 256 + get_byte(p, 1) LOOP
		n := get_byte(p, at) * 256 + get_byte(p, at + 1);
		name := "mainstem".readable(substr(p, at + 3, n));
		at := at + 2 + n;
		n := get_byte(p, at) * 16777216 + get_byte(p, at + 1) * 65536 + get_byte(p, at + 2) * 256 + get_byte(p, at + 3);
		value := CASE WHEN n > 0 THEN "mainstem".readable(substr(p, at + 5, n - 1)) END;
		at := at + 4 + greatest(n - 1, 0);
		IF NOT all_of ? name THEN
			all_of := all_of || jsonb_build_object(name, value);
		END IF;
	END LOOP;
	RETURN all_of;
END $$;

-- Every record that is held, tombstones included.
CREATE OR REPLACE VIEW "mainstem".records AS
SELECT s.name AS space, "mainstem".readable(k.name || k.rest) AS key, r.version, r.count AS items, r.position,
	to_timestamp(r.time / 1e9) AS time, to_timestamp(r.expires / 1e9) AS expires,
	(ARRAY['value', 'deleted', 'purged', 'expired'])[r.tomb + 1] AS kind,
	"mainstem".headers(r.headers) AS headers, r.value AS bytes, "mainstem".readable(r.value) AS value
FROM "mainstem".record r JOIN "mainstem".key k ON k.id = r.key JOIN "mainstem".space s ON s.id = r.space;

-- The newest value of every key that has one, in all spaces.
CREATE OR REPLACE VIEW "mainstem".buckets AS
SELECT s.name AS space, "mainstem".readable(k.name || k.rest) AS key, r.version AS revision,
	to_timestamp(r.time / 1e9) AS time, to_timestamp(r.expires / 1e9) AS expires,
	"mainstem".headers(r.headers) AS headers, r.value AS bytes, "mainstem".readable(r.value) AS value
FROM "mainstem".space s JOIN "mainstem".key k ON k.space = s.id JOIN "mainstem".record r ON r.key = k.id AND r.version = k.version
WHERE k.position IS NOT NULL AND k.tomb = 0
	AND (k.expires IS NULL OR k.expires > "mainstem".tick(NULL)) AND (s.max_age = 0 OR k.time >= "mainstem".tick(NULL) - s.max_age);

-- The events of event stores: spaces named event/ and the name of the store.
CREATE OR REPLACE VIEW "mainstem".events AS
SELECT substr(s.name, 7) AS store, "mainstem".readable(k.name || k.rest) AS stream, r.version, r.position,
	to_timestamp(r.time / 1e9) AS time, "mainstem".headers(r.headers) ->> '$type' AS type,
	"mainstem".headers(r.headers) AS headers, r.value AS bytes, "mainstem".readable(r.value) AS data
FROM "mainstem".record r JOIN "mainstem".key k ON k.id = r.key JOIN "mainstem".space s ON s.id = r.space
WHERE s.name LIKE 'event/%' AND r.tomb = 0;

-- The spaces and what they hold.
CREATE OR REPLACE VIEW "mainstem".spaces AS
SELECT s.name, s.history, s.max_age / 1e9 * interval '1 second' AS max_age, s.max_bytes, s.no_feed, s.metadata,
	to_timestamp(s.created / 1e9) AS created, t.keys, t.records, t.bytes, t.last AS last_position, to_timestamp(nullif(t.updated, 0) / 1e9) AS updated
FROM "mainstem".space s JOIN "mainstem".total t ON t.space = s.id;
-- What most commits are, with as few statements and arrays as can be: each of them costs
-- the server more than the rows that it writes.

-- Reports whether conditions hold. Spaces are given by name.
CREATE OR REPLACE FUNCTION "mainstem".holds(p_now bigint, c_space text[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
	RETURN NOT EXISTS (
		SELECT FROM (SELECT generate_series(1, cardinality(c_test)) AS i) u
		LEFT JOIN "mainstem".space s ON s.name = c_space[u.i]
		LEFT JOIN LATERAL (
			SELECT * FROM "mainstem".key o WHERE o.space = s.id AND o.name = c_name[u.i] AND o.mark = c_mark[u.i] OFFSET 0
		) k ON true
		WHERE CASE WHEN c_test[u.i] = 0 THEN k.version IS DISTINCT FROM c_version[u.i] ELSE (c_test[u.i] = 1) =
			(k.position IS NOT NULL AND k.tomb = 0 AND (k.expires IS NULL OR k.expires > p_now)
				AND (s.max_age = 0 OR k.time >= p_now - s.max_age)) IS TRUE END);
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
CREATE OR REPLACE FUNCTION "mainstem".append(p_now bigint, p_given bigint, p_sync text,
	c_space text[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[],
	p_space text, p_name bytea, p_mark bytea, p_rest bytea,
	p_n integer, p_items bigint, p_bytes bigint, p_ttl bigint, p_headers bytea, p_value bytea,
	w_upto bigint[], w_count bigint[], w_ttl bigint[], w_size integer[], w_headers bytea[], w_value bytea[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
	base bigint;
	now bigint;
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
	IF pg_advisory_xact_lock(1836253185, 906006281) IS NULL THEN
		RETURN NULL;
	END IF;
	SELECT l.position, greatest(l.clock, least(p_given, "mainstem".tick(p_now))), s.id, s.history, coalesce(k.version, t.floor), coalesce(k.held, 0), coalesce(k.id, l.position + p_n), k.id IS NULL
	INTO base, now, space_id, keep, head, had, key_id, fresh
	FROM "mainstem".space s JOIN "mainstem".total t ON t.space = s.id CROSS JOIN "mainstem".log l
	LEFT JOIN LATERAL (
		SELECT * FROM "mainstem".key o WHERE o.space = s.id AND o.name = p_name AND o.mark = p_mark OFFSET 0
	) k ON true
	WHERE s.name = p_space;
	IF space_id IS NULL OR keep > 0 AND p_n > keep OR c_test IS NOT NULL AND NOT "mainstem".holds(now, c_space, c_name, c_mark, c_test, c_version) THEN
		RETURN NULL;
	END IF;
	IF p_ttl > 0 THEN
		ends := now + least(p_ttl, 9223372036854775807 - now);
	END IF;
	IF fresh THEN
		INSERT INTO "mainstem".key (id, space, name, mark, rest, version, position, time, expires, tomb, held)
		VALUES (key_id, space_id, p_name, p_mark, p_rest, head + p_items, key_id, now, ends, 0, p_n);
	ELSE
		IF keep > 0 AND had + p_n > keep THEN
			WITH d AS (
				DELETE FROM "mainstem".record r WHERE r.key = key_id AND r.version <= CASE WHEN p_n = keep THEN head ELSE (
					SELECT o.version FROM "mainstem".record o WHERE o.key = key_id ORDER BY o.version DESC OFFSET keep - p_n LIMIT 1) END
				RETURNING r.size
			) SELECT count(*), coalesce(sum(d.size), 0) INTO gone, freed FROM d;
		END IF;
		UPDATE "mainstem".key k SET version = head + p_items, position = base + p_n, time = now, expires = ends, tomb = 0, held = had + p_n - gone
		WHERE k.id = key_id;
	END IF;
	IF p_n = 1 THEN
		INSERT INTO "mainstem".record (key, version, position, time, expires, count, space, size, tomb, headers, value)
		VALUES (key_id, head + p_items, base + 1, now, ends, p_items, space_id, p_bytes, 0, p_headers, p_value);
	ELSIF w_count IS NULL AND w_ttl IS NULL THEN
		INSERT INTO "mainstem".record (key, version, position, time, count, space, size, tomb, headers, value)
		SELECT key_id, head + u.i, base + u.i, now, 1, space_id, w_size[u.i], 0, w_headers[u.i], w_value[u.i]
		FROM (SELECT generate_series(1, p_n) AS i) u;
	ELSE
		far := 9223372036854775807 - now;
		INSERT INTO "mainstem".record (key, version, position, time, expires, count, space, size, tomb, headers, value)
		SELECT key_id, head + coalesce(w_upto[u.i], u.i), base + u.i, now, CASE WHEN w_ttl[u.i] > 0 THEN now + least(w_ttl[u.i], far) END,
			coalesce(w_count[u.i], 1), space_id, w_size[u.i], 0, w_headers[u.i], w_value[u.i]
		FROM (SELECT generate_series(1, p_n) AS i) u;
	END IF;
	UPDATE "mainstem".total t SET keys = t.keys + (had = 0)::integer, records = t.records + p_n - gone, bytes = t.bytes + p_bytes - freed,
		last = base + p_n, updated = now
	WHERE t.space = space_id;
	UPDATE "mainstem".log SET position = base + p_n, clock = now;
	IF NOT pg_try_advisory_xact_lock(1836253186, 906006281) THEN
		PERFORM "mainstem".announce(base + p_n, ARRAY[space_id]);
	END IF;
	RETURN ARRAY[base, now, head];
END $$;
INSERT INTO mainstem.migration (version) VALUES (1), (2), (3);
SELECT mainstem.ensure('[{"name": "s", "history": 0, "max_age": 0, "max_bytes": 0, "tombstone_age": 0, "no_feed": false}]', mainstem.tick(NULL));
SELECT mainstem.append(mainstem.tick(NULL) + 31536000000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
	's', 'k', '', '', 1, 1, 2, 1000000000, NULL, '1', NULL, NULL, NULL, NULL, NULL, NULL);
