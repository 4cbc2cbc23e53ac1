// Package logcopy copies a whole log into another, whatever their engines are.
//
// A [Copy] is one run of it. It knows the contract only, so every engine can be
// the source and every engine the target:
//
//	c, err := logcopy.New(from, to, nil)
//	report, err := c.Run(ctx)
//
// # What is copied
//
// Every space with its policy and every record that is still held: key, value,
// headers, version, count, kind of tombstone, time and expiry, in the order of the
// log. Positions change; versions and order do not. Versions that no record holds any
// more are passed over with a record that is removed in the same batch.
//
// A source that can give a snapshot is copied from one. A copy of a log that goes on
// is brought up to date by another run, which copies what is new and then
// repairs what was edited in place: rewritten, removed, truncated, forgotten or
// purged records, dropped spaces, altered policies. So a log is moved by copying it
// while it is written, stopping the writers, and running the copy once more.
//
// # Guarantees
//
// Where a run stands is kept in the target, in the space [Space], and written in the
// same batches as the records. A run that was killed anywhere is gone on with
// by the next; nothing is doubled and nothing left out. Another source, or a target
// that holds anything else, is refused before anything is written. What Run reports
// done is on stable storage. Every batch has the condition that nobody else copies.
//
// Run ends by comparing both sides: all records in the order of the feed, all keys
// of all spaces in their order, and the policies. What differs and cannot be repaired is in
// the report.
//
// # What cannot be carried over
//
//   - A tombstone of an expired record becomes that of a delete: no operation
//     writes the former.
//   - A record that expires while the copy runs is put at the end of the target, with
//     a later time, if it is still live then.
//   - What a record has left to live, if the clocks of the two logs differ: it expires at the
//     same moment, each by its own clock. Run refuses clocks that differ by more than
//     [MaxApart].
//   - A key without any record has versions that go on, but is in no list of keys.
//     [Options.Keys] names those that matter.
//   - In a space without feed, a key whose newest record was removed while older ones
//     are held is in no list either; the report counts such keys.
//
// # Concurrency and ownership
//
// A Copy is used once, by one goroutine. It owns neither log.
//
// # Limits
//
// Memory does not grow with the logs: it is bounded by one batch, [Options.QuietBytes]
// for spaces without feed, and the versions of the keys written last. Lists of what
// differed keep their first [MaxDifferences] entries.
//
// A space that was dropped and made again since the last run is known by the time at which
// it was created. If that is the same, as while a clock that was set back stands still for the
// log, its records are compared with those of the space before: Run repairs them, or fails
// with Corrupt. A copy into a new target has all of them.
//
// # Testing
//
// Random logs are copied, interrupted at every commit and gone on with, edited and
// copied again, and compared record by record with the source.
//
//snippet:var from, to mainstem.Log
package logcopy
