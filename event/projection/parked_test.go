package projection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// parking is a fixture with a projection that cannot handle the events of some customers.
type parking struct {
	*beside
	broken atomic.Pointer[[]string]
	stuck  atomic.Bool // the events of the customer stuck are tried without end
}

func newParking(f *fixture) *parking {
	p := &parking{beside: newBesideOn(f.t, f)}
	p.breaks()
	return p
}

// breaks sets the customers whose events cannot be handled.
func (f *parking) breaks(customers ...string) { f.broken.Store(&customers) }

// begin starts an engine with partitions.
func (f *parking) begin(partitions int) *projection.Engine {
	f.t.Helper()
	async := &projection.Async{Partitions: partitions, Attempts: 1, OnPoison: event.ParkPoison, Backoff: time.Millisecond}
	return f.start(nil, async, f.sumsOf(f.sums).WithTables(f.sums))
}

// sumsOf returns the projection, into a model.
func (f *parking) sumsOf(model readmodel.Model[total]) *projection.Projection {
	f.t.Helper()
	add := func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
		if slices.Contains(*f.broken.Load(), ev.Customer) {
			return errors.New("as asked")
		}
		if ev.Customer == "stuck" && f.stuck.Load() {
			return mainstem.Errorf(mainstem.KindUnavailable, "test", "as asked")
		}
		return projection.Modify(ctx, tx, model, ev.Customer, func(old total, _ bool) (total, error) {
			return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
		})
	}
	p, err := projection.New("sums", 1, event.Filter{Category: "order"}, projection.On(add))
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *parking) status(e *projection.Engine) projection.Status {
	f.t.Helper()
	s, err := e.Status(f.t.Context(), "sums")
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// checkParked compares the parked events, by customer, with want: those of Status, and those at the
// subscriptions of n partitions. No others may be left.
func (f *parking) checkParked(e *projection.Engine, n int, want ...string) {
	f.t.Helper()
	if s := f.status(e); s.Parked != uint64(len(want)) || len(s.Partitions) != n {
		f.t.Errorf("%d parked of %d partitions: want %d of %d", s.Parked, len(s.Partitions), len(want), n)
	}
	testkit.Eventually(f.t, fmt.Sprint("only ", want, " to be parked"), func() bool { // tables that were given up are removed later
		var got []string
		for p, err := range f.store.ParkedUnder(f.t.Context(), "sums") {
			if err != nil {
				f.t.Fatal(err)
			}
			name := "sums"
			if n > 1 {
				name = fmt.Sprint("sums#", event.PartitionOf(p.Stream, n))
			}
			if p.Subscription != name {
				return false
			}
			got = append(got, f.customer(p))
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// customer returns the customer of a parked event.
func (f *parking) customer(p event.Parked) string {
	evs, err := f.store.Load(f.t.Context(), p.Stream, &event.LoadOptions{From: p.Version, To: p.Version})
	if err != nil || len(evs) != 1 {
		f.t.Fatal(evs, err)
	}
	v, err := f.types.Decode(evs[0])
	if err != nil {
		f.t.Fatal(err)
	}
	return v.(paid).Customer
}

// Events that a blue/green rebuild parks are parked at the subscriptions of the projection when the
// new tables are read.
func TestRebuildBesideKeepsWhatItParks(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " partitions"), func(t *testing.T) {
			onEach(t, func(t *testing.T, f *fixture) { rebuildParks(t, newParking(f), n) })
		})
	}
}

func rebuildParks(t *testing.T, f *parking, n int) {
	e := f.begin(n)
	f.breaks("twice")
	f.pay(1, "twice", 1) // parked at first, and by the rebuild too
	f.pay(2, "once", 1)
	f.waitFor(e, "sums", f.payMany(10))
	f.breaks("once", "twice")
	if err := e.Rebuild(t.Context(), "sums", nil); err != nil {
		t.Fatal(err)
	}
	f.checkParked(e, n, "once", "twice")
	handled := 0
	for _, p := range f.status(e).Partitions {
		n, err := f.store.RetryParked(t.Context(), p.Subscription, func(context.Context, *mainstem.Batch, event.Recorded) error { return nil })
		if handled += n; err != nil {
			t.Fatal(err)
		}
	}
	if handled != 2 {
		t.Errorf("RetryParked has handled %d, want 2", handled)
	}
	f.checkParked(e, n)
}

// A rebuild that handles a parked event ends its parking, so that it does not take effect twice.
func TestRebuildDropsWhatItHandles(t *testing.T) {
	for what, o := range map[string]projection.RebuildOptions{"beside": {}, "in place": {InPlace: true}, "up to a position": {To: 1}, "in part": {From: 1}} {
		t.Run(what, func(t *testing.T) {
			f := newParking(newFixture(t))
			e := f.begin(2)
			f.breaks("early", "late")
			early := f.pay(1, "early", 1)
			last := f.pay(2, "late", 1)
			f.waitFor(e, "sums", last)
			f.checkParked(e, 2, "early", "late")
			f.breaks()
			var left []string
			if o.To > 0 {
				o.To = last
			}
			if o.From > 0 { // not handled again, so it is still missing
				o.From, left = early, []string{"early"}
				delete(f.want, "early")
			}
			if err := e.Rebuild(t.Context(), "sums", &o); err != nil {
				t.Fatal(err)
			}
			if err := e.Resume(t.Context(), "sums"); err != nil {
				t.Fatal(err)
			}
			f.waitFor(e, "sums", last)
			f.check(1)
			f.checkParked(e, 2, left...)
		})
	}
}

// What is parked moves with its stream when the number of partitions changes.
func TestPartitionsMoveWhatIsParked(t *testing.T) {
	f := newParking(newFixture(t))
	f.breaks("a", "b", "c")
	var e *projection.Engine
	for i, n := range []int{4, 2, 1, 3} {
		e = f.begin(n)
		if i == 0 {
			for stream, customer := range *f.broken.Load() {
				f.pay(stream, customer, 1)
			}
			f.waitFor(e, "sums", f.payMany(10))
		}
		testkit.Eventually(t, fmt.Sprintf("%d partitions", n), func() bool {
			return len(f.status(e).Partitions) == n
		})
		f.checkParked(e, n, "a", "b", "c")
	}
}

// A rebuild that is given up leaves nothing parked.
func TestRebuildGivenUpLeavesNothingParked(t *testing.T) {
	f := newParking(newFixture(t))
	e := f.begin(1)
	f.pay(1, "a", 1)
	f.waitFor(e, "sums", f.pay(1, "stuck", 1))
	f.breaks("a")
	f.stuck.Store(true)
	if err := e.Rebuild(t.Context(), "sums", &projection.RebuildOptions{NoWait: true}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the rebuild to park an event", func() bool {
		for _, err := range f.store.Parked(t.Context(), "sums@v2") {
			return err == nil
		}
		return false
	})
	if s := f.status(e); s.Parked != 0 {
		t.Errorf("%d parked, although the tables that are read have all", s.Parked)
	}
	if err := e.Rebuild(t.Context(), "sums", &projection.RebuildOptions{InPlace: true, NoWait: true}); err != nil {
		t.Fatal(err)
	}
	f.breaks()
	f.stuck.Store(false)
	f.waitFor(e, "sums", f.pay(1, "b", 1))
	f.checkParked(e, 1)
	f.check(1)
}

// partLog is a log that fails every second commit that parks or unparks events.
type partLog struct {
	mainstem.Log
	commits atomic.Int64
}

func (l *partLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	parks := slices.ContainsFunc(b.Writes(), func(w mainstem.Write) bool { return strings.HasPrefix(w.Space, "event.parked/") })
	if parks && l.commits.Add(1)%2 == 0 {
		return mainstem.Receipt{}, mainstem.Errorf(mainstem.KindUnavailable, "commit", "as asked")
	}
	return l.Log.Commit(ctx, b)
}

// More events are parked than one commit drops or moves, and commits fail in between: the result is
// the same.
func TestRebuildOfManyParked(t *testing.T) {
	projection.SetMaxRepark(t, 2)
	l := &partLog{Log: testengines.Memory(t)}
	f := newParking(newFixtureOn(t, l))
	e := f.begin(3)
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	f.breaks(all...)
	for stream, customer := range all {
		f.pay(stream, customer, 1)
	}
	f.waitFor(e, "sums", f.payMany(5))
	f.checkParked(e, 3, all...)
	f.breaks(all[2:]...)
	if err := e.Rebuild(t.Context(), "sums", nil); err != nil {
		t.Fatal(err)
	}
	f.checkParked(e, 3, all[2:]...)
	e = f.begin(2)
	testkit.Eventually(t, "2 partitions", func() bool { return len(f.status(e).Partitions) == 2 })
	f.checkParked(e, 2, all[2:]...)
	f.breaks()
	testkit.Succeeds(t, "a rebuild in place", func() error {
		return e.Rebuild(t.Context(), "sums", &projection.RebuildOptions{InPlace: true})
	})
	f.checkParked(e, 2)
	f.waitFor(e, "sums", f.payMany(5))
	f.check(1)
	if l.commits.Load() < 20 {
		t.Errorf("%d commits: the test has proved nothing", l.commits.Load())
	}
}

// What an engine has parked is handled by the rebuild of the projection once it is inline, and no longer parked.
func TestInlineRebuildLeavesNothingParked(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		t.Run(fmt.Sprint("in place ", inPlace), func(t *testing.T) {
			f := newParking(newFixture(t))
			p := f.sumsOf(f.sums).WithTables(f.sums)
			if inPlace {
				p = f.sumsOf(f.totals).WithClear(f.totals.Clear)
			}
			f.breaks("bad")
			f.pay(1, "good", 1)
			f.pay(2, "bad", 1)
			e, err := projection.Open(f.store, f.types, &projection.Options{Logger: discard})
			if err == nil {
				err = e.Register(p, &projection.Async{Attempts: 1, OnPoison: event.ParkPoison, Backoff: time.Millisecond})
			}
			if err := errors.Join(err, e.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			f.waitFor(e, "sums", f.pay(1, "good", 1))
			f.checkParked(e, 1, "bad")
			f.stop(e)
			f.breaks()

			s, err := projection.OpenInline(t.Context(), f.store, f.types, &projection.InlineOptions{Logger: discard}, p)
			if err == nil {
				err = s.Rebuild(t.Context(), "sums")
			}
			if err != nil {
				t.Fatal(err)
			}
			if inPlace {
				f.fixture.check(1)
			} else {
				f.beside.check(1)
			}
			for parked, err := range f.store.ParkedUnder(t.Context(), "sums") {
				t.Errorf("left: %+v, %v", parked, err)
			}
			for parked, err := range f.store.Parked(t.Context(), "sums") {
				t.Errorf("left: %+v, %v", parked, err)
			}
		})
	}
}
