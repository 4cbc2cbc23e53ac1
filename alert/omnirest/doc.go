// Package omnirest is a client of the HTTP interface of object servers: IBM's
// Netcool/OMNIbus and Mainstem's, which has the same.
//
// # Words
//
// A [Client] is for one server and one user. [Client.SQL] runs a statement. A table is
// a collection: [Client.Get], [Client.Insert], [Client.Update] and [Client.Delete] work on
// the rows that a [Where] selects. A [Row] is a row as the server sent it. [Client.Changes]
// follows what happens to the rows of a table.
//
//	c, err := omnirest.New("http://127.0.0.1:8080", &omnirest.Options{User: "root", Password: secret})
//	res, err := c.SQL(ctx, "select Node, Severity from alerts.status where Severity > 3")
//	for _, row := range res.Rows { fmt.Println(row.Text("Node"), row.Int("Severity")) }
//
// # Guarantees
//
// Results are read as they come, and rows keep their bytes: nothing is decoded before it
// is asked for. [Client.EachSQL], [Client.Each] and [Client.Changes] hold one row at a time. Nothing is
// sent twice, but for what certainly was not sent.
//
// What IBM's server does not have is used only when the server is Mainstem:
// [Client.InsertMany] inserts all rows in one request then, and one by one otherwise.
//
// # Errors
//
// All are *mainstem.Error with the server's text: Denied for a wrong password or a
// missing right, NotFound, Exists, Invalid for what the server refuses, Unavailable for a
// server that cannot be reached or does not answer, Corrupt for an answer that makes no
// sense. Those of calls that write say what became of it: NotWritten, or Unknown if the
// answer was lost or there were several statements.
//
// # Concurrency and ownership
//
// A Client may be used by many goroutines. Rows of a [Result] belong to the caller,
// those given to a function only until it returns.
//
// # Limits
//
// [Options] bounds the bytes of a result and of a row, and the connections.
//
// # Testing
//
// The tests run against answers as IBM documents them, byte by byte, and against
// package omnibus.
//
//snippet:var secret string
package omnirest
