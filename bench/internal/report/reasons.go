package report

// The cases of a map in memory, and of a bare engine, lose the same things again and again.
const (
	mapKeeps    = "The map keeps Go values. "
	journalToo  = "Each commit is also encoded for the journal and for the feed, and has a position in the order of all of them."
	bareKeys    = "The peer keeps keys and values only. " + journalToo
	decodes     = "An event is decoded from the bytes of its commit, and its data is copied for the caller. "
	pagesMapped = "The peer's file is mapped into memory and its keys are side by side; ours are merged from memory and sorted files, "
)

// reasons are in order: the first one that speaks of a verdict is shown.
var reasons = []reason{
	{"kv/get-large", "", "", "A value is in a compressed block of a sorted file, which is decompressed and whose checksum is verified; then it is copied for the caller."},
	{"kv/delete-large", "", "", "A value of a megabyte is written to the journal, and again to a sorted file; the peer writes its pages once."},
	{"kv/get", "", "", "A get looks into two tiers, decodes a record with a revision, a time and headers, and copies the value for the caller."},
	{"kv/list", "", "", pagesMapped + "and each is decoded to see whether it is deleted or expired."},
	{"kv/page", "", "", pagesMapped + "and each is decoded to see whether it is deleted or expired, those that the page passes over too."},
	{"kv/watch", "", "", "A watcher reads the feed of the log after each commit, so that it can resume at a position and never misses one; the peer is handed the write itself."},
	{"kv", "", "pebble", bareKeys},
	{"kv", "", "bbolt", bareKeys},

	{"event/append", "", "map", mapKeeps + journalToo},
	{"event/load", "", "map", mapKeeps + "Its events share their names with what it keeps. " + decodes},
	{"event/load", "", "", decodes + "The peers hand out an event in fewer fields: no time, no identifier of its own."},
	{"event/mixed", "", "map", mapKeeps + journalToo},
	{"event/info", "", "", "The peer keeps the versions of all streams in a map; ours asks the key in memory for both of its ends."},
	{"event/contention/exact", "fsync", "", "A version is shown when its event is on disk, so each append waits for the sync of the one before; the peer shows what a power cut may take back."},
	{"event/contention", "", "map", mapKeeps + journalToo},
	{"event/feed", "", "map", mapKeeps + decodes},
	{"event/cold", "", "", "A block is larger, compressed, and verified by a checksum before anything of it is read; the records of a stream lie in more than one level of files."},
	{"event/recovery", "", "bbolt", "The peer has no log of what it did: opening maps the file. Ours verifies the journal, and applies what was only in memory."},
	{"event/recovery", "", "", "The journal is verified to its last byte, which the peer does not do, and its commits are applied."},
	{"event/disk", "", "", "The feed of a space is a copy of its records, in order of positions."},

	{"domain/command", "", "map", mapKeeps + "Its bus is a call of a function; ours makes a batch and a context for a command, and commits all that it does at once."},
	{"domain", "", "map", mapKeeps + decodes},

	{"stream/protocol", "", "", "Lengths, counts and deltas of a batch are verified as the server does before records are handed out."},

	{"actor/ask/local", "", "", "An ask starts the goroutine of an idle actor; the peer's waits at its channel already."},
	{"actor/ping/network", "", "", "The peer writes bytes. A message is encoded, acknowledged, kept until then, and delivered to a mailbox once."},
	{"actor/ask/network", "", "", "An ask is two actors to start and a goroutine to wake, on the way of the peer's write and read."},
	{"actor/publish/network", "", "", "The peer writes the same bytes to connections; a message is encoded, acknowledged and delivered to mailboxes."},
	{"codec", "", "", "Fields have numbers and lengths, so that another version can read them, and maps are decoded in any order of keys."},
}
