package enginetest

import (
	"context"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

// An engine may remember one position for all keys of a space with bounded history of which
// nothing is left, see [mainstem.TestNotAfter]: programs must not take that for a fault.
func TestProgramsAllowRememberedPositions(t *testing.T) {
	t.Parallel()
	f := features()
	f.Programs, f.Seed = 2000, 1
	if testing.Short() { // they are the same programs in every run
		f.Programs = 100
	}
	s := broken(&f, func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			for _, c := range b.Conditions() {
				// One with an ID may be a duplicate, which is answered before conditions are tested.
				if p := remembered(ctx, l, &c); b.ID == "" && c.Test == mainstem.TestNotAfter && p > c.Position {
					return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Space: c.Space, Key: c.Key,
						Outcome: mainstem.NotWritten, Want: c, GotPosition: p}
				}
			}
			return l.Commit(ctx, b)
		}}
	})
	if out := takeInBubble(t, func(r reporter) { runPrograms(r, f, s) }); out != "" {
		t.Error(out)
	}
}

// remembered returns the newest position of a record of the space of c whose key has nothing
// left, if the key of c has nothing left and the space forgets keys; else 0.
func remembered(ctx context.Context, l *model.Log, c *mainstem.Condition) (newest mainstem.Position) {
	in, err := l.Space(ctx, c.Space)
	if _, held := l.Written(c.Space, c.Key); err != nil || held || in.Policy.History == 0 {
		return 0
	}
	for i := range keys {
		if last, held := l.Written(c.Space, key(i)); !held {
			newest = max(newest, last)
		}
	}
	return newest
}

// An engine may begin the versions of a key of which nothing is held above 1, also for a write
// behind one that wrote nothing: programs must not take that for a fault.
func TestProgramsFollowHigherVersions(t *testing.T) {
	t.Parallel()
	f := features()
	f.Programs, f.Seed = 1000, 1
	s := broken(&f, func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			for _, w := range b.Writes() {
				l.Raise(w.Space, w.Key, 3)
			}
			return l.Commit(ctx, b)
		}}
	})
	if out := takeInBubble(t, func(r reporter) { runPrograms(r, f, s) }); out != "" {
		t.Error(out)
	}
}
