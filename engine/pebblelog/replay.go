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
// the key 'n' says of how many. The journal has all later frames, up to the first that is not
// whole, and verified them when it was opened. Replay hands these to Pebble, in order. A crash
// during a replay changes nothing: sorted files that it has written hold their own number 'n',
// and the next open goes on from there.
//
// Two checks find files that do not belong together: the journal must begin at or before the
// frame after 'n', and must not end before 'n', since it was synced before a sorted file was.

// replay applies the frames that sorted files do not hold.
func (l *Log) replay() (err error) {
	defer func() {
		if p := recover(); p != nil { // as in show
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

// replayPiece is about how many bytes of frames a replay hands to Pebble at once.
const replayPiece = 1 << 20

// replayer hands the changes of frames to Pebble, those of many in one batch, in order.
//
// Every frame sets the totals of its spaces and the number of the newest frame. Of such a
// key, a piece has the last value only: nobody reads what is between two frames of one
// batch. No other change of a frame touches these keys, but for a delete of totals.
type replayer struct {
	l     *Log
	piece int

	batch []byte // the changes, behind the header of a batch
	count uint32
	held  []heldSet // not in batch yet
}

// heldSet is the newest value of a key that frames set again and again.
type heldSet struct {
	key    []byte
	change []byte // as it stands in the effects
}

// add adds the changes of f, which must be the next frame. They are with Pebble after the
// next commit at the latest.
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

// change adds the change c, which stands in p.
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

// mostHeld is of how many keys only the last value is written: they are looked through for
// each change.
const mostHeld = 32

func (r *replayer) append(p []byte) {
	if len(r.batch) == 0 {
		r.batch = append(r.batch, make([]byte, batchHeader)...)
	}
	r.batch = append(r.batch, p...)
	r.count++
}

// batchHeader is the length of the header of a Pebble batch: 8 bytes that Pebble sets, and
// the number of changes.
const batchHeader = 12

// commit hands to Pebble what was added.
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

// checkEffects returns an error unless p is a Pebble batch of sets, deletes and deletes of
// ranges of keys of a log, which is all that a tx writes. Pebble panics over some others.
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
