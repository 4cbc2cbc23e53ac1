// Package osql reads ObjectServer SQL, the language of IBM's alert database, and
// translates it to SQL of SQLite.
//
// # Words
//
// A text holds statements, separated by ";" or by lines with "go". [Split] cuts
// it up and takes out the literals, so that all statements of a program that
// differ only in their values have the same [Statement.Key]. [Translate] turns one
// into a [Plan] for the tables of a [Catalog]: it is a pure function, and the plan
// serves all statements with that key until a table changes.
//
//	statements, err := osql.Split("select Node from alerts.status where Severity > 3", nil)
//	plan, err := osql.Translate(&statements[0], catalog, "")
//
// # The language
//
// SELECT with TOP, DISTINCT, aggregates, WHERE, GROUP BY, HAVING, ORDER BY and
// subselects; INSERT with UPDATING; UPDATE and DELETE with VIA; DESCRIBE; CREATE and
// DROP of databases, tables and indexes; ALTER TABLE and ALTER TRIGGER; USE; SVC
// UPDATE. Conditions compare with = == <> != < <= > >=, with a % before them without
// regard to case, with IN, BETWEEN, LIKE, and with ANY and ALL of lists. LIKE takes a
// regular expression that may match anywhere in the text. + joins texts. Blanks may
// stand around dots, quotes inside of texts are doubled, texts may stand in single or
// double quotes, times are numbers of seconds. Keywords and functions may be
// written in any case; names of tables and columns may not.
//
// Extensions: INSERT takes several rows, "?" stands for an argument of the caller.
//
// # Guarantees
//
// Names and values of the text never become part of the translated SQL: tables and
// columns are called by their numbers, literals become parameters. No text, however
// long or wrong, makes the package panic or recurse without bound.
//
// # Errors
//
// All are [*mainstem.Error]: Invalid with the place for what is no SQL, and for a text that
// is compared with a number and is neither a literal nor made a number, NotFound for tables and
// columns, Unsupported, naming it, for what only IBM's server can do.
//
// # Concurrency and ownership
//
// The package has no state. Statements and plans are read-only and may be shared.
//
// # Limits
//
// [MaxText], [MaxTokens], [MaxDepth], [MaxName], [MaxVarchar].
//
// # Testing
//
// Translations are compared with golden files, and a fuzz test feeds whatever
// translates to SQLite, which has to accept it.
//
//snippet:var catalog osql.Catalog
package osql
