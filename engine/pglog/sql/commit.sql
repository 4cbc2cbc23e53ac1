-- Applies one write that edits history: purge 2, forget 3, truncate 4, rewrite 5,
-- remove 6. o_version is what it wrote, o_fault what is wrong: a version that is not
-- there, with o_got the newest of the key.
CREATE OR REPLACE FUNCTION {schema}.edit(p_base bigint, p_now bigint, p_space integer, p_name bytea, p_mark bytea, p_op smallint,
	p_version bigint, p_size integer, p_headers bytea, p_value bytea,
	OUT o_version bigint, OUT o_fault boolean, OUT o_got bigint)
LANGUAGE plpgsql AS $$
DECLARE
	k {schema}.key;
	r record;
	bigger bigint;
BEGIN
	o_version := 0;
	SELECT * INTO k FROM {schema}.key WHERE space = p_space AND name = p_name AND mark = p_mark;
	o_got := coalesce(k.version, 0);
	IF p_op = 2 THEN
		SELECT a.o_versions[1] INTO o_version FROM {schema}.apply(p_base, p_now, ARRAY[p_space], '{}',
			ARRAY[1], ARRAY[p_name], ARRAY[p_mark], NULL, ARRAY[1], ARRAY[1], ARRAY[p_op], ARRAY[1::bigint], ARRAY[0::bigint], ARRAY[p_size], ARRAY[p_headers], NULL) a;
		IF o_version > 0 THEN
			PERFORM {schema}.cut(k.id, 0, o_version - 1, p_now);
		END IF;
	ELSIF p_op = 3 THEN
		PERFORM {schema}.cut(k.id, 0, 9223372036854775807, p_now);
	ELSIF p_op = 4 THEN
		IF k.held > 0 THEN
			o_fault := p_version > k.version + 1;
			IF NOT o_fault THEN
				PERFORM {schema}.cut(k.id, 0, p_version - 1, p_now);
			END IF;
		END IF;
	ELSE
		SELECT h.tomb, h.size INTO r FROM {schema}.record h JOIN {schema}.space s ON s.id = h.space
		WHERE h.key = k.id AND h.version = p_version AND ((h.expires IS NULL OR h.expires > p_now)
			AND (s.max_age = 0 OR coalesce(h.clock, h.time) >= p_now - s.max_age)
			OR {schema}.still(p_now, h.key, h.version, coalesce(h.clock, h.time), h.expires, s.max_age));
		IF NOT FOUND THEN
			o_fault := true;
		ELSIF p_op = 6 THEN
			PERFORM {schema}.cut(k.id, p_version, p_version, p_now);
		ELSE
			IF r.tomb <> 0 THEN
				p_size := p_size - coalesce(octet_length(p_value), 0);
				p_value := NULL;
			END IF;
			bigger := p_size - r.size;
			UPDATE {schema}.record h SET headers = p_headers, value = p_value, size = p_size WHERE h.key = k.id AND h.version = p_version;
			UPDATE {schema}.total t SET bytes = t.bytes + bigger WHERE t.space = p_space;
		END IF;
	END IF;
	o_fault := coalesce(o_fault, false);
END $$;

