package pebblelog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// Opening after a crash.
//
// Pebble opens with its sorted files, which hold the outcome of the first frames of the journal;
// the key 'n' has their number. The journal has all later frames, up to the first incomplete
// one, and verified them when it was opened. Replay commits these to Pebble, in order. A crash
// during a replay does no harm: sorted files that the replay has written hold their own number
// 'n', and the next open continues from there.
//
// Two checks detect files that do not belong together. The journal must begin at or before the
// frame after 'n'. It must not end before 'n', since it is synced before any sorted file.

// replay applies the frames that are not in sorted files.
func (l *Log) replay() (err error) {
	defer func() {
		if p := recover(); p != nil { // as in showCold
			l.broken.Store(true)
			err = l.fail(p)
		}
	}()
	applied, err := l.appliedFrame(false)
	if err != nil {
		return err
	}
	if s := l.journal.Stats(); uint64(s.First) > applied || uint64(s.Written) < applied {
		return mainstem.Errorf(mainstem.KindCorrupt, "open "+l.dir.path, "the sorted files hold the frames up to %d, the journal those from %d to %d: %w", applied, s.First+1, s.Written, format.ErrCorrupt).
			WithHint("put the missing files back, or restore from a backup")
	}
	l.trimQuietly() // also of what a truncation has left over that a crash interrupted
	l.frame = applied
	r := replayer{l: l, piece: min(replayPiece, l.opts.MemTableBytes/drainShare)}
	for f, err := range l.journal.Read(mainstem.Position(applied + 1)) {
		if err != nil {
			return err
		}
		if err := r.add(&f); err != nil {
			return fmt.Errorf("frame %d of the journal: %w", f.First, err)
		}
	}
	if err := r.commit(); err != nil {
		return err
	}
	return l.sound("open " + l.dir.path)
}

// replayPiece is the size of frames, in bytes, at which a replay commits them to Pebble.
const replayPiece = 1 << 20

// replayer commits the changes of frames to Pebble, in order, those of many frames in one batch.
//
// Every frame sets the totals of its spaces and the number of the newest frame. A batch has only
// the last value of such a key: there are no readers between two frames of a batch. No other
// change of a frame touches these keys, except a delete of totals.
type replayer struct {
	l     *Log
	piece int

	batch []byte // the changes, after the header of a batch
	count uint32
	held  []heldSet // not in batch yet
}

// heldSet is the newest value of a key that many frames set.
type heldSet struct {
	key    []byte
	change []byte // encoded as in the effects
}

// add adds the changes of f, which must be the next frame. The next commit, at the latest,
// writes them to Pebble.
func (r *replayer) add(f *journal.Frame) error {
	if uint64(f.First) != r.l.frame+1 {
		return fmt.Errorf("it follows frame %d: %w", r.l.frame, format.ErrCorrupt)
	}
	if err := checkEffects(f.Effects); err != nil {
		return err
	}
	if len(r.batch)+len(f.Effects) > r.piece {
		if err := r.commit(); err != nil {
			return err
		}
	}
	_, rest, err := format.Effects(f.Effects)
	for err == nil && len(rest) > 0 {
		before := rest
		var c format.Change
		if c, rest, err = format.NextChange(rest); err == nil {
			r.change(c, before[:len(before)-len(rest)])
		}
	}
	if err != nil {
		return err
	}
	r.l.frame = uint64(f.First)
	return nil
}

// change adds the change c, whose encoding is in p.
func (r *replayer) change(c format.Change, p []byte) {
	if tag := c.Key[0]; tag == format.TagTotals || tag == format.TagFrame {
		i := slices.IndexFunc(r.held, func(h heldSet) bool { return bytes.Equal(h.key, c.Key) })
		if i < 0 && len(r.held) < mostHeld {
			r.held, i = append(r.held, heldSet{key: bytes.Clone(c.Key)}), len(r.held)
		}
		if i >= 0 {
			r.held[i].change = append(r.held[i].change[:0], p...)
			return
		}
	}
	r.append(p)
}

// mostHeld is the largest number of keys of which only the last value is written: each change
// searches them linearly.
const mostHeld = 32

func (r *replayer) append(p []byte) {
	if len(r.batch) == 0 {
		r.batch = append(r.batch, make([]byte, batchHeader)...)
	}
	r.batch = append(r.batch, p...)
	r.count++
}

// batchHeader is the length of the header of a Pebble batch: 8 bytes, which Pebble sets, and the
// number of changes.
const batchHeader = 12

// commit writes the added changes to Pebble.
func (r *replayer) commit() error {
	for _, h := range r.held {
		r.append(h.change)
	}
	if r.count == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(r.batch[batchHeader-4:], r.count)
	b := r.l.db.NewBatch()
	defer b.Close()
	if err := b.SetRepr(r.batch); err != nil {
		return fmt.Errorf("%w: %w", format.ErrCorrupt, err)
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	r.batch, r.count, r.held = make([]byte, 0, cap(r.batch)), 0, r.held[:0] // Pebble may keep the batch
	return nil
}

// checkEffects returns an error unless p is a Pebble batch of sets, deletes and range deletes of
// keys of a log, which is all that a tx writes. Pebble panics on some other contents.
func checkEffects(p []byte) error {
	n, rest, err := format.Effects(p)
	for i := uint32(0); err == nil; i++ {
		if i == n && len(rest) == 0 {
			return nil
		}
		if i == n || len(rest) == 0 {
			return fmt.Errorf("%d changes, and %d bytes behind them, where it says that it has %d: %w", i, len(rest), n, format.ErrCorrupt)
		}
		var c format.Change
		if c, rest, err = format.NextChange(rest); err == nil {
			err = format.CheckChange(c)
		}
		if err != nil {
			return fmt.Errorf("change %d of %d: %w", i+1, n, err)
		}
	}
	return err
}
