package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/history"
)

var historyCases = []testCase{
	{name: "history of busy clients", run: historyOfClients(0),
		promise: "What concurrent clients are told and what they read fits one order of all batches, the one of their positions, and real time."},
	{name: "history of impatient clients", run: historyOfClients(4),
		promise: "The same, when clients give up on some of their commits at any moment."},
}

// historyOfClients lets clients commit and read at random, and checks the
// history. Every n-th commit of a client is canceled at some moment; 0 means none.
func historyOfClients(impatience int) func(e *env) {
	return func(e *env) {
		const clients, each = 6, 80
		e.space("s", mainstem.Policy{})
		e.space("t", mainstem.Policy{})
		rec := history.NewRecorder(e.log)
		var values atomic.Int64
		e.parallel(clients, func(i int) error {
			w := worker{e: e, c: rec.Client(), rnd: rand.New(rand.NewPCG(uint64(i), 7)), values: &values, impatience: impatience}
			for range each {
				if err := w.step(); err != nil {
					return err
				}
				e.progress.moved()
			}
			return nil
		})
		// What is of unknown outcome and still on its way comes before this or never.
		e.put("t", "end", fmt.Sprint("v", values.Add(1)))
		last := rec.Client()
		if _, err := last.Feed(e.ctx, 0); err != nil {
			e.Fatalf("feed: %v", err)
		}
		found := history.Check(withEnd(rec.Operations()))
		for _, v := range found[:min(len(found), 5)] {
			e.law = Law(v.Law)
			e.Errorf("%s", v.What)
		}
	}
}

// withEnd adds the batch that ends the case, which no client committed, to the
// history, as what the last feed shows.
func withEnd(ops []history.Operation) []history.Operation {
	feed := ops[len(ops)-1]
	r := feed.Seen[len(feed.Seen)-1]
	return append(ops, history.Operation{
		Call: feed.Call - 1, Return: feed.Call, Kind: history.Commit, Writes: []history.Record{r}, Outcome: history.Unknown,
	})
}

// worker is one client that acts at random.
type worker struct {
	e          *env
	c          *history.Client
	rnd        *rand.Rand
	values     *atomic.Int64
	impatience int
	after      mainstem.Position
	known      map[[2]string]mainstem.Version
}

func (w *worker) key() (space, key string) {
	return []string{"s", "t"}[w.rnd.IntN(2)], string(byte('a' + w.rnd.IntN(4)))
}

func (w *worker) step() (err error) {
	space, key := w.key()
	switch w.rnd.IntN(8) {
	case 0:
		w.after, err = w.c.Feed(w.e.ctx, w.after)
		return err
	case 1:
		return w.c.Scan(w.e.ctx, space)
	case 2, 3:
		r, err := w.c.Get(w.e.ctx, space, key)
		if w.known == nil {
			w.known = map[[2]string]mainstem.Version{}
		}
		w.known[[2]string{space, key}] = r.Version
		return err
	}
	return w.commit(space, key)
}

func (w *worker) commit(space, key string) error {
	b := mainstem.NewBatch()
	used := map[[2]string]bool{}
	for range w.rnd.IntN(4) + 1 {
		if used[[2]string{space, key}] {
			continue
		}
		used[[2]string{space, key}] = true
		b.Put(space, []byte(key), fmt.Append(nil, "v", w.values.Add(1)))
		if v, ok := w.known[[2]string{space, key}]; ok && w.rnd.IntN(3) == 0 {
			if v == 0 {
				b.IfAbsent(space, []byte(key))
			} else {
				b.IfVersion(space, []byte(key), v)
			}
		}
		space, key = w.key()
	}
	ctx, cancel := context.WithCancel(w.e.ctx)
	defer cancel()
	if w.impatience > 0 && w.rnd.IntN(w.impatience) == 0 {
		go cancel()
	}
	r, err := w.c.Commit(ctx, b)
	if err == nil {
		for i, wr := range b.Writes() {
			if w.known != nil {
				w.known[[2]string{wr.Space, string(wr.Key)}] = r.Versions[i]
			}
		}
	}
	if errors.Is(err, mainstem.ErrConflict) || errors.Is(err, mainstem.ErrCanceled) {
		return nil
	}
	return err
}
