-- The tables of a log, format 1. {schema} is the schema that the log was given.
-- Times are nanoseconds since 1970, in the order of the log never decreasing.

-- One row: the newest position and the newest time given out. Every transaction that
-- writes records updates it, so there is room for its old versions on its page.
CREATE TABLE {schema}.log (
	position bigint NOT NULL DEFAULT 0,
	clock    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO {schema}.log DEFAULT VALUES;

-- A number is never given to another space, so what a dropped one leaves behind can
-- never show up in its successor of the same name.
CREATE TABLE {schema}.space (
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
CREATE TABLE {schema}.total (
	space   integer PRIMARY KEY,
	keys    bigint NOT NULL DEFAULT 0,
	records bigint NOT NULL DEFAULT 0,
	bytes   bigint NOT NULL DEFAULT 0,
	last    bigint NOT NULL DEFAULT 0, -- position of the newest record ever written
	updated bigint NOT NULL DEFAULT 0,
	floor   bigint NOT NULL DEFAULT 0  -- keys that are new begin above this version
) WITH (fillfactor = 25);

-- One row for each key that holds records or whose version must be remembered.
-- Bytes of the key beyond {name_max} do not fit into an index: they stand in rest,
-- and their SHA-256 in mark takes part in the index instead. By (name, rest) keys
-- are in the order of their bytes.
CREATE TABLE {schema}.key (
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
CREATE UNIQUE INDEX key_name ON {schema}.key (space, name, mark);
CREATE INDEX key_ghost ON {schema}.key (space, time) WHERE held = 0;

CREATE TABLE {schema}.record (
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
ALTER TABLE {schema}.record ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX record_feed ON {schema}.record (space, position);
CREATE INDEX record_expires ON {schema}.record (expires) WHERE expires IS NOT NULL;
CREATE INDEX record_tomb ON {schema}.record (space, time) WHERE tomb <> 0;

-- Receipts of batches with an ID.
CREATE TABLE {schema}.batch (
	id       bytea PRIMARY KEY,
	stored   bigint NOT NULL,
	first    bigint NOT NULL,
	last     bigint NOT NULL,
	time     bigint NOT NULL,
	versions bigint[] NOT NULL
);
CREATE INDEX batch_stored ON {schema}.batch (stored);

-- Dropped spaces whose keys and records have not been swept up yet.
CREATE TABLE {schema}.gone (space integer PRIMARY KEY);
