package pebblelog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// reclaimer frees disk space while the log is open. A commit that removes records writes Pebble
// tombstones. The sorted files with the records stay until Pebble compacts them together with
// the tombstones. In a log that is written to rarely, a tombstone could stay in a memtable until
// the log is opened again.
//
// The reclaimer counts the bytes that commits remove, by space. When there are enough, it
//
//  1. flushes the memtable, which mostly has tombstones then;
//  2. frees the segments of the journal that are not needed any more;
//  3. compacts the key ranges of the spaces, piece by piece: see pieces.
//
// A dropped space counts at once, with everything that it held. Another space counts when as
// much was removed from it as it still holds. So the records that stay are rewritten at most
// once each time that the space has lost as many bytes as it keeps. Overwritten values do not
// count: the new values make Pebble compact by itself.
//
// Commits go on meanwhile: the reclaimer does not use the queue of commits. It works in rounds,
// at most one every [reclaimEvery], and pauses after a piece for as long as the piece took. It
// does not start a compaction for which the disk has no room above [Log.removalFloor]. A round
// that fails is repeated. What is left when the log is closed is compacted by Pebble at some
// later time.
//
// Rejected: DB.Excise removes files at once, but also from open snapshots.
type reclaimer struct {
	l      *Log
	wake   chan struct{}      // capacity 1
	asked  chan chan struct{} // requests of now; each channel is closed when a round for all removals is over
	cancel context.CancelFunc
	done   chan struct{}
	mu     struct {
		sync.Mutex
		removed map[*space]int64 // bytes removed since the last round for the space
	}
}

const (
	// reclaimEvery is how long removals are collected before a round, so that dropping many
	// spaces in a row needs one round.
	reclaimEvery = time.Second
	// reclaimAgain is the pause before a failed round is repeated.
	reclaimAgain = 10 * time.Second
	// reclaimWorth is the number of removed bytes that is worth a round. On a disk that is
	// nearly full any number is.
	reclaimWorth = 8 << 20
	// reclaimSpaces is the largest number of dropped spaces for which small removals are
	// counted.
	reclaimSpaces = 4096
)

func newReclaimer(l *Log) *reclaimer {
	r := &reclaimer{l: l, wake: make(chan struct{}, 1), asked: make(chan chan struct{}), done: make(chan struct{})}
	r.mu.removed = map[*space]int64{}
	return r
}

func (r *reclaimer) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
}

// stop ends the present round and the reclaimer. A commit that hangs in Pebble may hold locks
// that a round waits for; then stop does not wait for the round.
func (r *reclaimer) stop() {
	r.cancel()
	if !r.l.broken.Load() {
		<-r.done
	}
}

// count adds n to the bytes of records removed from s. Commits call it, so it does not block.
func (r *reclaimer) count(s *space, n int64) {
	r.mu.Lock()
	r.mu.removed[s] += n
	r.mu.Unlock()
	wake.Signal(r.wake)
}

// now starts a round for all removals and waits for its end.
func (r *reclaimer) now(ctx context.Context) error {
	over := make(chan struct{})
	begun := time.Now()
	select {
	case r.asked <- over:
	case <-ctx.Done():
		return mainstem.Ended(ctx, "sweep", begun, "another round")
	case <-r.done:
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: "sweep"}
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return mainstem.Ended(ctx, "sweep", begun, "files that are merged")
	}
}

func (r *reclaimer) run(ctx context.Context) {
	defer close(r.done)
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for pending := false; ; {
		var over chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			if !pending {
				timer.Reset(reclaimEvery)
			}
			pending = true
			continue
		case <-timer.C:
		case over = <-r.asked:
		}
		pending = false
		if err := r.round(ctx, over != nil); err != nil && ctx.Err() == nil && r.l.failure.Load() == nil {
			r.l.opts.Logger.Info("the disk space of removed records is not free yet; it will be tried again", "error", err)
			pending = true
			timer.Reset(reclaimAgain)
		}
		if over != nil {
			close(over)
		}
	}
}

// round reclaims the spaces that are worth it or, with all, every space with removals.
func (r *reclaimer) round(ctx context.Context, all bool) (err error) {
	ctx, end := r.l.interrupts.begin(ctx)
	defer end()
	if r.l.failure.Load() != nil {
		return nil // nothing reaches the disk any more
	}
	taken := r.take(all)
	if len(taken) == 0 {
		return nil
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			for s, n := range taken {
				r.mu.removed[s] += n
			}
		}
	}()
	err = r.l.reclaim(ctx, taken)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return err
}

// take returns the spaces that are worth a round, with the bytes removed from each, and resets
// their counters.
func (r *reclaimer) take(all bool) map[*space]int64 {
	full := r.l.nearlyFull()
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := map[*space]int64{}
	var sum int64
	for s, n := range r.mu.removed {
		if all || n >= s.totals().Bytes || !r.l.live(s) {
			taken[s] = n
			sum += n
		}
	}
	if !all && !full && sum < reclaimWorth && len(taken) < reclaimSpaces {
		return nil
	}
	for s := range taken {
		delete(r.mu.removed, s)
	}
	return taken
}

// live reports whether s has not been dropped.
func (l *Log) live(s *space) bool { return l.spaces.Load().byName[s.name] == s }

// reclaim frees the disk space of what was removed from spaces.
func (l *Log) reclaim(ctx context.Context, spaces map[*space]int64) error {
	if err := l.flushNow(ctx); err != nil {
		return err
	}
	r := l.removalOf(spaces)
	for _, k := range r.ranges {
		if err := l.compactRange(ctx, r, k); err != nil {
			return err
		}
	}
	return nil
}

// flushNow flushes what is in memory to sorted files, and frees the segments of the journal that
// are not needed any more.
func (l *Log) flushNow(ctx context.Context) error {
	if err := l.roomToMerge(l.db.Metrics().MemTable.Size); err != nil {
		return err
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	return l.trimJournal()
}

// flush writes Pebble's memtables to sorted files.
func (l *Log) flush(ctx context.Context) error {
	flushed, err := l.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.sound("flush")
}

// compactRange compacts the files that have keys of k, a range of r.
func (l *Log) compactRange(ctx context.Context, r *removal, k keyRange) error {
	tables, err := l.db.SSTables(pebble.WithKeyRangeFilter(k.start, k.end))
	if err != nil {
		return err
	}
	for _, p := range pieces(k, tables) {
		begun := time.Now()
		if err := l.compactPiece(ctx, r, p); err != nil {
			return err
		}
		select {
		case <-time.After(time.Since(begun)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (l *Log) compactPiece(ctx context.Context, r *removal, p keyRange) error {
	tables, err := l.db.SSTables()
	if err != nil {
		return err
	}
	need, any := r.room(p, tables)
	if !any {
		return nil
	}
	if err := l.roomToMerge(need); err != nil {
		return err
	}
	return l.db.Compact(ctx, p.start, p.end, false)
}
