package projection_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

// row is what the tests of this file read of a control row.
type row struct {
	Frozen   bool              `json:"frozen"`
	Aligning bool              `json:"aligning"`
	Upto     mainstem.Position `json:"upto"`
	Tables   string            `json:"tables"`
}

// rowLog is a log that keeps the control rows that were committed.
type rowLog struct {
	mainstem.Log
	mu   sync.Mutex
	rows []row
}

func (l *rowLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := l.Log.Commit(ctx, b)
	if err != nil {
		return r, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range b.Writes() {
		if w.Space != controlSpace {
			continue
		}
		var now row
		if err := json.Unmarshal(w.Value, &now); err != nil {
			return r, err
		}
		l.rows = append(l.rows, now)
	}
	return r, nil
}

// all returns the rows so far.
func (l *rowLog) all() []row {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]row(nil), l.rows...)
}

// checkAligned checks that partitions, or tables, were exchanged, and that no set was to end at 0,
// which means that it does not end: its commits would be undone by the end of the change.
func (l *rowLog) checkAligned(t *testing.T) {
	t.Helper()
	frozen := false
	for _, r := range l.all() {
		frozen = frozen || r.Frozen
		if r.Aligning && r.Upto == 0 {
			t.Error("the row says Aligning, and has no position to align to")
		}
	}
	if !frozen {
		t.Error("the row was never Frozen")
	}
}

// A change of partitions before anything was handled: every event takes effect once.
func TestPartitionsChangeAtZero(t *testing.T) {
	l := &rowLog{Log: testengines.Memory(t)}
	f := newFixtureOn(t, l)
	async := &projection.Async{Backoff: time.Millisecond}
	e := f.start(nil, async, f.projection("totals", 1, nil))
	f.inState(e, "totals", projection.Running)
	e = f.start(nil, &projection.Async{Partitions: 3, Backoff: time.Millisecond}, f.projection("totals", 1, nil))
	testkit.Eventually(t, "3 partitions", func() bool {
		s, err := e.Status(t.Context(), "totals")
		return err == nil && len(s.Partitions) == 3
	})
	f.waitFor(e, "totals", f.payMany(50))
	f.check(1)
	l.checkAligned(t)
}

