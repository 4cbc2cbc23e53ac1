package projection_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// Random programs of appends, batches, failures, rebuilds and restarts: after each step the rows
// are equal to a replay of the events, and a failed append has left no rows.
func TestInlineProgramsEqualReplays(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		for seed := range uint64(3) {
			f := newFixtureOn(t, log)
			p := &program{fixture: f, rnd: rand.New(rand.NewPCG(7, seed))}
			if err := errors.Join(f.store.Drop(t.Context()), f.totals.Clear(t.Context())); err != nil {
				t.Fatal(err)
			}
			p.reopen()
			for i := range 40 {
				p.step()
				if !p.equalsReplay() {
					t.Fatalf("seed %d, step %d: the rows are not those of a replay", seed, i)
				}
			}
		}
	})
}

// program is a random program.
type program struct {
	*fixture
	rnd *rand.Rand
	s   *projection.InlineStore
}

var errRefused = errors.New("refused")

func (p *program) reopen() {
	handle := func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		switch {
		case ev.Cents == 13:
			return errRefused
		case ev.Cents%10 == 0 && ev.Cents > 0: // the account is closed
			if _, err := projection.Get(ctx, tx, p.totals, ev.Customer); err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				return err
			}
			projection.Delete(tx, p.totals, ev.Customer)
			return nil
		}
		return p.add(ctx, tx, ev, r)
	}
	p.s = p.inline(nil, p.projection("totals", 1, handle))
}

func (p *program) stream() string { return fmt.Sprint("order-", p.rnd.IntN(4)) }

func (p *program) some() []event.Event {
	evs := make([]event.Event, 1+p.rnd.IntN(3))
	for i := range evs {
		evs[i] = p.event(fmt.Sprint("customer", p.rnd.IntN(3)), p.rnd.IntN(31))
	}
	return evs
}

func (p *program) expected() event.Expected {
	return []event.Expected{event.AnyVersion, event.AnyVersion, event.StreamExists, event.NoStream, event.Expected(p.rnd.IntN(8))}[p.rnd.IntN(5)]
}

// allowed are the errors that an append may have.
func (p *program) allowed(err error) {
	var refused *event.InlineError
	if errors.As(err, &refused) || err != nil && !errors.Is(err, errRefused) && !errors.Is(err, mainstem.ErrConflict) && !errors.Is(err, mainstem.ErrNotFound) {
		p.t.Helper()
		p.t.Error(err)
	}
}

func (p *program) step() {
	ctx := p.t.Context()
	switch n := p.rnd.IntN(20); {
	case n < 10:
		evs := p.some()
		_, err := p.s.Append(ctx, p.stream(), p.expected(), evs)
		p.allowed(err)
	case n < 16:
		b := mainstem.NewBatch()
		for range 1 + p.rnd.IntN(4) {
			if p.s.AppendTo(ctx, b, p.stream(), p.expected(), p.some()) != nil {
				break
			}
		}
		_, err := p.log.Commit(ctx, b)
		p.allowed(err)
	case n == 16:
		_, err := p.store.Append(ctx, p.stream(), event.AnyVersion, p.some())
		if !errors.Is(err, mainstem.ErrUnavailable) {
			p.t.Errorf("an append without the projection: %v", err)
		}
	case n == 17:
		p.reopen()
	case n == 18:
		if err := p.s.Rebuild(ctx, "totals"); err != nil {
			p.t.Error(err)
		}
	default:
		if err := projection.RemoveInline(ctx, p.store, "totals"); err != nil {
			p.t.Error(err)
		}
		p.reopen()
	}
}

// equalsReplay computes the rows from the events.
func (p *program) equalsReplay() bool {
	p.want = make(map[string]total)
	for r, err := range p.store.Feed(p.t.Context(), nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		v, err := p.types.Decode(r)
		if err != nil {
			p.t.Fatal(err)
		}
		ev := v.(paid)
		if ev.Cents == 13 {
			p.t.Errorf("an event that the handler refused was written: %+v", r)
		}
		if ev.Cents%10 == 0 && ev.Cents > 0 {
			delete(p.want, ev.Customer)
			continue
		}
		p.expect(ev.Customer, ev.Cents)
	}
	p.check(1)
	return !p.t.Failed()
}
