// Package testfaults makes logs that fail, for the tests of what stands on a log.
//
//	log = testfaults.New(log, 7, testfaults.Reads{Get: 10})
//
// # Concurrency
//
// A Log is safe for concurrent use.
//
//snippet:var log mainstem.Log
package testfaults

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// Err is the cause of every error that a [Log] makes. They are of kind Unavailable.
var Err = errors.New("injected")

// Reads says how often each call of a [Log] fails: one in so many; 0: never. For Feed it is each record.
type Reads struct{ Get, Scan, Feed int }

// Log is a log that fails a share of its calls, in every way in which a log at the other end of a network may: of
// eight commits one is not written, one is not written and one is written without the caller's knowing, and reads fail as
// Reads says. Many goroutines may use it.
type Log struct {
	mainstem.Log
	reads Reads

	mu   sync.Mutex
	rand *rand.Rand // guarded by mu
}

// New returns a log whose faults depend on the seed, and on the order of the calls.
func New(log mainstem.Log, seed uint64, r Reads) *Log {
	return &Log{Log: log, reads: r, rand: rand.New(rand.NewPCG(seed, seed))}
}

func (l *Log) roll(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rand.IntN(n)
}

// fails reports whether one of n calls is this one.
func (l *Log) fails(n int) bool { return n > 0 && l.roll(n) == 0 }

func fault(op string, o mainstem.Outcome) error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: op, Outcome: o, Err: Err}
}

// Commit implements [mainstem.Log].
func (l *Log) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	switch l.roll(8) {
	case 0:
		return mainstem.Receipt{}, fault("commit", mainstem.NotWritten)
	case 1:
		return mainstem.Receipt{}, fault("commit", mainstem.Unknown)
	case 2:
		if _, err := l.Log.Commit(ctx, b); err != nil {
			return mainstem.Receipt{}, err
		}
		return mainstem.Receipt{}, fault("commit", mainstem.Unknown)
	}
	return l.Log.Commit(ctx, b)
}

// Get implements [mainstem.Log].
func (l *Log) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if l.fails(l.reads.Get) {
		return mainstem.Record{}, fault("get", mainstem.NoOutcome)
	}
	return l.Log.Get(ctx, space, key)
}

// Scan implements [mainstem.Log].
func (l *Log) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	if l.fails(l.reads.Scan) {
		return func(yield func(mainstem.Record, error) bool) {
			yield(mainstem.Record{}, fault("scan", mainstem.NoOutcome))
		}
	}
	return l.Log.Scan(ctx, space, r)
}

// Feed implements [mainstem.Log].
func (l *Log) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		for rec, err := range l.Log.Feed(ctx, f) {
			if err == nil && l.fails(l.reads.Feed) {
				rec, err = mainstem.Record{}, fault("feed", mainstem.NoOutcome)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}
