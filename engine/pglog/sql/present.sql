-- The present, for who has the end of the order: the position and the time of the next
-- record less one, and the reading o_now that conditions and times to live go by. It is
-- that of the clock, or p_given if it is earlier and not before the newest.
--
-- The clock was set back if it shows a reading behind the newest one. What a client expects
-- (see tick) is none: one that has not noticed yet that the clock jumped forward, or whose
-- call was on its way meanwhile, expects the time before. What others have written at the
-- time after it stays then, and so does the hold.
CREATE OR REPLACE FUNCTION {schema}.present(p_now bigint, p_given bigint, OUT o_base bigint, OUT o_now bigint, OUT o_time bigint)
LANGUAGE plpgsql AS $$
DECLARE
	latest bigint;
BEGIN
	SELECT l.position, l.reading, l.clock, {schema}.tick(p_now) INTO o_base, latest, o_time, o_now FROM {schema}.log l;
	IF latest - o_now > 1000000000 AND (p_now >= 0 OR latest - {schema}.tick(NULL) > 1000000000) THEN
		PERFORM {schema}.set_back(o_base, o_now);
	ELSIF latest > o_now THEN
		o_now := latest;
	END IF;
	IF p_given < o_now THEN
		o_now := greatest(p_given, least(latest, o_now));
	END IF;
	o_time := greatest(o_time, o_now);
END $$;
