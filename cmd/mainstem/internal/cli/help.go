package cli

import "github.com/spf13/cobra"

// outputHelp explains what commands print: the part of the interface that
// scripts depend on. A test holds it against the fields that the code writes.
func outputHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "output",
		Short: "What commands print, with and without --json",
		Long:  outputText,
	}
}

// outputText lists everything that scripts may rely on.
const outputText = `Results go to standard output, everything else to standard error.

Without --json, lists are lines with columns separated by tabs; some are columns below
a head if standard output is a terminal. A key or value that
would break the line or the terminal is quoted as in Go; kv get and topic consume
print values as they are.

With --json, every line is one object. Fields are added in later versions, never
renamed or removed. Fields that have nothing to say may be missing.

Bytes (key, value, data) are an object or array of JSON as it is, or else a string;
if they are not UTF-8, the field is called key_base64, value_base64 or data_base64
instead. A null value is null. Times are RFC 3339 in UTC, sizes are in bytes.

Metadata that is not UTF-8 is in base64, too: in correlation_id_base64,
causation_id_base64, user_id_base64 and tenant_id_base64, and the entries of metadata in
metadata_base64, which stands beside metadata.

  kv get, list, watch, history
    bucket, key, revision, position, op, time, expires, metadata, value
    op is create, update, delete, purge or expire; a watch also has the marker
    synced, with bucket and position only
  kv put         bucket, key, revision, position, time
  kv delete      bucket, key, deleted; with --purge as kv purge
  kv increment   as kv get
  kv purge       bucket, key, revisions, bytes, deleted
  kv drop        bucket, keys, records, bytes, indexes, deleted
  kv tables      bucket, keys, records, bytes, last, created, updated, history,
    max_age_seconds, max_bytes, no_feed, codec
  kv list --count   bucket, keys
  kv index list  bucket, index, state, unique, field, version, space, done, total
  kv index drop  bucket, index, deleted
  kv index check   for each problem index, key, problem; then ok, problems, values,
    entries
  event load, feed
    store, stream, version, position, time, type, id, content_type, correlation_id,
    causation_id, user_id, tenant_id, metadata, tags, data
  event query    as load
  event export   as load; data is the exact bytes; then, on standard error or, to a FILE, on
    standard output: store, events, bytes, position, seconds
  event delete, tombstone, forget
    store, stream, version, events, and deleted, tombstoned or forgotten
  event truncate   store, stream, before, events, truncated
  event archive, unarchive   store, stream, archived
  event settings   store, stream, max_count, max_age_seconds, custom
  event scavenge   store, streams, events, entries, seconds
  event subscription list, lag
    store, subscription, kind, position, lag, parked, updated, owner, claimed, waiting,
    consumers, strategy, stopped
  event subscription reset   store, subscription, kind, from, position, events, reset
  event subscription parked, skip
    store, subscription, position, stream, version, attempts, reason, time, skipped
  event subscription skip --parked   store, subscription, events, dropped
  event subscription retry   store, subscription, retried, more
  event query --plan   store, query, plan
  event append   store, stream, version, position, time, duplicate
  event streams  store, stream, version, position, updated, archived, deleted
  event streams --count   store, streams
  event info STREAM
    store, stream, version, first, events, position, created, updated, deleted, seal
  event info     store, streams, events, bytes, position, created, updated
  projection list   store, projection, version, state, position, lag, behind, parked,
    partitions, building; of a replay replay_into, replay_position, replay_until,
    replay_error
  projection status   what list has, then for each partition
    subscription, position, owner, error
  projection pause, resume, rebuild, replay   store, projection, and paused, resumed,
    rebuilt, replayed, cancelled or requested; without --yes: would, done
  projection skip   subscription, position, stream, version, attempts, error, skipped
  saga status, pause, resume   store, type, paused, running, paused_since,
    statuses (how many have which), position, lag, parked, commands, timeouts,
    waiting_since
  saga list, retry
    store, saga, type, key, status, error, refused, ignored, created, updated
  saga show      as list, with state, timeouts, compensations (type, data, done, error);
    then for each step of the history: saga, version, time, step, status, event_type,
    stream, event_version, timeout, command, command_type, error, sent (id, type)
  saga remove, prune   as list, with removed
  audit find     trail, id, time, command_type, success, error, command_id, aggregate_id,
    version, actor, tenant_id, correlation_id, causation_id, duration_ms, metadata
  audit find --count   trail, rows
  generate       file, package, name
  topic create, list   topic, id, partitions, config, created
  topic describe   a line with topic, id, partitions, config, then for each partition
    topic, partition, start, end, bytes
  topic alter    of each configuration that changes: topic, name, old, new
  topic partitions   topic, partition, start, end, bytes
  topic offsets  topic, partition, earliest, latest; with --at: offset, time
  topic delete-records   topic, offsets, partitions (partition, old_start, start, end)
  topic produce  topic, partition, offset
  topic consume  topic, partition, offset, time, key, headers (name, value), value
  topic delete   topic, partitions, offsets, bytes, deleted
  lease list     of a member: bucket, member, epoch, renewed, ttl_seconds, address; of a
    lease: bucket, lease, node, epoch, session, renewed, value
  kafka user set, list   user, mechanisms
  kafka user delete   user, deleted
  kafka group list   group, type, state, protocol_type, epoch, members
  kafka group describe   a line as list has it, with protocol; then for each member: group,
    member, instance, client, host, epoch, assigned (topic, partitions); then for each
    partition: group, topic, partition, offset, end, lag, member
  kafka group lag   group, topic, partitions, lag
  kafka group reset   group, topic, partition, old, new, clamped; dry_run without --execute
  kafka group delete   group, partitions, deleted
  clock          now, held_seconds, times_ahead_seconds, jumps, set_backs
  compact        compacted, seconds
  actor ca       node, directory, authority
  actor nodes    name, start, address, state, since, reason, self, actors, dead_letters
  actor tree, inspect   address, number, depth, names, parent, behaviour, messages, state,
    waiting, handled, incarnation, links, monitors, children, reason, shown
  alerts sql     the columns of the row; of a statement without rows: affected
    from a coordinator also cluster; what failed, on standard error: cluster, error
  alerts describe   DatabaseName, TableName, NumRows; of a TABLE: ColumnName, Type, Size,
    Key
  alerts insert  cluster, table, serial, key, affected, inserted, position
  alerts import  lines, written, dropped, bad, seconds, next_line
    bad lines, on standard error: file, line, error
  alerts ack     cluster, affected
  alerts user set, list   user, role, kind
  alerts user delete   user, deleted
  alerts tail, watch   cluster, position, time, op, table, row
    op is change, delete or leave; row has the columns, of a deleted one only the key
  alerts coordinator   when it is ready: event, url, clusters, pid
  alerts coordinator --check   cluster, servers
  kv import, event import
    lines, written, already_there, bad, seconds, next_line
    bad lines, on standard error: line, error
  kv list, event streams with --limit   a last line with cursor, if there is more
  stats          space, keys, records, bytes, last, created, updated, history,
    max_age_seconds, max_bytes, no_feed; the last line: total, spaces, keys, records,
    bytes, head; before it, if the clock is wrong, what clock has
  check          problems: where, problem; the last line: ok, problems, spaces, keys,
    records, bytes, seconds; before it, if the clock is wrong, what clock has
  backup         to, bytes, seconds
  restore        to, spaces, records, head, seconds
  copy           what differs: space, key, version, difference; the last line: complete,
    resumed, spaces, records, bytes, repaired, dropped, position, head, compared_spaces,
    compared_keys, compared_records, compared_bytes, differences, expiry_tombstones,
    late, later, hidden, moving, seconds
  serve          when it is ready: event, url, log, pid; the addresses kafka, omnibus, syslog,
    webhook
  version        version, go, commit, time, modified
  with --dry-run   what the command without it has, and dry_run; nothing was changed
  errors, on standard error
    error, kind, exit_status, space, key, outcome, hint, got_version
    kind is internal, not found, exists, conflict, invalid, denied, canceled, closed,
    corrupt, unavailable, unsupported or usage

The exit status is 0 for success, 1 for failure, 2 for a wrong command line or
configuration, 3 for not found, 4 for a conflict or what exists already, 130 when
interrupted and 141 when nobody reads the output any more. What follows (--follow, kv
watch, serve) ends with 0 when interrupted. lease hold ends as its command does.`
