package projection_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// runner notes which engine handles which streams.
type runner struct {
	f    *fixture
	mu   sync.Mutex
	seen map[int]map[string]bool

	versions *readmodel.Table[newest]
}

// newest is the newest version of a stream that was handled.
type newest struct {
	Stream  string
	Version mainstem.Version
}

func newRunner(f *fixture) *runner {
	versions, err := readmodel.Open(f.log, "shop/newest", &readmodel.Options[newest]{Key: func(n newest) string { return n.Stream }})
	if err != nil {
		f.t.Fatal(err)
	}
	return &runner{f: f, seen: make(map[int]map[string]bool), versions: versions}
}

func (r *runner) handler(engine int) func(context.Context, *projection.Tx, paid, event.Recorded) error {
	return func(ctx context.Context, tx *projection.Tx, ev paid, rec event.Recorded) error {
		r.mu.Lock()
		if r.seen[engine] == nil {
			r.seen[engine] = make(map[string]bool)
		}
		r.seen[engine][rec.Stream] = true
		r.mu.Unlock()
		err := projection.Modify(ctx, tx, r.versions, rec.Stream, func(old newest, _ bool) (newest, error) {
			if old.Version >= rec.Version {
				r.f.t.Errorf("version %d of %s after %d", rec.Version, rec.Stream, old.Version)
			}
			return newest{rec.Stream, rec.Version}, nil
		})
		return errors.Join(err, r.f.add(ctx, tx, ev, rec))
	}
}

// partitions returns how many partitions each engine has at work.
func partitions(engines []*projection.Engine) []int {
	counts := make([]int, len(engines))
	for i, e := range engines {
		counts[i] = projection.AtWork(e, "totals")
	}
	return counts
}

// Engines share the partitions evenly, also when one starts or ends. Each event takes effect once,
// on rows that all partitions change.
func TestPartitionsAreShared(t *testing.T) {
	f := newFixture(t)
	r := newRunner(f)
	const n = 8
	async := &projection.Async{Partitions: n, MaxBatch: 20, Backoff: time.Millisecond}
	f.payMany(200)
	var engines []*projection.Engine
	evenly := func() {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d engines to have about %d/%d partitions each", len(engines), n, len(engines)), func() bool {
			counts, sum := partitions(engines), 0
			for _, c := range counts {
				sum += c
			}
			return sum == n && slices.Max(counts)-slices.Min(counts) <= 1
		})
	}
	for i := range 3 {
		engines = append(engines, f.start(nil, async, f.projection("totals", 1, r.handler(i))))
		evenly()
		f.payMany(30)
	}
	f.waitFor(engines[0], "totals", f.payMany(100))
	f.check(1)
	s, err := engines[2].Status(t.Context(), "totals")
	if err != nil || len(s.Partitions) != n || s.Lag != 0 || s.Behind != 0 {
		t.Errorf("status %+v, %v", s, err)
	}
	f.stop(engines[1])
	engines = slices.Delete(engines, 1, 2)
	evenly()
	f.waitFor(engines[0], "totals", f.payMany(100))
	f.check(1)
	for i := range 3 {
		if len(r.seen[i]) == 0 {
			t.Errorf("engine %d has handled nothing", i)
		}
	}
}

// The number of partitions changes several times, while events are appended and an engine runs that
// was given another number: every event takes effect once.
func TestPartitionsChange(t *testing.T) { onEach(t, testPartitionsChange) }

func testPartitionsChange(t *testing.T, f *fixture) {
	first := f.start(nil, &projection.Async{MaxBatch: 5, Backoff: time.Millisecond}, f.projection("totals", 1, nil))
	f.waitFor(first, "totals", f.payMany(f.rounds(100)))
	var appends sync.WaitGroup
	var last mainstem.Position
	done := make(chan struct{})
	appends.Go(func() { last = f.payUntil(done) })
	for _, n := range []int{4, 16, 3, 1, 7} {
		e := f.start(nil, &projection.Async{Partitions: n, MaxBatch: 1 + rand.IntN(9), Backoff: time.Millisecond}, f.projection("totals", 1, nil))
		testkit.Eventually(t, fmt.Sprintf("%d partitions", n), func() bool {
			s, err := e.Status(t.Context(), "totals")
			return err == nil && len(s.Partitions) == n && s.Err == nil
		})
		if n == 16 { // one that ends at once, within steps and commits
			f.stop(e)
		}
	}
	close(done)
	appends.Wait()
	f.waitFor(first, "totals", last)
	f.check(1)
	var names []string
	for cp, err := range f.store.Checkpoints(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, cp.Name)
	}
	if len(names) != 7 {
		t.Errorf("checkpoints %v: want those of 7 partitions", names)
	}
}

// The partitions of an engine that can no longer reach the log go to others, and its commits under
// way are not written.
func TestPartitionsOfTheDead(t *testing.T) { onEach(t, testPartitionsOfTheDead) }

