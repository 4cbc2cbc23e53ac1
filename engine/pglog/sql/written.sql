-- Of a key whose newest record was removed, written is that record's position, or, if that
-- was before this format, a later one. While position is not null, it means nothing.
ALTER TABLE {schema}.key ADD COLUMN written bigint;
-- No key of which no row is left was written after traces.
ALTER TABLE {schema}.total ADD COLUMN traces bigint NOT NULL DEFAULT 0;
UPDATE {schema}.key k SET written = t.last FROM {schema}.total t WHERE t.space = k.space AND k.position IS NULL;
UPDATE {schema}.total SET traces = last WHERE floor > 0;
