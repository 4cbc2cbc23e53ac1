// Package rows reads JSON Lines and CSV as rows with named fields, and fills Go
// templates from them: the input side of every import of the command line.
//
// # Words
//
// A [Reader] splits its input into rows. A [Row] has the number of the line it
// began on, its fields by name, and its text as a JSON document. A [LineError] is
// a line that is no row: the reader goes on behind it. A [Template] makes one text,
// such as a key, out of a row.
//
// # Guarantees
//
// Rows come in the order of the input, and every line of the input is a row, part
// of a row, blank, the CSV header, or named in a LineError. Numbers keep the text
// they were written with. A bad line costs itself, never its neighbours: a quote
// that is opened in CSV and never closed makes one line bad, not the rest of the
// file.
//
// # Concurrency and ownership
//
// A Reader belongs to one goroutine. The rows it returns belong to the caller. A
// Template may be used by many goroutines.
//
// # Limits
//
// No line, and no CSV row of several lines, is held that is longer than
// [Options.MaxLine]; memory does not grow with the input.
//
// # Testing
//
// The package's fuzz tests hold both readers against encoding/json and
// encoding/csv.
package rows
