// Package journal is an append-only log of frames in files that are written once with zeros and
// then reused, so that one write and one fdatasync, which changes no metadata, bring a frame to
// stable storage.
//
// # Words
//
// A frame has the effects of one group of batches, as opaque bytes, and the positions of the group
// in the total order. A segment is a file of frames. A spare is a file that is ready to become a
// segment. A mark is a number in a frame: how many bytes of its segment were on stable storage when
// the frame was written. The example of the package appends, syncs and replays frames.
// docs/format.md draws the bytes, and internal/format encodes them.
//
// # Guarantees
//
// Order: frames are read in the order in which Append wrote them.
//
// Atomicity: after a crash a frame exists completely or not at all, and if it exists, so do all
// frames before it. So a crash can remove only the last frames.
//
// Durability: when [Journal.Append] returns, its frames survive a killed process (durability OS).
// When [Journal.Sync] returns, the frames up to its position survive a power cut (durability
// Fsync), whatever durability they were written with. [Journal.Commit] does both, as far as a
// durability asks for it.
//
// Damage: [Open] is Corrupt if bytes that it reads and that are known to have been on stable
// storage were changed. These are the frames of all segments but the newest, and those of the
// newest below its highest mark. Damage above that mark cannot be distinguished from a write that a
// power cut has interrupted, and ends the journal there. Close writes a last mark, so this concerns
// only journals that were not closed. Segments of which the caller has all frames ([Options].From)
// are not read.
//
// Errors: a failed write or sync stops the journal. The frames that were being written or synced
// have an unknown outcome, later ones are refused as not written, and reads go on. If no segment
// can be made, for instance on a full disk, the append is refused as not written, and a later one
// may succeed.
//
// # How it works
//
// Append encodes its frames under a lock and writes them with one write. The checksum of a frame
// covers that of the frame before. The first write to a page of 4 KiB writes the whole page:
// otherwise the operating system would have to read the page of a recycled file before it can
// change a part of it.
//
// Sync returns at once if the frames are synced already. If another goroutine is syncing, it waits
// for it. Otherwise it syncs, for all that wait (see [syncs]). There is no goroutine for the syncs
// that callers wait for.
//
// When a segment is full, it is synced, and a spare becomes the next segment: a header is written
// that has the length of the full segment and its last checksum, the file is synced and renamed,
// and the directory is synced. Only then are frames written to it. So the header is the durable
// record of the length of the segment before, and nothing else is written to close one; see
// beginSegment. Nothing is appended to a segment of an earlier process: the first Append of a
// process begins a new segment.
//
// The first segment of a process is small, and each further one has four times the size of the one
// before, up to 64 MiB. Two goroutines work ahead, so that a full segment causes no long wait: one
// writes zeros to a spare when the newest segment is a quarter full, the other syncs after every
// 8 MiB that no caller has synced.
//
// [Journal.TruncateFront] turns segments that are no longer needed into spares, or removes them.
// The old frames in a spare are never taken for new ones: the checksums of a segment begin with a
// seed that is made of its number, and the same bytes have different checksums under different
// seeds.
//
// Invariants, which the tests check by cutting the power before every file operation:
//
//   - Durable() ≤ Written(), and neither decreases.
//   - The name and the header of a segment are durable before it has a frame.
//   - A segment is completely on stable storage before the header of the next one is written.
//   - No position is given twice, and the positions of a segment's frames are above the last
//     position in its header.
//   - After the first failed write or sync, no segment is written to.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. Append copies the effects that it is given. The
// Effects of a frame that was read are valid until the next frame is read. An open journal owns two
// goroutines, none if it is read-only; Close ends them and waits for them. The caller must keep
// other processes away from the directory.
//
// Methods take no context: they wait for the disk, and a write to a disk cannot be canceled.
//
// # Limits
//
// A segment, and so the frames of one Append, has at most 1 GiB. A journal cannot detect that its
// newest file is missing, or was cut exactly between two frames above the last mark, unless the
// caller has frames after that ([Options].From). Positions may have gaps: the caller must know
// whether one is right.
//
// # Testing
//
//	go test ./internal/journal                                  # power cuts, faults, damage
//	go test ./internal/journal -run PowerCut -journal.every=1   # before every file operation
//	go test ./internal/journal -fuzz FuzzOpen
//	go test ./internal/journal -run NONE -bench .               # beside a bare file
package journal
