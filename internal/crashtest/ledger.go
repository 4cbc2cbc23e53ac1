package crashtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/mainstemdev/mainstem"
)

// A ledger is the workload of several writers at once. Entry n of a writer is one
// batch that follows from the two numbers alone, so that a log can be checked
// without knowing in which order the writers came, nor which batches were grouped:
//
//   - version n of the writer's key in space "own", which keeps everything;
//   - the newest record of the writer's key in space "newest";
//   - one record of a key that all writers share, in space "shared";
//   - as many keys of its own in space "wide" as the two numbers say.

const (
	ownSpace    = "ledger/own"
	newestSpace = "ledger/newest"
	sharedSpace = "ledger/shared"
	wideSpace   = "ledger/wide"
)

var sharedKey = []byte("shared")

func writerKey(writer int) []byte { return fmt.Appendf(nil, "writer-%d", writer) }

// entry is what a batch of the ledger writes besides its keys.
type entry struct {
	rng  *rand.Rand
	wide int
}

func newEntry(writer, n int) entry {
	e := entry{rng: rand.New(rand.NewPCG(uint64(writer), uint64(n)))}
	if e.rng.IntN(4) == 0 {
		e.wide = e.rng.IntN(20)
	}
	return e
}

// value returns the next value of the entry: the two numbers, then random bytes.
func (e *entry) value(writer, n int) []byte {
	size := e.rng.IntN(300)
	switch r := e.rng.IntN(200); {
	case r == 0:
		size = 64<<10 + e.rng.IntN(32<<10)
	case r < 10:
		size = 1<<10 + e.rng.IntN(4<<10)
	}
	p := binary.BigEndian.AppendUint32(nil, uint32(writer))
	p = binary.BigEndian.AppendUint32(p, uint32(n))
	for range size {
		p = append(p, byte(e.rng.Uint32()))
	}
	return p
}

func wideKey(writer, n, i int) []byte { return fmt.Appendf(nil, "%d/%d/%d", writer, n, i) }

// LedgerBatch returns entry n of writer; n counts from 1.
func LedgerBatch(writer, n int, d mainstem.Durability) *mainstem.Batch {
	b := mainstem.NewBatch()
	b.ID, b.Durability = fmt.Sprintf("%d/%d", writer, n), d
	b.Ensure(ownSpace, mainstem.Policy{})
	b.Ensure(newestSpace, mainstem.Policy{History: 1})
	b.Ensure(sharedSpace, mainstem.Policy{})
	b.Ensure(wideSpace, mainstem.Policy{History: 1, NoFeed: true})
	e := newEntry(writer, n)
	b.Put(ownSpace, writerKey(writer), e.value(writer, n))
	b.Put(newestSpace, writerKey(writer), e.value(writer, n))
	b.Put(sharedSpace, sharedKey, e.value(writer, n))
	for i := range e.wide {
		b.Put(wideSpace, wideKey(writer, n, i), e.value(writer, n))
	}
	return b
}

// LedgerLength returns how many entries of writer the log holds.
func LedgerLength(ctx context.Context, l mainstem.Reader, writer int) (int, error) {
	for rec, err := range l.Read(ctx, ownSpace, writerKey(writer), mainstem.Versions{Reverse: true, Limit: 1}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return 0, nil
		}
		return int(rec.Version), err
	}
	return 0, nil
}

// VerifyLedger checks that the log holds, of each writer, the first lengths[writer]
// entries whole and no trace of any other, each once and in order.
func VerifyLedger(ctx context.Context, l mainstem.Reader, lengths []int) error {
	total, wide := 0, 0
	for writer, length := range lengths {
		w, err := verifyWriter(ctx, l, writer, length)
		if err != nil {
			return fmt.Errorf("writer %d, %d entries: %w", writer, length, err)
		}
		total += length
		wide += w
	}
	if total == 0 {
		return nil
	}
	if err := verifyShared(ctx, l, lengths); err != nil {
		return err
	}
	for rec, err := range l.Scan(ctx, wideSpace, mainstem.Range{KeysOnly: true}) {
		if err != nil {
			return err
		}
		wide--
		_ = rec
	}
	if wide != 0 {
		return fmt.Errorf("space %s holds %d keys fewer than its entries wrote", wideSpace, wide)
	}
	return nil
}

// verifyWriter checks everything but the shared key, and returns how many wide
// keys the entries wrote.
func verifyWriter(ctx context.Context, l mainstem.Reader, writer, length int) (wide int, err error) {
	n := 0
	for rec, err := range l.Read(ctx, ownSpace, writerKey(writer), mainstem.Versions{}) {
		if errors.Is(err, mainstem.ErrNotFound) && length == 0 {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		n++
		e := newEntry(writer, n)
		if rec.Version != mainstem.Version(n) || !bytes.Equal(rec.Value, e.value(writer, n)) {
			return 0, fmt.Errorf("entry %d: found %s", n, Describe(&rec))
		}
		newest := e.value(writer, n)
		e.value(writer, n) // of the shared key
		if n == length {
			got, err := l.Get(ctx, newestSpace, writerKey(writer))
			if err != nil || !bytes.Equal(got.Value, newest) {
				return 0, fmt.Errorf("space %s does not show entry %d but %s (%v)", newestSpace, n, Describe(&got), err)
			}
		}
		for i := range e.wide {
			got, err := l.Get(ctx, wideSpace, wideKey(writer, n, i))
			if err != nil || !bytes.Equal(got.Value, e.value(writer, n)) {
				return 0, fmt.Errorf("entry %d: key %d of space %s is %s (%v)", n, i, wideSpace, Describe(&got), err)
			}
		}
		wide += e.wide
	}
	if n != length {
		return 0, fmt.Errorf("found %d", n)
	}
	return wide, nil
}

func verifyShared(ctx context.Context, l mainstem.Reader, lengths []int) error {
	next := make([]int, len(lengths))
	var position mainstem.Position
	var version mainstem.Version
	for rec, err := range l.Feed(ctx, mainstem.Filter{Spaces: []string{sharedSpace}}) {
		if err != nil {
			return err
		}
		version++
		if rec.Version != version || rec.Position <= position || len(rec.Value) < 8 {
			return fmt.Errorf("space %s: after version %d, position %d: %s", sharedSpace, version-1, position, Describe(&rec))
		}
		position = rec.Position
		writer, n := int(binary.BigEndian.Uint32(rec.Value)), int(binary.BigEndian.Uint32(rec.Value[4:]))
		if writer >= len(next) || n != next[writer]+1 {
			return fmt.Errorf("space %s: entry %d of writer %d out of order: %s", sharedSpace, n, writer, Describe(&rec))
		}
		next[writer] = n
	}
	for writer, n := range next {
		if n != lengths[writer] {
			return fmt.Errorf("space %s holds %d entries of writer %d, want %d", sharedSpace, n, writer, lengths[writer])
		}
	}
	return nil
}
