package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testfaults"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/lease"
)

// dyingLog is the log of a process that is killed at one commit: that commit is written or not, and
// nothing after it is.
type dyingLog struct {
	mainstem.Log
	left    atomic.Int64 // commits before the last one
	written bool         // the last one is written
	dead    chan struct{}
	once    sync.Once
}

var errDead = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown, Err: errors.New("killed")}

func (l *dyingLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	switch n := l.left.Add(-1); {
	case n > 0:
		return l.Log.Commit(ctx, b)
	case n == 0 && l.written:
		_, _ = l.Log.Commit(ctx, b)
	}
	l.once.Do(func() { close(l.dead) })
	return mainstem.Receipt{}, errDead
}

// A process that is killed at any of its commits, and started again, carries out everything once,
// whether or not that commit was written.
func TestKilledAtEveryStep(t *testing.T) {
	ends := map[string]struct {
		status saga.Status
		did    string
	}{
		"book": {saga.Completed, "Charge=1 Ship=1"}, heavy: {saga.Compensated, "Cancel=1 Charge=1 Refund=1"}, broke: {saga.Compensated, "Cancel=1"},
	}
	for item, end := range ends {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprint(item, " written ", written), func(t *testing.T) {
				steps := 0
				for at := int64(1); ; at++ {
					s := newShop(t, testengines.Memory(t))
					s.append("1", placed{item})
					if !killedAt(t, s, at, written) {
						break
					}
					steps++
					s.consistent()
					e := s.start(nil, nil)
					s.until("1", end.status)
					if got := s.did("1"); got != end.did {
						t.Errorf("killed at commit %d: %s took effect, want %s", at, got, end.did)
					}
					s.consistent()
					s.stop(e)
				}
				if steps < 4 {
					t.Errorf("only %d commits", steps)
				}
			})
		}
	}
}

// killedAt runs a process until it is killed at a commit. It returns false if the saga came to its
// end before.
func killedAt(t *testing.T, s *shop, at int64, written bool) bool {
	t.Helper()
	dying := &dyingLog{Log: s.log, written: written, dead: make(chan struct{})}
	dying.left.Store(at)
	victim := newShop(t, dying)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	def, err := newFulfilment("fulfilment")
	s.must(err)
	e, err := saga.Open(victim.store, victim.types, victim.bus, &saga.Options{Logger: slog.New(slog.DiscardHandler)})
	s.must(err)
	s.must(e.Register(def, nil))
	s.must(e.Start(ctx))
	over := false
	testkit.Eventually(t, "it is killed, or done", func() bool {
		select {
		case <-dying.dead:
			return true
		default:
			st := s.get("1").Status
			over = st == saga.Completed || st == saga.Compensated
			return over
		}
	})
	kill()
	s.must(e.Stop(context.Background()))
	select {
	case <-dying.dead:
		return true
	default:
		return !over
	}
}

// After a power cut at any moment, the state, checkpoint and commands of a step are all there or
// all missing.
func TestPowerCuts(t *testing.T) {
	fs := vfs.NewCrashableMem()
	began := 0
	for round := range 8 {
		log, err := pebblelog.Open("data", &pebblelog.Options{FS: fs, MinFree: -1, Durability: mainstem.OS})
		if err != nil {
			t.Fatal(err)
		}
		s := newShop(t, log)
		began += s.allOrNone()
		e, err := s.tryStart(nil, nil)
		s.must(err)
		items := []string{"book", heavy, broke}
		for i := range 6 {
			s.append(fmt.Sprint(round, ".", i), placed{items[i%3]})
		}
		if round%2 == 0 {
			s.until(fmt.Sprint(round, ".0"), saga.Completed)
		}
		sync := mainstem.NewBatch() // the power cut loses no commit before this one
		sync.Durability = mainstem.Fsync
		s.effects.PutTo(sync, "synced", round)
		_, err = log.Commit(t.Context(), sync)
		s.must(err)
		s.append(fmt.Sprint(round, ".last"), placed{"book"})
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(3, uint64(round)))})
		s.stop(e)
		s.allOrNone()
		s.must(log.Close())
		fs = cut
	}
	if began == 0 {
		t.Error("no saga survived a cut: the test has proved nothing")
	}
}

