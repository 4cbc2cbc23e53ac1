// Package kafkatopic shows tables of alerts as topics that Kafka's consumers can read.
//
// # Words
//
// A [Catalog] is all alert topics of a log. A [Topic] is one: alert.<table> shows the
// changes of a table of the database alerts, as alert.status those of alerts.status;
// alert.<database>.<table> those of a table of another one. It has one partition.
//
//	topics := kafkatopic.Open(log, nil)
//	defer topics.Close()
//	t, err := topics.Topic(ctx, "alert.status")
//	chunk, err := t.Read(ctx, 0, 0, nil)
//
// # A record
//
//	key        the primary key: of alerts.status the Identifier; several columns are joined by ":"
//	value      the row after the change, a JSON object with all columns in their order, texts
//	           and numbers; null if the row was deleted
//	timestamp  when the change was committed
//	offset     its position in the log, so offsets rise but have gaps
//	headers    see [HeaderTable] and its neighbours
//
// A real that JSON has no number for is null.
//
// # Guarantees
//
// The space of a table keeps the newest record of each key, so a topic is what Kafka
// calls compacted: who reads from the start gets every row as it is now, and every
// deletion that the space still knows (a day of them, unless its policy says otherwise);
// who follows gets every change that was not superseded before it was read. A key's last
// record is always there, at its offset. Otherwise the guarantees are those of package
// feedtopic.
//
// Rows are shown with the columns that the table has when they are read. A table that is
// dropped and created anew is another topic of the same name, with another ID.
//
// # Concurrency and ownership
//
// Everything may be called from many goroutines. A catalog owns one goroutine for each
// table that somebody waits for, and none otherwise. Close it before the log. It
// never writes, and needs no server of the tables.
//
// # Limits
//
// Those of package feedtopic, and of package alert for tables and rows.
//
// # Testing
//
// With servers of alerts on every engine that the machine can start.
package kafkatopic
