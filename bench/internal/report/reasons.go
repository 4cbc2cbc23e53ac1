package report

// The cases of a map in memory, and of a bare engine, lose the same things again and again.
const (
	mapKeeps   = "The map keeps Go values. "
	journalToo = "Each commit is also encoded for the journal and for the feed, and has a position in the order of all of them."
	bareKeys   = "The peer keeps keys and values only. " + journalToo
	decodes    = "An event is decoded from the bytes of its commit, and its data is copied for the caller."
	merged     = "Keys are merged from memory and sorted files, and each record is decoded to see whether it is deleted or expired"
	mapped     = "The peer's file is mapped into memory, its keys side by side. "
	tables     = "The peer is code generated for the message; ours follows a table of the type's fields, made once."
)

// reasons are in order: the first one that covers a verdict is shown. They say what one side does
// and the other does not; a profile is behind few of them.
var reasons = []reason{
	{"kv/get-large", "", "", "A value is copied into new memory for the caller, as the peer's is. The garbage collector then runs the more often the less a process keeps: with GOGC=800 the medians are the same."},
	{"kv/delete-large", "", "", "A value of a megabyte is written to the journal, and again to a sorted file."},
	{"kv/get", "", "", "A get looks into two tiers, decodes a record with a revision, a time and headers, and copies the value for the caller."},
	{"kv/list", "", "bbolt", mapped + merged + "."},
	{"kv/list", "", "pebble", merged + "; the peer's keys hold nothing else."},
	{"kv/page", "", "bbolt", mapped + merged + ", those before the page too."},
	{"kv/page", "", "pebble", merged + ", those before the page too; the peer's keys hold nothing else."},
	{"kv/watch", "", "badger", "A watcher reads the feed of the log after each commit, so that it can resume at a position and misses nothing; the peer is handed the write itself."},
	{"kv", "", "pebble", bareKeys},

	{"event/append", "", "map", mapKeeps + journalToo},
	{"event/load", "", "map", mapKeeps + "Its events share their names with what it keeps. " + decodes},
	{"event/load", "", "", decodes + " It has an ID, a time and headers too, which the peer does not keep."},
	{"event/mixed", "", "map", mapKeeps + journalToo},
	{"event/info/stream", "", "", "The peer keeps the versions of all streams in a map; ours asks the log in memory for both ends of the stream, and whether it is sealed."},
	{"event/info/last-position", "", "", "The peer reads a field under a lock; ours finds the space by its name first."},
	{"event/contention/exact", "fsync", "", "A version is shown when its event is on disk, so each append waits for the sync of the one before; the peer shows what a power cut may take back."},
	{"event/contention", "", "map", mapKeeps + journalToo},
	{"event/feed", "", "map", mapKeeps + decodes},
	{"event/cold", "", "", "A stream is in two or three blocks of a sorted file, after the index of the file and a block of that index; nothing is in the page cache."},
	{"event/recovery", "", "bbolt", "The peer has no log of what it did: opening maps the file. Ours verifies the journal, and applies what was only in memory."},
	{"event/disk", "", "", "The feed of a space is a copy of its records, in order of positions."},

	{"domain/command", "", "map", mapKeeps + "Its bus is a call of a function; ours makes a batch and a context for a command, and commits all that it does at once."},
	{"domain/aggregate/save", "", "map", mapKeeps + journalToo},
	{"domain/aggregate/load", "", "map", mapKeeps + decodes},
	{"domain/aggregate/snapshot", "", "map", mapKeeps + "A snapshot is read from its table, then the events after it from their stream, each with its own look into the log."},
	{"domain/aggregate/life-cycle", "", "map", mapKeeps + "It is two saves and a load: see there."},

	{"stream/protocol/encode-produce-1", "", "", "Not looked into: it is a few percent."},
	{"stream/protocol", "", "", "Lengths, counts and deltas of a batch are verified as the server does before records are handed out."},

	{"actor/ask/local", "", "", "An ask starts the goroutine of an idle actor; the peer's waits at its channel already."},
	{"actor/ping/network", "", "", "The peer writes bytes. A message is encoded, acknowledged, kept until then, and delivered to a mailbox once."},
	{"actor/ask/network", "", "", "An ask is two actors to start and a goroutine to wake, on the way of the peer's write and read."},
	{"actor/publish/network", "", "", "The peer writes the same bytes to connections; a message is encoded, acknowledged and delivered to mailboxes."},
	{"codec", "", "vtprotobuf", tables},
}