// allOrNone checks that every event up to the cursor has been handled, and none after it, and that each
// command that was sent has either taken effect, or waits, or was refused or withdrawn. It returns how many sagas there are.
func (s *shop) allOrNone() int {
	s.t.Helper()
	s.consistent()
	cp, err := s.store.Checkpoint(s.t.Context(), "saga/fulfilment")
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		s.t.Fatal(err)
	}
	waiting := map[string]bool{}
	inbox, err := kv.Open[[]byte](s.log, "saga.inbox/shop", &kv.Options{})
	s.must(err)
	for key, err := range inbox.Keys(s.t.Context(), nil) {
		s.must(err)
		id, n, _ := strings.Cut(key, "\x00")
		waiting[fmt.Sprint(strings.Replace(id, "-", "/", 1), "/", strings.TrimLeft(n, "0"))] = true
	}
	sagas := 0
	for r, err := range s.store.Feed(s.t.Context(), &event.FeedOptions{Filter: event.Filter{Types: []string{"Placed"}}}) {
		s.must(err)
		i := s.get(event.ParseStreamID(r.Stream).ID)
		if handled := r.Position <= cp.Position; handled != (i.ID != "") {
			s.t.Errorf("the event at %d of %s, with the cursor at %d: there is a saga: %v", r.Position, r.Stream, cp.Position, i.ID != "")
		}
		if i.ID != "" {
			sagas++
			s.sentOnce(i, waiting)
		}
	}
	return sagas
}

func (s *shop) sentOnce(i saga.Instance, waiting map[string]bool) {
	s.t.Helper()
	ended := map[string]bool{} // refused
	var last saga.Entry
	failed := false
	var sent []saga.Sent
	for e, err := range s.records.History(s.t.Context(), i.ID) {
		s.must(err)
		if e.Step == saga.StepRefused {
			ended[e.Command], failed = true, true
		}
		sent = append(sent, e.Sent...)
		last = e
	}
	for _, c := range sent {
		did := strings.Contains(s.did(i.Key), c.Type+"=1")
		if waits := waiting[c.ID]; did == waits && !ended[c.ID] && !(failed && !waits) {
			s.t.Errorf("command %s of saga %s, now %s: waits %v, took effect %v", c.ID, i.ID, last.Status, waits, did)
		}
	}
}

// With faults of the log, sagas come to their ends, and each command takes effect once.
func TestThroughFaults(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	faulty := newShop(t, testfaults.New(s.log, 7, testfaults.Reads{Get: 10, Scan: 10, Feed: 50}))
	faulty.start(nil, nil)
	s.runMany(10)
}

// runMany places orders of all kinds, pokes their sagas, and waits until all have come to their ends.
func (s *shop) runMany(n int) {
	s.t.Helper()
	kinds := []struct {
		item   string
		status saga.Status
		did    string
	}{
		{"book", saga.Completed, "Charge=1 Ship=1"}, {heavy, saga.Compensated, "Cancel=1 Charge=1 Refund=1"},
		{broke, saga.Compensated, "Cancel=1"}, {stolen, saga.Compensated, "Cancel=1 Charge=1 Refund=1"}, {sticky, saga.CompensationFailed, "Cancel=1 Charge=1"},
	}
	for i := range n {
		s.append(fmt.Sprint(i), placed{kinds[i%len(kinds)].item})
		s.append("x", poked{fmt.Sprint(i)}, poked{fmt.Sprint(i / 2)})
	}
	for i := range n {
		k, order := kinds[i%len(kinds)], fmt.Sprint(i)
		s.until(order, k.status)
		if got := s.did(order); got != k.did {
			s.t.Errorf("order %s of %s: %s took effect, want %s", order, k.item, got, k.did)
		}
	}
	s.consistent()
}