-- Applies the writes of one batch, some of which edit history. Runs of others are
-- applied together.
CREATE OR REPLACE FUNCTION {schema}.edits(p_base bigint, p_now bigint, p_ids integer[],
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
			SELECT * INTO e FROM {schema}.edit(o_last, p_now, p_ids[k_space[k]], k_name[k], k_mark[k], w_op[i], w_version[i], w_size[i], w_headers[i], w_value[i]);
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
			SELECT * INTO a FROM {schema}.apply(o_last, p_now, p_ids, '{}', k_space, k_name, k_mark, k_rest,
				array_fill(1, ARRAY[j - i + 1]), w_key[i:j], w_op[i:j], w_count[i:j], w_ttl[i:j], w_size[i:j], w_headers[i:j], w_value[i:j]);
			o_versions := o_versions || a.o_versions;
			o_last := a.o_last;
			o_spaces := o_spaces || a.o_spaces;
		END IF;
		i := j + 1;
	END LOOP;
END $$;

-- The numbers of spaces by name, null for those that do not exist.
CREATE OR REPLACE FUNCTION {schema}.numbers(p_names text[]) RETURNS integer[] LANGUAGE plpgsql STRICT AS $$
BEGIN
	RETURN (SELECT array_agg(s.id ORDER BY n.ord) FROM unnest(p_names) WITH ORDINALITY AS n(name, ord)
		LEFT JOIN {schema}.space s ON s.name = n.name);
END $$;

-- Creates the spaces described in p_spaces that do not exist; returns how many.
CREATE OR REPLACE FUNCTION {schema}.ensure(p_spaces json, p_now bigint) RETURNS bigint LANGUAGE sql AS $$
	WITH made AS (
		INSERT INTO {schema}.space (name, created, history, max_age, max_bytes, tombstone_age, no_feed, metadata)
		SELECT e.name, p_now, e.history, e.max_age, e.max_bytes, e.tombstone_age, e.no_feed, e.metadata
		FROM json_to_recordset(p_spaces) AS e(name text, history integer, max_age bigint, max_bytes bigint, tombstone_age bigint, no_feed boolean, metadata json)
		ON CONFLICT (name) DO NOTHING RETURNING id
	), counted AS (
		INSERT INTO {schema}.total (space) SELECT id FROM made
	)
	SELECT count(*) FROM made
$$;

-- Tests the conditions of batches against the state before them. c_version is what test 0
-- asks for, and the position of test 3. Returns for each batch with one that does not hold
-- which it is, and what was found.
CREATE OR REPLACE FUNCTION {schema}.test(p_now bigint, p_ids integer[], p_skip integer[],
	c_batch integer[], c_space integer[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[],
	OUT o_batches integer[], OUT o_found jsonb)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT array_agg(f.batch), jsonb_agg(jsonb_build_object('batch', f.batch, 'condition', f.ord, 'got', f.got, 'live', f.live, 'position', f.position))
	INTO o_batches, o_found
	FROM (
		SELECT DISTINCT ON (c.batch) c.batch, c.ord, coalesce(k.version, 0) AS got, l.live,
			w.written AS position
		FROM unnest(c_batch, c_space, c_name, c_mark, c_test, c_version) WITH ORDINALITY AS c(batch, space, name, mark, test, version, ord)
		LEFT JOIN LATERAL (
			SELECT * FROM {schema}.key i WHERE i.space = p_ids[c.space] AND i.name = c.name AND i.mark = c.mark OFFSET 0
		) k ON true
		LEFT JOIN {schema}.space s ON s.id = k.space
		CROSS JOIN LATERAL (
			SELECT CASE WHEN c.test = 3 THEN coalesce(k.position, k.written, (SELECT t.traces FROM {schema}.total t WHERE t.space = p_ids[c.space])) END
		) w(written)
		CROSS JOIN LATERAL (SELECT (k.position IS NOT NULL AND k.tomb = 0 AND ((k.expires IS NULL OR k.expires > p_now) AND (s.max_age = 0 OR coalesce(k.clock, k.time) >= p_now - s.max_age)
				OR {schema}.still(p_now, k.id, k.version, coalesce(k.clock, k.time), k.expires, s.max_age))) IS TRUE) AS l(live)
		WHERE c.batch <> ALL (p_skip)
			AND CASE c.test WHEN 0 THEN k.version IS DISTINCT FROM c.version WHEN 1 THEN l.live
				WHEN 3 THEN coalesce(w.written > c.version, false) ELSE NOT l.live END
		ORDER BY c.batch, c.ord
	) f;
END $$;

-- Applies the one batch that creates spaces or edits history. What it changed before it
-- failed is undone, and what is wrong is returned, so that a transaction around it goes on.
CREATE OR REPLACE FUNCTION {schema}.alone(p_base bigint, p_now bigint, p_spaces text[], p_ensures json,
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
		PERFORM {schema}.ensure(p_ensures, p_now);
	END IF;
	IF w_op IS NULL THEN
		RETURN;
	END IF;
	ids := {schema}.numbers(p_spaces);
	SELECT min(k.space) INTO missing FROM unnest(k_space) AS k(space) WHERE ids[k.space] IS NULL;
	IF missing IS NOT NULL THEN
		o_failure := jsonb_build_object('batch', 1, 'space', missing);
		RAISE SQLSTATE 'MS000';
	END IF;
	SELECT * INTO r FROM {schema}.edits(p_base, p_now, ids, k_space, k_name, k_mark, k_rest,
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

-- Remembers the receipts of the batches with IDs. In the language sql it would be planned by every call.
CREATE OR REPLACE FUNCTION {schema}.remember(p_base bigint, p_time bigint, p_ids bytea[], p_skip integer[], w_batch integer[], p_versions bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
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
	INSERT INTO {schema}.batch (id, stored, first, last, time, versions)
	SELECT i.id, p_time, coalesce(s.first, 0), coalesce(s.last, 0), CASE WHEN s.batch IS NULL THEN 0 ELSE p_time END, coalesce(s.versions, '{}')
	FROM unnest(p_ids) WITH ORDINALITY AS i(id, batch) LEFT JOIN s ON s.batch = i.batch
	WHERE i.id IS NOT NULL AND i.batch <> ALL (p_skip);
END $$;

-- Commits batches: each wholly or not at all, in their order. Conditions are tested
-- against the state before all of them, so no batch may have a condition on a key that
-- an earlier one writes. A batch with p_given, p_ensures or p_edits comes alone. If all
-- writes are puts, k_n and what follows it are there; see puts.
--
-- o_versions has an entry for each write of the batches that are neither in
-- o_failures nor in o_duplicates; their records have the positions after o_base. If it is
-- null, o_heads has one for each key; see puts.
CREATE OR REPLACE FUNCTION {schema}.commit(p_now bigint, p_given bigint, p_sync text, p_spaces text[], p_ids bytea[], p_ensures json, p_edits boolean,
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
	now bigint; -- what the clock shows; o_time is the time of the records
BEGIN
	IF p_sync IS NOT NULL THEN
		PERFORM set_config('synchronous_commit', p_sync, true);
	END IF;
	-- As in enter, which would be one more call.
	PERFORM pg_advisory_xact_lock({order});
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM 1 FROM {schema}.log FOR UPDATE;
	END IF;
	SELECT p.o_base, p.o_now, p.o_time INTO o_base, now, o_time FROM {schema}.present(p_now, p_given) p;
	IF p_ids IS NOT NULL THEN
		SELECT array_agg(u.i), jsonb_agg(jsonb_build_object('batch', u.i, 'first', b.first, 'last', b.last, 'time', b.time, 'versions', b.versions))
		INTO list, o_duplicates FROM unnest(p_ids) WITH ORDINALITY AS u(id, i) JOIN {schema}.batch b ON b.id = u.id;
		skip := coalesce(list, skip);
	END IF;
	IF c_batch IS NOT NULL THEN
		ids := {schema}.numbers(p_spaces);
		SELECT t.o_batches, t.o_found INTO list, o_failures FROM {schema}.test(now, ids, skip, c_batch, c_space, c_name, c_mark, c_test, c_version) t;
		skip := skip || coalesce(list, '{}');
	END IF;
	IF p_ensures IS NOT NULL OR p_edits THEN
		o_versions := '{}';
		IF skip = '{}' THEN
			SELECT a.o_versions, a.o_last, a.o_spaces, a.o_failure INTO o_versions, newest, touched, found
			FROM {schema}.alone(o_base, now, p_spaces, p_ensures, k_space, k_name, k_mark, k_rest,
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
			FROM {schema}.puts(o_base, now, p_spaces, k_space, k_name, k_mark, k_rest, k_n, k_bytes, k_count, k_last, k_ttl,
				w_key, w_upto, w_count, w_ttl, w_size, w_headers, w_value) p;
		END IF;
		IF newest IS NULL THEN
			o_heads := NULL;
			ids := coalesce(ids, {schema}.numbers(p_spaces));
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
			FROM {schema}.apply(o_base, now, ids, skip, k_space, k_name, k_mark, k_rest,
				w_batch, w_key, w_op, w_count, w_ttl, w_size, w_headers, w_value) a;
		END IF;
	END IF;
	IF p_ids IS NOT NULL THEN
		PERFORM {schema}.remember(o_base, o_time, p_ids, skip, w_batch,
			coalesce(o_versions, (SELECT array_agg(o_heads[w.key] + w.upto) FROM unnest(w_key, w_upto) AS w(key, upto))));
	END IF;
	IF newest > o_base THEN
		PERFORM {schema}.announce(newest, touched);
	ELSIF p_sync IS DISTINCT FROM 'off' AND pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() THEN
		-- What this batch found, itself perhaps, may have been committed without a flush.
		-- Something must be written for this transaction to flush it.
		UPDATE {schema}.log SET clock = clock;
	END IF;
END $$;

-- The same for a transaction of others, whose session plans as it likes.
CREATE OR REPLACE FUNCTION {schema}.commit_inside(p_now bigint, p_given bigint, p_sync text, p_spaces text[], p_ids bytea[], p_ensures json, p_edits boolean,
	c_batch integer[], c_space integer[], c_name bytea[], c_mark bytea[], c_test smallint[], c_version bigint[],
	k_space integer[], k_name bytea[], k_mark bytea[], k_rest bytea[],
	k_n integer[], k_bytes bigint[], k_count bigint[], k_last integer[], k_ttl bigint[],
	w_batch integer[], w_key integer[], w_op smallint[], w_count bigint[], w_upto bigint[], w_ttl bigint[],
	w_version bigint[], w_size integer[], w_headers bytea[], w_value bytea[],
	OUT o_base bigint, OUT o_time bigint, OUT o_versions bigint[], OUT o_failures jsonb, OUT o_duplicates jsonb, OUT o_heads bigint[])
LANGUAGE plpgsql {settings} AS $$
BEGIN
	SELECT c.o_base, c.o_time, c.o_versions, c.o_failures, c.o_duplicates, c.o_heads
	INTO o_base, o_time, o_versions, o_failures, o_duplicates, o_heads
	FROM {schema}.commit(p_now, p_given, p_sync, p_spaces, p_ids, p_ensures, p_edits,
		c_batch, c_space, c_name, c_mark, c_test, c_version, k_space, k_name, k_mark, k_rest, k_n, k_bytes, k_count, k_last, k_ttl,
		w_batch, w_key, w_op, w_count, w_upto, w_ttl, w_version, w_size, w_headers, w_value) c;
END $$;
