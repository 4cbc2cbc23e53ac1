-- Views for people: nothing in Mainstem reads them.

-- Bytes as text if they are text, else in hexadecimal.
CREATE OR REPLACE FUNCTION {schema}.readable(p bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN convert_from(p, 'UTF8');
EXCEPTION WHEN OTHERS THEN
	RETURN '\x' || encode(p, 'hex');
END $$;

-- Headers as an object; of those with the same name the first. See headers.go.
CREATE OR REPLACE FUNCTION {schema}.headers(p bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
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
		name := {schema}.readable(substr(p, at + 3, n));
		at := at + 2 + n;
		n := get_byte(p, at) * 16777216 + get_byte(p, at + 1) * 65536 + get_byte(p, at + 2) * 256 + get_byte(p, at + 3);
		value := CASE WHEN n > 0 THEN {schema}.readable(substr(p, at + 5, n - 1)) END;
		at := at + 4 + greatest(n - 1, 0);
		IF NOT all_of ? name THEN
			all_of := all_of || jsonb_build_object(name, value);
		END IF;
	END LOOP;
	RETURN all_of;
END $$;

-- Every record that is held, tombstones included.
CREATE OR REPLACE VIEW {schema}.records AS
SELECT s.name AS space, {schema}.readable(k.name || k.rest) AS key, r.version, r.count AS items, r.position,
	to_timestamp(r.time / 1e9) AS time, to_timestamp(r.expires / 1e9) AS expires,
	(ARRAY['value', 'deleted', 'purged', 'expired'])[r.tomb + 1] AS kind,
	{schema}.headers(r.headers) AS headers, r.value AS bytes, {schema}.readable(r.value) AS value
FROM {schema}.record r JOIN {schema}.key k ON k.id = r.key JOIN {schema}.space s ON s.id = r.space;

-- The newest value of every key that has one, in all spaces.
CREATE OR REPLACE VIEW {schema}.buckets AS
SELECT s.name AS space, {schema}.readable(k.name || k.rest) AS key, r.version AS revision,
	to_timestamp(r.time / 1e9) AS time, to_timestamp(r.expires / 1e9) AS expires,
	{schema}.headers(r.headers) AS headers, r.value AS bytes, {schema}.readable(r.value) AS value
FROM {schema}.space s JOIN {schema}.key k ON k.space = s.id JOIN {schema}.record r ON r.key = k.id AND r.version = k.version
WHERE k.position IS NOT NULL AND k.tomb = 0
	AND ((k.expires IS NULL OR k.expires > {schema}.tick(NULL)) AND (s.max_age = 0 OR coalesce(k.clock, k.time) >= {schema}.tick(NULL) - s.max_age)
		OR {schema}.still({schema}.tick(NULL), k.id, k.version, coalesce(k.clock, k.time), k.expires, s.max_age));

-- The events of event stores: spaces named event/ and the name of the store.
CREATE OR REPLACE VIEW {schema}.events AS
SELECT substr(s.name, 7) AS store, {schema}.readable(k.name || k.rest) AS stream, r.version, r.position,
	to_timestamp(r.time / 1e9) AS time, {schema}.headers(r.headers) ->> '$type' AS type,
	{schema}.headers(r.headers) AS headers, r.value AS bytes, {schema}.readable(r.value) AS data
FROM {schema}.record r JOIN {schema}.key k ON k.id = r.key JOIN {schema}.space s ON s.id = r.space
WHERE s.name LIKE 'event/%' AND r.tomb = 0;

-- The spaces and what they hold.
CREATE OR REPLACE VIEW {schema}.spaces AS
SELECT s.name, s.history, s.max_age / 1e9 * interval '1 second' AS max_age, s.max_bytes, s.no_feed, s.metadata,
	to_timestamp(s.created / 1e9) AS created, t.keys, t.records, t.bytes, t.last AS last_position, to_timestamp(nullif(t.updated, 0) / 1e9) AS updated
FROM {schema}.space s JOIN {schema}.total t ON t.space = s.id;
