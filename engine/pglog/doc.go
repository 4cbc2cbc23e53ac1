// Package pglog is a log in a PostgreSQL database, version 14 or newer, which any number
// of processes share.
//
//	log, err := pglog.Open(ctx, "postgres://app@db.example/app", nil)
//	if err != nil { ... }
//	defer log.Close()
//	users, err := kv.Open[User](log, "app/users", nil)
//
// # Words
//
// A log lives in one schema, "mainstem" unless [Options] say otherwise. [Open] makes its
// tables and functions, and brings those of an older version to the newest format. The
// engine calls functions in the database; a commit of any size is one round trip. Puts to
// one key, what most commits are, have a function of their own; what it declines (a condition
// does not hold, another process has dropped the space) takes a second.
//
// # Guarantees
//
// It obeys all eight laws of package mainstem and offers every optional feature but
// Backup, which is pg_dump's business.
//
//   - Atomic: a group of batches is one transaction. Batches that wait in a process at
//     the same time share it, and its fsync; each keeps its own conditions and outcome.
//   - Ordered: positions are given under a lock that is held until the transaction has
//     ended. So positions are in the order of commits, over all processes, and a reader that
//     sees a record, on the primary or on a standby, sees everything before it.
//   - Durable: Fsync is the session's synchronous_commit, at least "local", and at least
//     "on" where the server's default is "off". OS is "local": only what was flushed
//     survives a killed server process. Interval is "off" if it is at least three
//     wal_writer_delays, 600ms by default, else "local"; a crash of the server counts as a power
//     cut. Levels above "on" and synchronous standbys are for the server's configuration.
//   - Honest: an error of the server before the commit is NotWritten; a connection that
//     breaks while one is under way leaves the outcome Unknown. A batch with an ID is tried
//     again then, up to [Options.Retries] times, and written once.
//   - Live: a commit wakes the followers of its process at once, and those of others by
//     NOTIFY. It notifies only while somebody listens. A process listens from its first
//     follower on; if it loses that connection, its followers look every
//     [Options.PollEvery] until it is back. They survive a restart of the server.
//
// Expiry goes by the clock of the server, which every process watches by its own monotonic
// clock: docs/engines.md says what a wrong one can do, and file sql/clock.sql how.
//
// [Log.BatchInTx] makes a batch a part of a transaction of the program's own.
//
// # Looking at it with SQL
//
// For people, not for programs, there are the views records (everything that is held),
// buckets (the newest value of each key), events (the events of event stores) and spaces:
//
//	SELECT stream, version, type, data FROM mainstem.events WHERE store = 'orders' ORDER BY position;
//	SELECT key, value FROM mainstem.buckets WHERE space = 'kv/app/users';
//	SELECT name, keys, bytes FROM mainstem.spaces;
//
// Bytes that are no text show up in hexadecimal. Writing to the tables by hand breaks
// what [Log.Check] checks.
//
// # Concurrency and ownership
//
// A Log may be used from many goroutines. Records of one space are in no table of their
// own: spaces are many and small as often as few and large, and making a table takes
// longer than a commit. A loop over Scan that needs more than one page, and a snapshot,
// hold a connection each, [Options.HeldConns] at once; other loops hold none while their body
// runs. A loop body may call any method of the log except Close.
//
// The connections must be sessions: a pooler in between, like PgBouncer, must not share
// them by transaction.
//
// # Limits
//
// See [Options] and [mainstem.Limits]. Commits of all processes wait for each other, one
// fsync after the other: what a process gathers meanwhile goes with its next. A long
// transaction on the server, snapshots included, keeps PostgreSQL from removing old
// versions of rows and slows commits down. BatchInTx holds up all commits until its
// transaction ends.
//
// # Testing
//
// The tests run on real servers; see package internal/testpostgres. The clock is the
// server's unless [Options.Now] is set.
//
//snippet:type User struct{ Name string }
package pglog
