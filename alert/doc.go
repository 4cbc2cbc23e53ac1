// Package alert is an ObjectServer on a log: tables of alerts with the schema,
// the SQL and the automations of IBM Netcool/OMNIbus, each row a record of the log.
//
// # Words
//
// A [Server] is the alert tables of one log. A [Session] is a user's connection
// to it; statements are in ObjectServer SQL (see package osql). [Rows] is a result
// that is read row by row, a [Row] has its values by the names of columns. An
// [Automation] is what happens by itself: to a row that is being written, or in
// an interval. A [Change] is one change of a row, as followers see it.
//
//	server, err := alert.Open(ctx, log, nil)
//	server.Exec(ctx, "insert into alerts.status (Identifier, Node, Severity) values (?, ?, ?)", id, host, 5)
//	rows, err := server.Query(ctx, "select Serial, Node, Tally from alerts.status where Severity = 5")
//	for row, err := range rows.All() { fmt.Println(row.Int("Serial"), row.Text("Node")) }
//
// # In the log, and in memory
//
// A table is a space, "alert/<database>.<table>", with "#" and its ID if a statement made it.
// The space keeps the newest record of each key; the key is the primary key, the record one row. [CatalogSpace] holds
// the tables, as JSON, the serials given out, and which automations are enabled.
// Opening a server reads all rows into a SQLite database in memory, which answers
// all queries; docs/alerts.md has the format and the figures.
//
// # Writing
//
// All writes go through one goroutine. It takes the statements that are waiting, computes
// their rows one after the other from the database in memory, and commits them as one batch,
// on the condition that nobody else has changed them. If somebody has, it catches up and
// computes them again. So statements of many callers share one commit, and a row is never
// lost between two servers on one log. The database in memory is a projection of the log: the
// same goroutine brings into it what is committed, by this server or by another.
// [Server.InsertTo] puts a row into a batch of the caller instead.
//
// An INSERT whose primary key is there is a reinsert: the triggers of the table
// say what becomes of the row, and UPDATING names columns that take the new values
// whatever they say. Without an enabled trigger, and without UPDATING, it is Exists.
//
// # Standard automations
//
//	new_row              Tally 1, ServerName, ServerSerial = Serial if 0, StateChange and InternalLast now,
//	                     LastOccurrence now if 0, FirstOccurrence = LastOccurrence if 0;
//	                     a gateway's rows keep Tally and ServerName
//	deduplication        Tally + 1, StateChange and InternalLast now; LastOccurrence, Summary, AlertKey and
//	                     ProbeSubSecondId of the new row; Severity only if it was 0 and becomes more.
//	                     What a probe sends late or twice is left out (Affected 0)
//	deduplicate_details  details that come again are left out
//	state_change         an UPDATE of alerts.status sets StateChange
//	generic_clear        every 5 s: a resolution (Type 2) clears older problems (Type 1) with the same Node,
//	                     AlertKey, AlertGroup and Manager, and itself
//	expire               every 60 s: clears what is older than its ExpireTime
//	delete_clears        every 60 s: deletes what was cleared 120 s ago
//	clean_details_table, clean_journal_table    every 60 s: deletes what belongs to no alert
//	statistics_gather    every 5 min: writes master.stats, keeps an hour of it
//
// [Server.Automations] and catalog.triggers show them, [Server.Enable] and ALTER
// TRIGGER switch them, [Options.Automations] replaces them and adds others.
//
// # Values
//
// There is no null: a column that was not given is "" or 0. Texts that are too
// long for their column are cut, between characters; numbers out of range, and
// reals that are no number (NaN), are Invalid. Times are seconds since 1970. A text where a
// number is wanted, and a number where a text is wanted, is converted if it can be; a text of a
// column or a function that is compared with a number is Invalid. to_char, to_time and the parts
// of times are in UTC.
//
// # Guarantees
//
//   - A statement is atomic, up to [Options.BatchRows] rows and 32 MiB. When Exec returns, what
//     it did is durable as [Options.Durability] asks, and every later query shows it.
//   - A query shows one moment: whole commits, none in part.
//   - Serials are given once, also by several servers on one log. After a restart
//     every row, with its Serial and Tally, is as it was; serials go on behind those
//     given before, after a crash with a gap of at most 1,024.
//   - Adding or dropping a column rewrites no row.
//
// # Errors
//
// All are [*mainstem.Error]: those of package osql, Invalid for values that do not
// fit, Exists, Denied for what a session or a table does not allow, Unavailable for
// a result that was read too slowly, and whatever the log reports.
//
// # Concurrency and ownership
//
// Everything may be used from many goroutines, but for Rows and Row. Queries take
// turns for each row that they look for, and run while batches are on their way to the log,
// but not while their rows are brought into memory, tens of microseconds for a row: a
// query that walks a large table without an index delays that, and other queries. [Session.Together] holds
// queries back while it computes its changes. A server owns three goroutines, a session none.
//
// # Limits
//
// [MaxTables], [MaxColumns], [MaxPattern], [MaxPatterns], those of package osql, and memory: about
// 0.7 KB for a row of alerts.status.
//
// # Testing
//
// The tests run on every engine that the machine can start; a random program of
// inserts, updates, clears and restarts is compared with a model in Go.
//
//snippet:var id, host string
package alert