// Several engines share the sagas of a type, with a lease or without; each command takes effect once, also
// while engines come and go.
func TestSeveralProcesses(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprint("leased ", leased), func(t *testing.T) {
			s := newShop(t, testengines.Memory(t))
			options := func(name string) *saga.Options {
				if !leased {
					return nil
				}
				k, err := lease.Open(t.Context(), s.log, lease.Member{Name: name, Start: 1}, &lease.Options{Bucket: "test/leases", TTL: 2 * time.Second})
				s.must(err)
				t.Cleanup(func() { s.must(k.Close(context.Background())) })
				return &saga.Options{Keeper: k}
			}
			var engines []*saga.Engine
			for i := range 3 {
				other := newShop(t, s.log)
				e, err := other.tryStart(options(fmt.Sprint("node", i)), nil)
				s.must(err)
				engines = append(engines, e)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				testkit.Eventually(t, "some sagas have begun", func() bool { return s.get("5").ID != "" })
				s.stop(engines[0])
				testkit.Eventually(t, "more sagas have begun", func() bool { return s.get("15").ID != "" })
				s.stop(engines[1])
			})
			s.runMany(30)
			wg.Wait()
			s.stop(engines[2])
		})
	}
}

// Stopping and starting loses nothing: every event is handled once, wherever the stop came.
func TestStopAndStartLosesNothing(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := newShop(t, log)
		s.append("1", placed{unpaid})
		pokes, rounds := 0, max(testengines.Rounds(log, 15), 6)
		for round := range rounds {
			e, err := s.tryStart(nil, &saga.Follow{MaxBatch: 1 + round%4})
			s.must(err)
			for range 1 + round%3 {
				s.append("x", poked{"1"})
				pokes++
			}
			if round%5 == 0 {
				s.append(fmt.Sprint("book", round), placed{"book"})
			}
			s.stop(e)
		}
		e := s.start(nil, nil)
		last, err := s.store.LastPosition(t.Context())
		s.must(err)
		s.must(e.WaitFor(t.Context(), "fulfilment", last))
		if st, err := saga.StateOf[state](s.get("1")); err != nil || st.Pokes != pokes {
			t.Errorf("%d of %d events were handled, %v", st.Pokes, pokes, err)
		}
		for round := 0; round < rounds; round += 5 {
			order := fmt.Sprint("book", round)
			s.until(order, saga.Completed)
			if got := s.did(order); got != "Charge=1 Ship=1" {
				t.Errorf("%s: %s took effect", order, got)
			}
		}
	})
}

// A backlog is carried out however long it has waited, even when the bus has forgotten the IDs of
// the commands.
func TestBacklog(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		var open atomic.Bool
		s.before = func(context.Context, string, string) error {
			if !open.Load() {
				return mainstem.Errorf(mainstem.KindUnavailable, "charge", "the bank is closed")
			}
			return nil
		}
		run := func() *saga.Engine {
			def, err := saga.New[state]("fulfilment", saga.Sends[charge](),
				saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
					c.Dispatch(charge{Order: c.Key()})
					return nil
				}),
				saga.On(saga.StreamKey[charged], func(c *saga.Context[state], _ charged) error {
					c.Complete()
					return nil
				}))
			s.must(err)
			e, err := saga.Open(s.store, s.types, s.bus, &saga.Options{Logger: slog.New(slog.DiscardHandler)})
			s.must(errors.Join(err, e.Register(def, nil), e.Start(t.Context())))
			return e
		}
		e := run()
		for i := range 20 {
			s.append(fmt.Sprint(i), placed{"book"})
		}
		pass(time.Hour)
		s.stop(e)
		pass(25 * time.Hour) // the bus forgets a command after 24
		open.Store(true)
		e = run()
		defer s.stop(e)
		for i := range 20 {
			s.until(fmt.Sprint(i), saga.Completed)
			if got := s.did(fmt.Sprint(i)); got != "Charge=1" {
				t.Errorf("%s took effect", got)
			}
		}
	})
}
