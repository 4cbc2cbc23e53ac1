package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/kv"
)

// dying is the log of a process that ends after a number of its commits: later commits fail.
type dying struct {
	mainstem.Log
	left    atomic.Int64
	holding bool // it dies after the commit that holds appends, whatever left says
	dead    atomic.Bool
}

var errDead = &mainstem.Error{Kind: mainstem.KindClosed, Op: "commit", Outcome: mainstem.NotWritten}

func (l *dying) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if l.dead.Load() || !l.holding && l.left.Add(-1) < 0 {
		return mainstem.Receipt{}, errDead
	}
	r, err := l.Log.Commit(ctx, b)
	for _, w := range b.Writes() {
		if l.holding && err == nil && strings.HasPrefix(w.Space, "event.tag/") && bytes.Contains(w.Value, []byte(`"holding"`)) {
			l.dead.Store(true)
		}
	}
	return r, err
}

// A process that ends after any of its commits, while it opens the store or rebuilds, leaves a
// state from which the next one continues, and no event is lost or counted twice.
func TestInlineProcessDies(t *testing.T) {
	for name, work := range map[string]func(f *fixture) error{
		"open": func(f *fixture) error { _, err := f.tryInline(nil, f.projection("totals", 1, nil)); return err },
		"open with a new version": func(f *fixture) error {
			_, err := f.tryInline(&projection.InlineOptions{Rebuild: true}, f.projection("totals", 2, nil))
			return err
		},
		"remove": func(f *fixture) error { return projection.RemoveInline(f.t.Context(), f.store, "totals") },
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(0); ; n++ {
				f := newFixture(t)
				f.payMany(3)
				version := 1
				if name != "open" {
					f.mustPayInline(f.inline(nil, f.projection("totals", 1, nil)), 3)
				}
				if name == "open with a new version" {
					version = 2
				}
				log := &dying{Log: f.log}
				log.left.Store(n)
				err := work(f.on(log))
				if err == nil && log.left.Load() >= 0 {
					if n < 2 {
						t.Errorf("it needs %d commits: the test has proved nothing", n)
					}
					return
				}
				if err != nil && !errors.Is(err, mainstem.ErrClosed) {
					t.Fatalf("dead after %d commits: %v", n, err)
				}
				if plain, err := event.Open(f.log, "shop", nil); err != nil {
					t.Fatal(err)
				} else if _, err := plain.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{f.event("ann", 1)}); err == nil {
					f.expect("ann", 1)
				} else if !errors.Is(err, mainstem.ErrUnavailable) {
					t.Fatal(err)
				}
				f.expireClaims()
				s := f.inline(&projection.InlineOptions{Rebuild: true}, f.projection("totals", version, nil))
				f.mustPayInline(s, 3)
				f.check(1)
				if t.Failed() {
					t.Fatalf("dead after %d commits", n)
				}
			}
		})
	}
}

// expireClaims removes the claim that an ended process holds, which would expire later.
func (f *fixture) expireClaims() {
	f.t.Helper()
	claims, err := kv.Open[string](f.log, "projection.rebuild/shop", nil)
	if err == nil {
		err = claims.Delete(f.t.Context(), "totals")
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// on returns what another process has of the log.
func (f *fixture) on(log mainstem.Log) *fixture {
	f.t.Helper()
	return newFixtureOn(f.t, log)
}

// An append that finds a projection Holding after the end of another process switches it on.
func TestInlineAppendFinishes(t *testing.T) {
	f := newFixture(t)
	s := f.inline(nil, f.projection("totals", 1, nil))
	f.mustPayInline(s, 10)
	log := &dying{Log: f.log, holding: true}
	other := f.on(log)
	rebuilt, err := projection.OpenInline(t.Context(), other.store, other.types, nil, other.projection("totals", 1, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := rebuilt.Rebuild(t.Context(), "totals"); !errors.Is(err, mainstem.ErrClosed) {
		t.Fatalf("the process that dies: %v", err)
	}
	if st := f.inlineStatus("totals"); st.State != projection.CatchingUp {
		t.Fatalf("it left %+v", st)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			if err := f.payInline(s, g, "ann", g); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if st := f.inlineStatus("totals"); st.State != projection.Running {
		t.Errorf("after the appends: %+v", st)
	}
	f.check(1)
}

// An event that cannot be handled, and that is appended just before appends are held, does not keep
// them held.
func TestInlinePoisonWhileHeld(t *testing.T) {
	f := newFixture(t)
	f.payMany(3)
	no := errors.New("no")
	var once sync.Once
	var held atomic.Bool
	poison := f.projection("poison", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		if ev.Cents == -1 {
			all, err := projection.InlineStatuses(ctx, f.store)
			if err == nil && len(all) == 1 && all[0].State == projection.CatchingUp {
				held.Store(true)
			}
			return errors.Join(no, err)
		}
		once.Do(func() { // after the position up to which everything is handled before appends are held
			if _, err := f.store.Append(ctx, "order-1", event.AnyVersion, []event.Event{f.event("ann", -1)}); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	if _, err := f.tryInline(nil, poison); !errors.Is(err, no) {
		t.Errorf("%v, want %v", err, no)
	}
	if _, err := f.store.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{f.event("ann", 1)}); err != nil {
		t.Errorf("an append without the projection that could not be switched on (held: %v): %v", held.Load(), err)
	}
}

// Again is false for errors that another try cannot resolve.
func TestInlineAgain(t *testing.T) {
	f := newFixture(t)
	s := f.inline(&projection.InlineOptions{Retries: -1}, f.projection("totals", 1, nil))
	row := &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Space: "kv/shop/totals", Key: []byte("ann"), Outcome: mainstem.NotWritten}
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"a row, without retries": {row, false},
		"another kind":           {errDead, false},
		"none":                   {nil, false},
	} {
		if got := s.Again(t.Context(), "order-1", c.err, 1); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	s = f.inline(nil, f.projection("totals", 1, nil))
	if !s.Again(t.Context(), "order-1", fmt.Errorf("wrapped: %w", row), 1) || s.Again(t.Context(), "order-1", row, projection.DefaultRetries+1) {
		t.Error("a row")
	}
	if s.Again(canceled(), "order-1", row, 1) {
		t.Error("a context that has ended")
	}
}