// A blue/green rebuild before anything was handled, by a projection that is paused: every event
// takes effect once.
func TestRebuildBesideAtZero(t *testing.T) {
	l := &rowLog{Log: testengines.Memory(t)}
	f := newBesideOn(t, newFixtureOn(t, l))
	e := f.start(nil, &projection.Async{Partitions: 2, Backoff: time.Millisecond}, f.projection(1, 1))
	f.inState(e, "sums", projection.Running)
	if err := e.Pause(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	if err := e.Rebuild(t.Context(), "sums", nil); err != nil {
		t.Fatal(err)
	}
	last := f.payMany(50)
	if err := e.Resume(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	f.waitFor(e, "sums", last)
	f.check(1)
	l.checkAligned(t)
}

// Engines of two versions with other tables run at the same time, as in a rolling upgrade: the row
// has the tables of the newer version and stays the same.
func TestDescriptionOfTwoVersions(t *testing.T) {
	l := &rowLog{Log: testengines.Memory(t)}
	f := newBesideOn(t, newFixtureOn(t, l))
	more, err := readmodel.OpenAlias(f.log, "shop/more", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	if err != nil {
		t.Fatal(err)
	}
	one := f.start(nil, nil, f.projection(1, 1))
	f.waitFor(one, "sums", f.pay(1, "x", 1))
	two := f.start(nil, nil, f.projection(2, 2).WithTables(more))
	f.inState(two, "sums", projection.Faulted)
	f.inState(f.start(nil, nil, f.projection(1, 1)), "sums", projection.Running)
	for range 50 {
		f.waitFor(one, "sums", f.pay(1, "x", 1))
	}
	f.check(1)
	rows := l.all()
	if last := rows[len(rows)-1]; len(rows) != 2 || last.Tables != "shop/sums,shop/more" {
		t.Errorf("the row was written %d times, want 2; its tables are %s", len(rows), last.Tables)
	}
	// A rebuild by the older version builds its own tables.
	if err := one.Rebuild(t.Context(), "sums", nil); err != nil {
		t.Fatal(err)
	}
	rows = l.all()
	if last := rows[len(rows)-1]; last.Tables != "shop/sums" {
		t.Errorf("after a rebuild by version 1 the tables are %s", last.Tables)
	}
	f.check(1)
}

// A rebuild beside ends while a change of partitions waits for the end of a pause, and makes that
// change too.
func TestRebuildBesideWhilePausedInAChange(t *testing.T) {
	l := &rowLog{Log: testengines.Memory(t)}
	f := newBesideOn(t, newFixtureOn(t, l))
	var late atomic.Bool // the events of the customer late cannot be handled
	late.Store(true)
	p := func() *projection.Projection {
		add := func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			if ev.Customer == "late" && late.Load() {
				return mainstem.Errorf(mainstem.KindUnavailable, "test", "as asked")
			}
			return projection.Modify(ctx, tx, f.sums, ev.Customer, func(old total, _ bool) (total, error) {
				return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
			})
		}
		p, err := projection.New("sums", 1, event.Filter{Category: "order"}, projection.On(add))
		if err != nil {
			t.Fatal(err)
		}
		return p.WithTables(f.sums)
	}
	stuck, other := 1, 2 // streams of two partitions
	for event.PartitionOf(fmt.Sprint("order-", other), 3) == event.PartitionOf(fmt.Sprint("order-", stuck), 3) {
		other++
	}
	e := f.start(nil, &projection.Async{Partitions: 3, Backoff: time.Millisecond}, p())
	f.pay(stuck, "late", 1)
	last := f.pay(other, "x", 1)
	ahead := fmt.Sprint("sums#", event.PartitionOf(fmt.Sprint("order-", other), 3))
	testkit.Eventually(t, "the other partition to be ahead", func() bool { return f.position(ahead) >= last-1 })
	if err := e.Pause(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	e = f.start(nil, &projection.Async{Partitions: 2, Backoff: time.Millisecond}, p())
	testkit.Eventually(t, "the change to wait", func() bool {
		rows := l.all()
		return rows[len(rows)-1].Aligning
	})
	late.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Rebuild(ctx, "sums", nil); err != nil {
		t.Fatal(err)
	}
	f.check(1)
	if err := e.Resume(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	f.waitFor(e, "sums", f.payMany(10))
	f.check(1)
	if s, err := e.Status(t.Context(), "sums"); err != nil || len(s.Partitions) != 2 {
		t.Errorf("%+v, %v: want 2 partitions", s, err)
	}
}

// The lease of a rebuild in place is lost while a Clear runs that takes no notice of it: the only
// engine gets another lease and finishes the rebuild, whether Rebuild waits for it or not.
func TestRebuildInPlaceLosesItsLease(t *testing.T) {
	for _, noWait := range []bool{false, true} {
		t.Run(fmt.Sprint("NoWait ", noWait), func(t *testing.T) {
			f := newFixture(t)
			leases, err := kv.Open[[]byte](f.log, "projection-leases/shop", nil)
			if err != nil {
				t.Fatal(err)
			}
			var calls atomic.Int64
			p := f.projection("totals", 1, nil).WithClear(func(ctx context.Context) error {
				if calls.Add(1) == 1 {
					for key, err := range leases.Keys(t.Context(), &kv.Query{Prefix: "member/"}) {
						if err := errors.Join(err, leases.Delete(t.Context(), key)); err != nil { // as other members do with one that is silent
							t.Error(err)
						}
					}
					<-ctx.Done()
				}
				return f.totals.Clear(context.WithoutCancel(ctx))
			})
			e := f.start(&projection.Options{TTL: 400 * time.Millisecond}, &projection.Async{Backoff: time.Millisecond}, p)
			f.waitFor(e, "totals", f.payMany(20))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := e.Rebuild(ctx, "totals", &projection.RebuildOptions{InPlace: true, NoWait: noWait}); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the rebuild to end", func() bool {
				s, err := e.Status(t.Context(), "totals")
				return err == nil && s.State == projection.Running && calls.Load() > 1
			})
			f.waitFor(e, "totals", f.payMany(5))
			f.check(1)
		})
	}
}