func testPartitionsOfTheDead(t *testing.T, f *fixture) {
	cut := &cutLog{Log: f.log}
	store, err := event.Open(cut, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	dead := &fixture{t: t, log: cut, store: store, types: f.types, totals: f.totals}
	async := &projection.Async{Partitions: 6, Backoff: time.Millisecond}
	o := &projection.Options{TTL: 400 * time.Millisecond}
	a := dead.start(o, async, f.projection("totals", 1, nil))
	f.waitFor(a, "totals", f.payMany(f.rounds(50)))
	b := f.start(o, async, f.projection("totals", 1, nil))
	testkit.Eventually(t, "the second engine to have its share", func() bool { return projection.AtWork(b, "totals") == 3 })
	cut.set(true)
	last := f.payMany(f.rounds(50))
	f.waitFor(b, "totals", last)
	if n := projection.AtWork(b, "totals"); n < 6 {
		testkit.Eventually(t, "all partitions to have moved", func() bool { return projection.AtWork(b, "totals") == 6 })
	}
	f.check(1)
	cut.set(false) // it comes back, and gets its share again
	testkit.Eventually(t, "both to have their share", func() bool {
		return projection.AtWork(a, "totals") == 3 && projection.AtWork(b, "totals") == 3
	})
	f.waitFor(b, "totals", f.payMany(f.rounds(50)))
	f.check(1)
}

// cutLog is a log that can be out of reach.
type cutLog struct {
	mainstem.Log
	mu      sync.Mutex
	cut     bool
	refused int // number of commits while it was out of reach
}

// await waits until a commit was refused.
func (l *cutLog) await(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "a commit to be refused", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.refused > 0
	})
}

func (l *cutLog) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *cutLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	l.mu.Lock()
	cut := l.cut
	if cut {
		l.refused++
	}
	l.mu.Unlock()
	if cut {
		return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Err: errors.New("cut"), Outcome: mainstem.NotWritten}
	}
	return l.Log.Commit(ctx, b)
}

// A faulted partition does not stop the others, and Skip lets it continue after the event.
func TestFaultOfOnePartition(t *testing.T) { onEach(t, testFaultOfOnePartition) }

func testFaultOfOnePartition(t *testing.T, f *fixture) {
	handle := func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		if ev.Customer == "poison" {
			return errors.New("as asked")
		}
		return f.add(ctx, tx, ev, r)
	}
	e := f.start(&projection.Options{RestartAfter: -1}, &projection.Async{Partitions: 4, Attempts: 1}, f.projection("totals", 1, handle))
	at := f.pay(1, "poison", 1) - 1
	delete(f.want, "poison")
	f.inState(e, "totals", projection.Faulted)
	var last mainstem.Position
	for stream := range 20 {
		last = f.pay(stream, "x", 1)
	}
	stuck := event.PartitionOf("order-1", 4)
	testkit.Eventually(t, "the other partitions to go on", func() bool {
		s, err := e.Status(t.Context(), "totals")
		if err != nil {
			t.Fatal(err)
		}
		late := 0
		for i := range 20 {
			if event.PartitionOf(fmt.Sprint("order-", i), 4) == stuck {
				late += 2
			}
		}
		return s.Lag == uint64(late)+2 // the poison, and noise after it
	})
	other, err := projection.Open(f.store, f.types, nil) // as the command line: it runs nothing
	if err != nil {
		t.Fatal(err)
	}
	s, err := other.Status(t.Context(), "totals")
	if err != nil || s.State != projection.Faulted || s.Err == nil || s.Partitions[stuck].Err == nil {
		t.Errorf("from another process: %+v, %v", s, err)
	}
	skipped, err := other.Skip(t.Context(), "totals")
	if err != nil || len(skipped) != 1 || skipped[0].Stream != "order-1" || skipped[0].Position != at {
		t.Fatalf("skipped %+v, %v", skipped, err)
	}
	f.waitFor(e, "totals", last)
	f.check(1)
	if s, err = other.Status(t.Context(), "totals"); err != nil || s.State != projection.Stopped || s.Parked != 1 || s.Lag != 0 {
		t.Errorf("after Skip: %+v, %v", s, err)
	}
	if _, err := other.Skip(t.Context(), "totals"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("another Skip: %v, want NotFound", err)
	}
}

// An engine stops while the log is unavailable, whether it waits for its membership or for leases.
func TestStopWithoutTheLog(t *testing.T) {
	for _, joined := range []bool{false, true} {
		t.Run(fmt.Sprint("joined ", joined), func(t *testing.T) {
			cut := &cutLog{Log: testengines.Memory(t)}
			f := newFixtureOn(t, cut)
			async := &projection.Async{Partitions: 4, Backoff: time.Millisecond}
			first := f.start(nil, async, f.projection("totals", 1, nil)) // writes the control row
			f.waitFor(first, "totals", f.payMany(5))
			if !joined {
				f.stop(first)
				cut.set(true)
				first = f.start(nil, async, f.projection("totals", 1, nil))
				cut.await(t)
			}
			cut.set(true)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := first.Stop(ctx); err != nil {
				t.Error(err)
			}
			cut.set(false)
		})
	}
}
