// Package report turns results into what people and programs read: tables for the
// terminal, Markdown, a page of HTML that needs nothing else, and the format of Go
// benchmarks, which benchstat reads.
//
// [Cases] writes the tables of the terminal, [Markdown] a document, [HTML] a page with
// its plots inlined, [GoBench] lines of benchmarks, and [Compare] what two files
// differ in.
//
// # Guarantees
//
// Every row that was asked for is shown: failed ones with the reason, loudly, skipped
// ones with theirs. Every row states its durability and its transport, and a verdict on
// two that are reached in different ways has a mark; servers are compared once more with
// servers of the same transport. What the noise hides is "no difference", never a
// percentage. The same file gives the same bytes.
//
// # Testing
//
// Golden files in testdata; go test -run Golden -rewrite writes them anew.
package report
