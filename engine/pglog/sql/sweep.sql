-- Removes up to p_limit records whose time to live is over, and as many of those that were
-- written after a jump of the clock that is held. If one was the newest of its key, and the
-- space has a feed, a tombstone follows it so that followers hear of it.
CREATE OR REPLACE FUNCTION {schema}.sweep_expired(p_now bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql {settings} AS $$
DECLARE
	base bigint;
	now bigint;
	due bigint; -- now, without a jump of the clock that is held
	jump bigint := (SELECT boundary FROM {schema}.log);
	newest bigint;
	touched integer[] := '{}';
	n integer := 0;
	r record;
BEGIN
	-- Without the lock: a look that finds nothing must not wait for anybody.
	now := {schema}.tick(p_now);
	due := {schema}.due(now);
	IF NOT EXISTS (SELECT FROM {schema}.record WHERE expires <= due)
		AND NOT EXISTS (SELECT FROM {schema}.record WHERE expires > due AND expires <= now AND coalesce(clock, time) >= jump) THEN
		RETURN 0;
	END IF;
	SELECT e.o_base, e.o_time INTO base, now FROM {schema}.enter(p_now, NULL) e;
	due := {schema}.due(now);
	jump := (SELECT boundary FROM {schema}.log);
	newest := base;
	FOR r IN
		SELECT h.key, h.version, h.tomb, h.space, k.name, k.mark, s.no_feed,
			k.version = h.version AS last, octet_length(k.name) + octet_length(k.rest) AS size
		FROM (
			(SELECT o.key, o.version, o.tomb, o.space FROM {schema}.record o WHERE o.expires <= due
				AND NOT EXISTS (SELECT FROM {schema}.moved m WHERE m.key = o.key AND m.version = o.version AND m.was <= due)
			ORDER BY o.expires LIMIT p_limit)
			UNION ALL
			(SELECT o.key, o.version, o.tomb, o.space FROM {schema}.record o WHERE o.expires > due AND o.expires <= now AND coalesce(o.clock, o.time) >= jump
				AND NOT EXISTS (SELECT FROM {schema}.moved m WHERE m.key = o.key AND m.version = o.version AND m.was <= now)
			ORDER BY o.expires LIMIT p_limit)
		) h
		LEFT JOIN {schema}.key k ON k.id = h.key LEFT JOIN {schema}.space s ON s.id = h.space
	LOOP
		n := n + 1;
		IF r.no_feed IS NULL THEN -- its space was dropped
			DELETE FROM {schema}.record WHERE key = r.key AND version = r.version;
			CONTINUE;
		END IF;
		PERFORM {schema}.cut(r.key, r.version, r.version, now);
		IF r.last AND r.tomb = 0 AND NOT r.no_feed THEN
			SELECT a.o_last INTO newest FROM {schema}.apply(newest, now, ARRAY[r.space], '{}', ARRAY[1], ARRAY[r.name], ARRAY[r.mark], NULL,
				ARRAY[1], ARRAY[1], ARRAY[3::smallint], ARRAY[1::bigint], ARRAY[0::bigint], ARRAY[r.size], NULL, NULL) a;
			touched := touched || r.space;
		END IF;
	END LOOP;
	IF newest > base THEN
		PERFORM {schema}.announce(newest, touched);
	END IF;
	RETURN n;
END $$;

-- Removes up to p_limit traces of ended keys of a space with bounded history: tombstones
-- from before p_before, and keys of which nothing is held since then. The space's floor
-- remembers their versions, its traces their positions.
CREATE OR REPLACE FUNCTION {schema}.sweep_ended(p_space integer, p_before bigint, p_now bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	n integer := 0;
	top bigint := 0;
	more bigint;
	high bigint;
	latest bigint := 0;
	late bigint;
	r record;
BEGIN
	FOR r IN
		SELECT h.key, h.version, h.position, k.version AS newest, k.held
		FROM (SELECT * FROM {schema}.record WHERE space = p_space AND tomb <> 0 AND coalesce(clock, time) < p_before ORDER BY coalesce(clock, time) LIMIT p_limit) h
		JOIN {schema}.key k ON k.id = h.key
	LOOP
		n := n + 1;
		IF r.version < r.newest THEN
			PERFORM {schema}.cut(r.key, r.version, r.version, p_now);
		ELSE
			PERFORM {schema}.cut(r.key, 0, r.newest, p_now);
			DELETE FROM {schema}.key WHERE id = r.key;
			top := greatest(top, r.newest);
			latest := greatest(latest, r.position);
		END IF;
	END LOOP;
	WITH d AS (
		DELETE FROM {schema}.key k USING (
			SELECT g.id FROM {schema}.key g WHERE g.space = p_space AND g.held = 0 AND g.time < p_before ORDER BY g.time LIMIT p_limit
		) g WHERE k.id = g.id RETURNING k.version, k.position, k.written, k.space
	) SELECT count(*), max(d.version), max(coalesce(d.position, d.written, t.last)) INTO more, high, late
	FROM d LEFT JOIN {schema}.total t ON t.space = d.space;
	n := n + more;
	top := greatest(top, high);
	IF top > 0 THEN
		UPDATE {schema}.total SET floor = greatest(floor, top), traces = greatest(traces, latest, late) WHERE space = p_space;
	END IF;
	RETURN n;
END $$;

DROP FUNCTION IF EXISTS {schema}.sweep_oldest(integer, bigint, bigint, bigint, integer);

-- Removes up to p_limit of the oldest records of a space: those written before p_before,
-- and as many as are needed to free p_excess bytes.
CREATE OR REPLACE FUNCTION {schema}.sweep_oldest(p_space integer, p_before bigint, p_excess bigint, p_now bigint, p_due bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	n integer := 0;
	r record;
BEGIN
	FOR r IN
		SELECT o.key, o.version FROM (
			SELECT h.key, h.version, coalesce(h.clock, h.time) AS clock, sum(h.size) OVER (ORDER BY h.position) - h.size AS freed
			FROM (SELECT * FROM {schema}.record WHERE space = p_space ORDER BY position LIMIT p_limit) h
		) o WHERE o.freed < p_excess OR o.clock < p_before AND NOT EXISTS (
			SELECT FROM {schema}.moved m WHERE m.key = o.key AND m.version = o.version AND m.was <= p_due)
	LOOP
		n := n + 1;
		PERFORM {schema}.cut(r.key, r.version, r.version, p_now);
	END LOOP;
	RETURN n;
END $$;

-- Enforces what the policies of the spaces say about age and size, up to p_limit
-- records of each. Returns how many it removed.
CREATE OR REPLACE FUNCTION {schema}.sweep_spaces(p_now bigint, p_default_age bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql {settings} AS $$
DECLARE
	now bigint;
	due bigint; -- now, without a jump of the clock that is held
	n integer := 0;
	s record;
BEGIN
	IF NOT EXISTS (SELECT FROM {schema}.space WHERE history > 0 OR max_age > 0 OR max_bytes > 0) THEN
		RETURN 0;
	END IF;
	SELECT e.o_time INTO now FROM {schema}.enter(p_now, NULL) e;
	due := {schema}.due(now);
	FOR s IN
		SELECT p.*, t.bytes, CASE WHEN p.tombstone_age = 0 THEN p_default_age ELSE p.tombstone_age END AS age
		FROM {schema}.space p JOIN {schema}.total t ON t.space = p.id
	LOOP
		IF s.history > 0 AND s.age > 0 THEN
			n := n + {schema}.sweep_ended(s.id, due - s.age, now, p_limit);
		END IF;
		IF s.max_age > 0 OR s.max_bytes > 0 AND s.bytes > s.max_bytes THEN
			n := n + {schema}.sweep_oldest(s.id, CASE WHEN s.max_age > 0 THEN due - s.max_age ELSE 0 END,
				CASE WHEN s.max_bytes > 0 THEN s.bytes - s.max_bytes ELSE 0 END, now, due, p_limit);
		END IF;
	END LOOP;
	RETURN n;
END $$;

-- Removes up to p_limit rows that no reader sees: receipts from before their age, and
-- what dropped spaces left behind.
CREATE OR REPLACE FUNCTION {schema}.sweep_remains(p_now bigint, p_id_age bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql {settings} AS $$
DECLARE
	now bigint := {schema}.tick(p_now);
	due bigint := {schema}.due(now);
	n integer;
	more integer;
	rest integer;
	g record;
BEGIN
	IF now = due THEN -- those remembered while the clock was far ahead count as remembered now
		UPDATE {schema}.batch SET stored = now WHERE id IN (
			SELECT b.id FROM {schema}.batch b WHERE b.stored > now + least(greatest(p_id_age, 1000000000), 9223372036854775807 - now) ORDER BY b.stored DESC LIMIT p_limit FOR UPDATE SKIP LOCKED);
	END IF;
	DELETE FROM {schema}.batch WHERE id IN (
		SELECT b.id FROM {schema}.batch b WHERE b.stored < due - p_id_age ORDER BY b.stored LIMIT p_limit FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS n = ROW_COUNT;
	FOR g IN SELECT space FROM {schema}.gone FOR UPDATE SKIP LOCKED LOOP
		DELETE FROM {schema}.record WHERE (space, position) IN (
			SELECT r.space, r.position FROM {schema}.record r WHERE r.space = g.space ORDER BY r.position LIMIT p_limit);
		GET DIAGNOSTICS more = ROW_COUNT;
		DELETE FROM {schema}.key WHERE id IN (SELECT k.id FROM {schema}.key k WHERE k.space = g.space LIMIT p_limit);
		GET DIAGNOSTICS rest = ROW_COUNT;
		IF more + rest = 0 THEN
			DELETE FROM {schema}.gone WHERE space = g.space;
		END IF;
		n := n + more + rest;
	END LOOP;
	RETURN n;
END $$;
