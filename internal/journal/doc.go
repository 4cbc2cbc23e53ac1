// Package journal is an append-only log of frames in files that are written once with
// zeros and then used again and again, so that bringing a frame to stable storage takes
// one write and one fdatasync that changes no metadata.
//
// A frame is what one group of batches does to a log, as opaque bytes, with the positions
// that it has in the total order. A segment is a file of frames. A spare is a file that
// is ready to become a segment. A mark is the number in a frame that says how much of its
// segment was on stable storage when the frame was written. docs/format.md draws the
// bytes, and internal/format encodes them.
//
// # Guarantees
//
// Order: frames are read in the order in which Append took them.
//
// Atomicity: after a crash a frame is there wholly or not at all, and if it is there, so
// are all frames before it. What a crash takes away is an end.
//
// Durability: when [Journal.Append] returns, its frames survive a killed process, which
// is durability OS. When [Journal.Sync] returns, they survive a power cut, which is
// Fsync, and so do all before them, whatever durability those were written with.
// [Journal.Commit] does both as a durability says. A log in memory has no journal.
//
// Damage: [Open] is Corrupt if anything was changed that is known to have been on stable
// storage: any byte of a segment that is not the newest, and in the newest any byte below
// the highest mark. Damage behind the last mark looks like a write that a power cut tore,
// and cuts the journal there. Close writes a last mark, so that this concerns journals
// that were not closed.
//
// Errors: a failed write or sync stops the journal. What was in flight is unknown, what
// comes later is certainly not written, and reads go on. If no segment can be made,
// because the disk is full, nothing is written and the journal goes on by itself later.
//
// # How it works
//
// Append encodes its frames under a lock, with a checksum that continues that of the
// frame before, and writes them with one write. The first write to a page of 4 KiB writes
// the whole of it: otherwise the operating system would have to read a page of a recycled
// file before it can change a part of it.
//
// Sync finds that somebody has synced already, or syncs itself for all that wait, or
// waits for the one that does: see [syncs]. There is no thread to hand over to.
//
// When a segment is full it is synced, and a spare becomes the next: its header says
// where the one before ends and what the checksum there is, it is synced, renamed, and
// the directory is synced; only then a frame goes there. So the header is the durable
// record of the length of the segment before, and nothing else has to be written to close
// one; see beginSegment. Nothing is ever appended to a segment of an earlier process: what
// recovery found is its end, and the next Append begins a new segment.
//
// The first segment of a process is small and each has four times the size of the one
// before, up to 64 MiB. A goroutine writes zeros to a spare when the newest segment is a
// quarter full, and another syncs after every 8 MiB that nobody has asked to be synced,
// so that neither is waited for when a segment is full.
//
// [Journal.TruncateFront] turns segments that are no longer needed into spares. The old
// frames in such a file can never be taken for new ones: the checksums of a segment's
// frames begin with a seed made of its number, and the same bytes under two seeds never
// have the same checksum.
//
// Invariants, which the tests check by cutting the power before every file operation:
//
//   - Durable() ≤ Written(), and neither decreases.
//   - The name of a segment is durable, and so is its header, before it has a frame.
//   - A segment is wholly on stable storage before the header of the next is written.
//   - No position is given twice, and no frame is below its segment's header's.
//   - After the first failed write or sync, no file of the journal is written to.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. Append copies what it is given. The
// Effects of a frame that was read are valid until the next one is read. Two goroutines
// belong to an open journal; Close ends them and waits. The caller keeps other processes
// away from the directory.
//
// Methods take no context: they wait for the disk, and a write to a disk cannot be
// called back.
//
// # Limits
//
// A segment has at most 1 GiB, and so has what is appended at once. If the newest file is
// lost as a whole, or loses its end exactly between two frames behind the last mark,
// nothing in the journal tells, unless its caller has frames that it lost (see
// [Options.From]). Positions may have gaps; whether one is wrong is for the caller to
// know.
//
// # Testing
//
//	go test ./internal/journal                                  # power cuts, faults, damage
//	go test ./internal/journal -run PowerCut -journal.every=1   # before every file operation
//	go test ./internal/journal -fuzz FuzzOpen
//	go test ./internal/journal -run NONE -bench .               # beside a bare file
package journal
