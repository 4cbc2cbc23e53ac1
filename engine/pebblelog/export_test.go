package pebblelog

import (
	"context"

	"bytes"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem/internal/format"
)

// Raw is bare Pebble with the engine's options: the baseline of benchmarks.
type Raw struct {
	db *pebble.DB
}

// OpenRaw opens bare Pebble in dir, with its write-ahead log.
func OpenRaw(dir string) (*Raw, error) {
	var o Options
	l := newLog(&directory{fs: vfs.Default, path: dir}, o.withDefaults())
	options := l.pebbleOptions(true)
	options.FS, options.DisableWAL = vfs.Default, false
	db, err := pebble.Open(dir, options)
	return &Raw{db}, err
}

// Close closes it.
func (r *Raw) Close() error { return r.db.Close() }

// CommitEvents writes the keys and bytes that a commit of n events to one stream
// writes: the records, one feed block, the totals.
func (r *Raw) CommitEvents(i uint64, key, value []byte, n int) {
	b := r.db.NewBatch()
	defer b.Close()
	body := append(make([]byte, 16), value...)
	k := format.AppendPrefix(nil, format.TagVersion, 1, key)
	entry := append(append([]byte{}, key...), body...)
	var block []byte
	for j := range n {
		must(b.Set(binary.BigEndian.AppendUint64(k, uint64(j)), body, nil))
		block = append(block, entry...)
	}
	must(b.Set(format.AppendFeedKey(nil, 1, i), block, nil))
	must(b.Set(format.AppendTotalsKey(nil, 1), body[:32], nil))
	must(b.Commit(pebble.NoSync))
}

// CommitKeys writes n plain keys with values of the size given.
func (r *Raw) CommitKeys(i uint64, n, size int) {
	b := r.db.NewBatch()
	defer b.Close()
	value := bytes.Repeat([]byte("v"), size)
	var k [17]byte
	k[0] = 'z'
	binary.BigEndian.PutUint64(k[1:], i)
	for j := range n {
		binary.BigEndian.PutUint64(k[9:], uint64(j))
		must(b.Set(k[:], value, nil))
	}
	must(b.Commit(pebble.NoSync))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// RawGet gets a slot with bare Pebble and copies its value.
func (l *Log) RawGet(space string, key []byte) {
	s := l.spaces.Load().byName[space]
	v, closer, err := l.db.Get(format.AppendSlotKey(nil, s.id, key))
	must(err)
	_ = bytes.Clone(v)
	must(closer.Close())
}

// RawRead iterates over the versions of a key with bare Pebble.
func (l *Log) RawRead(space string, key []byte) {
	s := l.spaces.Load().byName[space]
	prefix := format.AppendPrefix(nil, format.TagVersion, s.id, key)
	l.rawIterate(prefix, format.AppendPrefixEnd(nil, prefix))
}

// RawScan iterates over the slots of a space with bare Pebble.
func (l *Log) RawScan(space string) {
	head := format.AppendHead(nil, format.TagSlot, l.spaces.Load().byName[space].id)
	l.rawIterate(head, format.AppendSuccessor(nil, head))
}

func (l *Log) rawIterate(lower, upper []byte) {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	must(err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		must(err)
		n += len(v)
	}
	must(it.Close())
}

// Syncs returns how often the journal was synced.
func (l *Log) Syncs() int64 { return l.journal.Stats().Syncs }

// FlushRaw writes everything in memory to sorted files.
func (l *Log) FlushRaw() {
	l.DrainRaw()
	must(l.between(context.Background(), "flush", l.hot.Reset))
	must(l.db.Flush())
}

// MergeRaw merges all sorted files as Pebble does it by itself, also while snapshots are open.
func (l *Log) MergeRaw(ctx context.Context) {
	l.FlushRaw()
	must(l.db.Compact(ctx, []byte{0}, []byte{0xff}, false))
}

// DrainRaw hands everything in the hot tier to Pebble's table in memory; it stays readable
// in the hot tier.
func (l *Log) DrainRaw() { must(l.drainHot()) }

// BetweenTiers has f called by the next read of a stream, or of many keys, when it has looked
// into one tier, and not yet into the other.
func (l *Log) BetweenTiers(f func()) {
	l.betweenTiers = func() {
		l.betweenTiers = nil
		f()
	}
}

// WithHotBytes returns o with a hot tier of another size.
func WithHotBytes(o Options, n int) *Options {
	o.hotBytes = n
	return &o
}

// FlushNow is the first step of a round of the reclaimer.
func (l *Log) FlushNow(ctx context.Context) error { return l.flushNow(ctx) }

// Merging reports whether files are being merged, or that were merged are still there.
func (l *Log) Merging() bool {
	m := l.db.Metrics()
	return m.Compact.NumInProgress > 0 || m.Table.ObsoleteCount > 0 || m.Table.ZombieCount > 0
}

// OpenSnapshots returns the number of open snapshots, and of those that Close has begun to close.
func (l *Log) OpenSnapshots() (open, closing int) {
	l.snapshots.Lock()
	defer l.snapshots.Unlock()
	for s := range l.snapshots.open {
		if s.readers.closed.Load() {
			closing++
		}
	}
	return len(l.snapshots.open), closing
}

// Ending reports whether Close has come so far that it waits for Pebble only.
func (l *Log) Ending() bool { return l.fs.ending.Load() }

// Reclaimable returns of how many spaces a round of the reclaimer would begin to free the
// disk space now. They are not counted for the next one any more.
func (l *Log) Reclaimable() int { return len(l.reclaimer.take(false)) }

// ForgetWritten makes all version markers those of an older program, which did not note
// positions. Nobody else may use the log meanwhile.
func (l *Log) ForgetWritten() (n int) {
	for _, tag := range []byte{format.TagSlot, format.TagVersion} {
		must(l.walk(tag, func(k, v []byte) error {
			b, err := format.DecodeBody(v)
			if err != nil || !b.VersionMarker {
				return err
			}
			n++
			b.Value = nil
			return l.db.Set(bytes.Clone(k), format.AppendBody(nil, &b, nil), pebble.NoSync)
		}))
	}
	return n
}

// DiskByKind returns about how many bytes of sorted files the keys with each of tags take.
func (l *Log) DiskByKind(tags ...byte) []uint64 {
	sizes := make([]uint64, len(tags))
	for i, tag := range tags {
		n, err := l.db.EstimateDiskUsage([]byte{tag}, []byte{tag + 1})
		must(err)
		sizes[i] = n
	}
	return sizes
}

// ReceiptLooks is after how many looks into Pebble a log reads which receipts it has.
const ReceiptLooks = receiptLooks

// ReceiptsKnown reports whether the log knows which receipts it had when it was opened.
func (l *Log) ReceiptsKnown() bool { return l.receipts.old.Load() != nil }

// LimitReceipts sets how many bytes the largest part of what the log knows of its receipts has.
func (l *Log) LimitReceipts(n int) {
	l.receipts.bytes = n
	l.receipts.begin()
}
