// Package omnibus serves alert tables over the HTTP interface of IBM
// Netcool/OMNIbus, so that its clients work unchanged, and adds what that lacks.
//
// # Words
//
// A [Handler] serves one [alert.Server]; below [Prefix] a table is a collection, and
// a row has an address by its number in this server or by its key field. A
// [Role] says what a user may do, an [Authenticator] who a user is; [Users] is one
// that keeps salted hashes. A feed is a subscription to the changes of a table.
//
//	handler, err := omnibus.New(server, &omnibus.Options{Users: users})
//	http.Serve(listener, handler)
//
// Or from a shell:
//
//	curl -u root: http://localhost:8080/objectserver/restapi/alerts/status?filter=Severity%3E3
//
// Give the handler to an http.Server as it is: an http.ServeMux would redirect the
// doubled slashes that some clients send.
//
// # What is served
//
//	GET, POST, PATCH, DELETE  <database>/<table>                  rows: filter, collist, orderby
//	GET, PATCH, DELETE        <database>/<table>/<RowSerial>      one row
//	                          <database>/<table>/kf/<key field>   for alerts.status, <Serial>%3A<ServerName>
//	POST                      sql/factory                         {"sqlcmd": "select …"}
//	GET                       sysinfo                             the server
//
// Beyond IBM's server: POST takes many rows, which are one commit up to
// [alert.Options.BatchRows]; limit, and the cursor that a page ends with, read a
// table page by page; since gives the rows whose StateChange is not before a time,
// in that order; an ETag, which is free of charge, answers 304 as long as a table has
// not changed; a client that accepts text/event-stream gets the changes of a
// table as they are committed; bodies and large answers may be in gzip.
// docs/omnibus.md has the forms of all requests and answers. What could not be checked
// against IBM's server stands in unverified.go.
//
// # Feeds
//
// Events are "change" with the row, "delete" with its primary key, and "ready" where
// changes begin. Their ids are places in the log: a client that comes again with
// Last-Event-ID misses nothing that the log still holds, which is the newest state of
// each row, and deletions for [mainstem.DefaultTombstoneAge]. With since, rows come first,
// without ids; what changes meanwhile may come twice, and a client that breaks off before
// ready begins anew. A place before the table, since one of its name was dropped, is 410.
// A feed follows ALTER TABLE, and ends when its user is removed.
//
// # Guarantees
//
//   - A request is answered 2xx when what it did is durable as the server's options ask,
//     and every later query shows it.
//   - The texts of filter, collist, orderby and cursor never become more than a
//     condition, columns and an order of one statement. The roles that statements need are
//     checked before the first of them is run.
//   - An answer that could not be sent to its end breaks off: it is never shorter and
//     well-formed. Errors are JSON: {"exception": {"status": …, "code": …, "message": …}}.
//   - A request that writes and has a parameter that is not known is refused: a mistyped
//     filter does not change all rows.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. The handler owns one goroutine for
// each feed. Each [Identity] has one session of the server, which all its requests
// share; USE holds for the rest of its request. Close the handler before the
// http.Server is shut down, and before the [alert.Server].
//
// # Limits
//
// Those of [Options]. A large answer takes the memory of one buffer here, and of a
// result that is read slowly what [alert.Options.MaxResultBytes] and its Memory allow.
//
// # Testing
//
// Tests send requests, also those of known clients byte by byte, to the real handler
// on a real server; fuzz tests read everything that comes from outside.
// BenchmarkScenarios has a handler that answers with a fixed body beside it.
//
//snippet:var server *alert.Server
//snippet:var users *omnibus.Users
//snippet:var listener net.Listener
package omnibus
