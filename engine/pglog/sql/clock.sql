-- What a log knows about its clock, format 4.
--
-- A log has two times. The time of a record never decreases with its position. What
-- expires is judged by readings of the clock: times to live and ages count from the
-- reading at the commit, which stands in the column clock where it differs from time.
--
-- A reading behind the newest one means that the clock was set back. Records up to there
-- with later readings then get the present reading, in the background (move); moved
-- remembers the old one, and gives it back when the clock passes it again (restore): then
-- it had been right.
--
-- A process that sees the clock jump forward publishes that as a hold: until it ends, what
-- was written at readings before boundary is judged as if the clock were ahead less.

ALTER TABLE {schema}.log
	ADD COLUMN IF NOT EXISTS reading   bigint NOT NULL DEFAULT 0, -- the newest reading that was written
	ADD COLUMN IF NOT EXISTS boundary  bigint NOT NULL DEFAULT 0, -- of the hold
	ADD COLUMN IF NOT EXISTS ahead     bigint NOT NULL DEFAULT 0, -- 0: there is no hold
	ADD COLUMN IF NOT EXISTS set_backs bigint NOT NULL DEFAULT 0;
UPDATE {schema}.log SET reading = clock;
ALTER TABLE {schema}.key ADD COLUMN IF NOT EXISTS clock bigint;    -- of its newest record; null: as its time
ALTER TABLE {schema}.record ADD COLUMN IF NOT EXISTS clock bigint; -- null: as its time
DROP INDEX {schema}.record_tomb;
CREATE INDEX record_tomb ON {schema}.record (space, coalesce(clock, time)) WHERE tomb <> 0;

-- When the clock was set back: records up to position with readings after clock are moved,
-- those up to low have none. Space by space, from the newest record down: place and below
-- say how far that has come.
CREATE TABLE {schema}.set_back (
	position bigint PRIMARY KEY,
	clock    bigint NOT NULL,
	low      bigint NOT NULL,
	place    integer NOT NULL DEFAULT 0,
	below    bigint,
	done     boolean NOT NULL DEFAULT false
);

-- The readings at which records were written that were moved.
CREATE TABLE {schema}.moved (
	key     bigint NOT NULL,
	version bigint NOT NULL,
	was     bigint NOT NULL,
	PRIMARY KEY (key, version)
);
CREATE INDEX moved_was ON {schema}.moved (was);

-- Up to when entries of indexes by time are over at the reading p_now.
CREATE OR REPLACE FUNCTION {schema}.due(p_now bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
	SELECT CASE WHEN l.ahead > 0 AND p_now >= l.boundary THEN p_now - l.ahead ELSE p_now END FROM {schema}.log l
$$;

-- Reports whether a record that is over at the reading p_now is there all the same: because
-- of a hold, or because it was moved and the clock has passed its old reading.
CREATE OR REPLACE FUNCTION {schema}.still(p_now bigint, p_key bigint, p_version bigint, p_clock bigint, p_expires bigint, p_max_age bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
	now bigint := p_now;
	l record;
	old bigint;
BEGIN
	SELECT g.boundary, g.ahead INTO l FROM {schema}.log g;
	IF l.ahead > 0 AND p_clock < l.boundary AND p_now >= l.boundary THEN
		now := p_now - l.ahead;
		IF (p_expires IS NULL OR p_expires > now) AND (p_max_age = 0 OR p_clock >= now - p_max_age) THEN
			RETURN true;
		END IF;
	END IF;
	SELECT m.was INTO old FROM {schema}.moved m WHERE m.key = p_key AND m.version = p_version;
	RETURN old <= now AND (p_expires IS NULL OR p_expires - p_clock > now - old) AND (p_max_age = 0 OR old >= now - p_max_age) IS TRUE;
END $$;

-- Publishes that the clock jumped forward by p_ahead, or with 0 that it came back. What
-- another process has published of the same jump stays. If others have written after the
-- jump without publishing it, this process is the one that had no time: it was suspended.
CREATE OR REPLACE FUNCTION {schema}.hold(p_now bigint, p_boundary bigint, p_ahead bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock({order});
	IF p_ahead = 0 THEN
		UPDATE {schema}.log SET boundary = 0, ahead = 0 WHERE p_now < boundary;
	ELSE
		UPDATE {schema}.log SET boundary = p_boundary, ahead = p_ahead
		WHERE p_now < boundary OR p_boundary > boundary + 30000000000 AND NOT (ahead = 0 AND reading >= p_boundary);
	END IF;
END $$;

-- Moves up to p_limit records, or looks at that many. Returns 0 when there is nothing to do.
CREATE OR REPLACE FUNCTION {schema}.move(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
	n integer := 0;
	m {schema}.set_back;
	s record;
	r record;
	old bigint;
	ends bigint;
BEGIN
	SELECT * INTO m FROM {schema}.set_back WHERE NOT done ORDER BY position LIMIT 1;
	IF NOT FOUND THEN
		RETURN 0;
	END IF;
	FOR s IN SELECT id FROM {schema}.space WHERE id >= m.place ORDER BY id LOOP
		FOR r IN
			SELECT h.key, h.version, h.position, h.time, h.clock, h.expires FROM {schema}.record h
			WHERE h.space = s.id AND h.position > m.low AND h.position <= CASE WHEN s.id = m.place THEN m.below ELSE m.position END
			ORDER BY h.position DESC
		LOOP
			EXIT WHEN r.time <= m.clock;
			n := n + 1;
			IF n > p_limit THEN
				UPDATE {schema}.set_back SET place = s.id, below = r.position WHERE position = m.position;
				RETURN n;
			END IF;
			old := coalesce(r.clock, r.time);
			IF old > m.clock THEN
				ends := CASE WHEN r.expires < 9223372036854775807 THEN r.expires - (old - m.clock) ELSE r.expires END;
				INSERT INTO {schema}.moved (key, version, was) VALUES (r.key, r.version, old) ON CONFLICT DO NOTHING;
				UPDATE {schema}.record SET clock = m.clock, expires = ends WHERE key = r.key AND version = r.version;
				UPDATE {schema}.key SET clock = m.clock, expires = ends WHERE id = r.key AND version = r.version AND position IS NOT NULL;
			END IF;
		END LOOP;
		UPDATE {schema}.key SET time = m.clock WHERE space = s.id AND held = 0 AND time > m.clock;
	END LOOP;
	UPDATE {schema}.set_back SET done = true WHERE position = m.position;
	DELETE FROM {schema}.set_back WHERE done AND position < m.position;
	RETURN n + 1;
END $$;

-- Does what a clock that was set back asks for, up to p_limit records of it. Returns 0 when
-- there is nothing to do.
CREATE OR REPLACE FUNCTION {schema}.sweep_clock(p_now bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql {settings} AS $$
DECLARE
	now bigint := {schema}.tick(p_now);
	due bigint := {schema}.due(now);
	n integer;
BEGIN
	-- Without the lock: a look that finds nothing must not wait for anybody.
	IF NOT EXISTS (SELECT FROM {schema}.log WHERE reading - now > 1000000000)
		AND NOT EXISTS (SELECT FROM {schema}.set_back WHERE NOT done)
		AND NOT EXISTS (SELECT FROM {schema}.moved WHERE was <= due) THEN
		RETURN 0;
	END IF;
	SELECT e.o_time INTO now FROM {schema}.enter(p_now, NULL) e;
	n := {schema}.move(p_limit);
	IF n = 0 THEN
		n := {schema}.restore({schema}.due(now), p_limit);
	END IF;
	RETURN n;
END $$;
