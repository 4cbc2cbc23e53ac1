package kv_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// between is a log on which something happens between two calls: after each
// call (but before a read) it runs the function that the test has set for it, once.
type between struct {
	mainstem.Log // and nothing else: no snapshots

	head, alter, scan, caughtUp, read func()
}

func once(f *func()) {
	if run := *f; run != nil {
		*f = nil
		run()
	}
}

func (l *between) Head(ctx context.Context) (mainstem.Position, error) {
	defer once(&l.head)
	return l.Log.Head(ctx)
}

func (l *between) AlterSpace(ctx context.Context, name string, p mainstem.Policy) error {
	defer once(&l.alter)
	return l.Log.AlterSpace(ctx, name, p)
}

func (l *between) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return after(l.Log.Scan(ctx, space, r), &l.scan)
}

func (l *between) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	if f.Follow {
		return l.Log.Feed(ctx, f)
	}
	return after(l.Log.Feed(ctx, f), &l.caughtUp)
}

func (l *between) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	once(&l.read)
	return l.Log.Read(ctx, space, key, v)
}

func after[V any](seq iter.Seq2[V, error], f *func()) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for v, err := range seq {
			if !yield(v, err) {
				return
			}
		}
		once(f)
	}
}

// What is written while a watch changes from one phase to the next is told once.
func TestWritesBetweenThePhasesOfAWatch(t *testing.T) {
	eachFollow := func(t *testing.T, log mainstem.Log, name string, o kv.WatchOptions, want ...string) {
		t.Run(name, func(t *testing.T) {
			l := &between{Log: log}
			b := open[string](t, l, name, &kv.Options{History: 5})
			put(t, b, "before", "1")
			start := must[mainstem.Position](t)(log.Head(t.Context()))
			put(t, b, "since", "1")
			if o.After > 0 {
				o.After = start
			}
			l.head = func() {
				put(t, b, "after head", "1")
				put(t, b, "gone", "1")
				check(t, b.Delete(t.Context(), "gone"))
			}
			l.scan = func() { put(t, b, "after scan", "1") }
			l.caughtUp = func() { put(t, b, "after feed", "1") }
			w := watch(t, b, &o)
			w.want(want...)
			marker := w.want("synced")
			put(t, b, "end", "1")
			if l.scan == nil {
				w.want("after scan create 1")
			}
			if l.caughtUp == nil {
				w.want("after feed create 1")
			}
			w.want("end create 1")

			again := watch(t, b, &kv.WatchOptions{After: marker}) // the marker's position is exact, too
			if l.scan == nil {
				again.want("after scan create 1")
			}
			if l.caughtUp == nil {
				again.want("after feed create 1")
			}
			again.want("end create 1", "synced")
		})
	}
	each(t, func(t *testing.T, log mainstem.Log) {
		eachFollow(t, log, "current", kv.WatchOptions{}, "after head create 1", "before create 1", "since create 1")
		eachFollow(t, log, "history", kv.WatchOptions{History: true}, "before create 1", "since create 1", "after head create 1", "gone create 1", "gone delete")
		eachFollow(t, log, "after", kv.WatchOptions{After: 1}, "since create 1", "after head create 1", "gone create 1", "gone delete")
	})
}

func TestUpdatesOnlyBeginAtTheHead(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		l := &between{Log: log}
		b := open[string](t, l, "t", nil)
		put(t, b, "before", "1")
		l.head = func() { put(t, b, "after head", "1") }
		watch(t, b, &kv.WatchOptions{UpdatesOnly: true}).want("synced", "after head create 1")
	})
}

func TestWatchOutlivesItsTable(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		l := &between{Log: log}
		b := open[string](t, l, "t", &kv.Options{History: 2})
		put(t, b, "k", "1")
		w := watch(t, b, nil)
		w.want("k create 1", "synced")
		put(t, b, "k", "2")
		l.read = func() { check(t, b.Drop(t.Context())) }
		w.want("k update 2")
		put(t, b, "k", "3")
		w.want("k create 3")
	})
}

func TestAlterMeetsTheFirstWrite(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		l := &between{Log: log}
		b := open[string](t, l, "t", &kv.Options{History: 3})
		l.alter = func() { put(t, open[string](t, log, "t", nil), "k", "v") }
		check(t, b.Alter(t.Context()))
		if info := must[mainstem.SpaceInfo](t)(log.Space(t.Context(), b.Space())); info.Policy.History != 3 {
			t.Fatalf("policy %+v", info.Policy)
		}
	})
}

// A write whose outcome is unknown is not tried again behind the caller's back.
func TestUnknownOutcomeIsReported(t *testing.T) {
	lost := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
	l := &losing{Log: modelLog(t), err: lost}
	b := open[int64](t, l, "t", nil)
	_, err := kv.Increment(t.Context(), b, "n", 1)
	if !errors.Is(err, mainstem.ErrUnknownOutcome) || l.commits != 1 {
		t.Fatalf("%d commits, error %v: want one, and that its outcome is unknown", l.commits, err)
	}
	if e := must[kv.Entry[int64]](t)(b.Get(t.Context(), "n")); e.Value != 1 {
		t.Fatalf("the counter is %d", e.Value)
	}
}

// losing commits, and loses the answer.
type losing struct {
	mainstem.Log
	err     error
	commits int
}

func (l *losing) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	l.commits++
	if _, err := l.Log.Commit(ctx, b); err != nil {
		return mainstem.Receipt{}, err
	}
	return mainstem.Receipt{}, l.err
}
