package eventcmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/claims"
)

// The kinds of subscriptions. All are readers of a store whose place is in the log; they differ in
// where their handlers are.
const (
	ofCheckpoint = "checkpoint" // a handler in a program: Store.Subscribe
	ofProjection = "projection" // a projection, or a partition of one
	ofSaga       = "saga"       // a type of sagas
	ofClaims     = "claims"     // consumers that claim events, over HTTP
)

// standing says where a subscription stands.
type standing struct {
	name, kind  string
	position    mainstem.Position // everything up to it is handled, or put aside
	lag, parked int               // maxLag at the most
	updated     time.Time         // when a checkpoint was written
	owner       string            // and by which process

	claims *claims.Info // nil: it is none with claims
}

// maxLag is how many events are counted at the most.
const maxLag = 100_000

// subscriber is a subscription of any kind, as commands administer it.
type subscriber interface {
	standing(ctx context.Context) (standing, error)
	// reset makes the subscription go on after a position.
	reset(ctx context.Context, after mainstem.Position) error
	parked(ctx context.Context) iter.Seq2[event.Parked, error]
	// next returns the first event that is not handled, NotFound if there is none.
	next(ctx context.Context) (event.Parked, error)
	// skip puts aside what next has returned; Conflict if it is not the first any more.
	skip(ctx context.Context, p event.Parked) error
	// drop removes parked events for good, and returns how many were there. If each is a commit of its own, it calls
	// progress with how many are done.
	drop(ctx context.Context, chosen []event.Parked, progress func(done int)) (int, error)
	// retry gives parked events to the consumers again; left: there was no place for all.
	retry(ctx context.Context, chosen []event.Parked) (n int, left bool, err error)
	// filter returns which events it selects.
	filter(ctx context.Context) (event.Filter, error)
	// managed returns an error if other commands must be used to change it.
	managed(op string) error
}

// checkpointed is a subscription with a checkpoint.
type checkpointed struct {
	store      *event.Store
	cp         event.Checkpoint
	kind       string
	projection string // that it belongs to, if its kind says so
}

func newCheckpointed(ctx context.Context, s *event.Store, e *projection.Engine, cp event.Checkpoint) (*checkpointed, error) {
	c := &checkpointed{store: s, cp: cp, kind: ofCheckpoint}
	if strings.HasPrefix(cp.Name, "saga/") {
		c.kind = ofSaga
		return c, nil
	}
	var err error
	if c.projection, err = e.ProjectionOf(ctx, cp.Name); c.projection != "" {
		c.kind = ofProjection
	}
	return c, err
}

func (c *checkpointed) filter(context.Context) (event.Filter, error) { return c.cp.Filter() }

func (c *checkpointed) standing(ctx context.Context) (standing, error) {
	st := standing{name: c.cp.Name, kind: c.kind, position: c.cp.Position, updated: c.cp.Updated, owner: c.cp.Owner}
	filter, err := c.filter(ctx)
	if err != nil {
		return st, err
	}
	if st.lag, err = countEvents(ctx, c.store, filter, c.cp.Position, 0); err != nil {
		return st, err
	}
	for _, err := range c.parked(ctx) {
		if err != nil {
			return st, err
		}
		if st.parked++; st.parked == maxLag {
			break
		}
	}
	return st, nil
}

// countEvents returns how many events a filter selects between two positions, 0: to the end; maxLag at the most.
func countEvents(ctx context.Context, s *event.Store, f event.Filter, after, upTo mainstem.Position) (n int, err error) {
	for e, err := range s.Feed(ctx, &event.FeedOptions{After: after, Filter: f, Limit: maxLag}) {
		if err != nil {
			return n, err
		}
		if upTo > 0 && e.Position > upTo {
			break
		}
		n++
	}
	return n, nil
}

// resets is how often a checkpoint is moved anew that its subscription moves meanwhile.
const resets = 100

func (c *checkpointed) reset(ctx context.Context, after mainstem.Position) (err error) {
	for range resets {
		var cp event.Checkpoint
		if cp, err = c.store.Checkpoint(ctx, c.cp.Name); err != nil {
			return err
		}
		if err = c.store.MoveCheckpoint(ctx, cp, after); !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
	return err
}

func (c *checkpointed) parked(ctx context.Context) iter.Seq2[event.Parked, error] {
	return c.store.Parked(ctx, c.cp.Name)
}

func (c *checkpointed) next(ctx context.Context) (event.Parked, error) {
	filter, err := c.filter(ctx)
	if err != nil {
		return event.Parked{}, err
	}
	for e, err := range c.store.Feed(ctx, &event.FeedOptions{After: c.cp.Position, Filter: filter, Limit: 1}) {
		return event.Parked{Subscription: c.cp.Name, Stream: e.Stream, Version: e.Version, Position: e.Position}, err
	}
	return event.Parked{}, mainstem.Errorf(mainstem.KindNotFound, "event subscription skip", "subscription %s of the store %s has no event to pass over: all are handled", c.cp.Name, c.store.Name())
}

func (c *checkpointed) skip(ctx context.Context, p event.Parked) error {
	b := mainstem.NewBatch()
	c.store.ParkTo(b, p)
	c.store.MoveCheckpointTo(b, c.cp, p.Position)
	_, err := c.store.Log().Commit(ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		return mainstem.Refusef(mainstem.KindConflict, "event subscription skip", "subscription %s has moved: the event at position %d is not the first any more", c.cp.Name, p.Position)
	}
	return err
}

func (c *checkpointed) drop(ctx context.Context, chosen []event.Parked, progress func(done int)) (n int, err error) {
	for i, p := range chosen {
		progress(i)
		err := c.store.Unpark(ctx, p)
		if errors.Is(err, mainstem.ErrConflict) {
			continue // a program has handled it meanwhile
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (c *checkpointed) retry(context.Context, []event.Parked) (int, bool, error) {
	return 0, false, mainstem.Refusef(mainstem.KindUnsupported, "event subscription retry", "the handler of subscription %s is in a program, which tries its parked events again with Store.RetryParked", c.cp.Name)
}

func (c *checkpointed) managed(op string) error {
	switch c.kind {
	case ofProjection:
		return mainstem.Refusef(mainstem.KindUnsupported, "event subscription "+op, "subscription %s belongs to the projection %s, whose tables would not fit it", c.cp.Name, c.projection).
			WithHint("mainstem projection " + map[string]string{"reset": "rebuild", "skip": "skip"}[op])
	case ofSaga:
		return mainstem.Refusef(mainstem.KindUnsupported, "event subscription "+op, "subscription %s belongs to sagas, whose state would not fit it", c.cp.Name).WithHint("mainstem saga retry")
	}
	return nil
}

// claimed is a subscription with claims.
type claimed struct{ *claims.Subscription }

func (c claimed) filter(ctx context.Context) (event.Filter, error) {
	state, _, err := c.Load(ctx)
	if err != nil {
		return event.Filter{}, err
	}
	return state.Config.Filter, nil
}

func (c claimed) standing(ctx context.Context) (standing, error) {
	in, err := c.Info(ctx)
	if err != nil {
		return standing{}, err
	}
	st := standing{name: c.Name(), kind: ofClaims, position: in.Position, parked: in.Parked, claims: &in}
	st.lag, err = c.Lag(ctx, &in, maxLag)
	return st, err
}

func (c claimed) reset(ctx context.Context, after mainstem.Position) error {
	return c.Reset(ctx, after)
}

func (c claimed) parked(ctx context.Context) iter.Seq2[event.Parked, error] {
	return func(yield func(event.Parked, error) bool) {
		for p, err := range c.Parked(ctx) {
			if !yield(c.asEvent(&p), err) {
				return
			}
		}
	}
}

func (c claimed) asEvent(p *claims.Parked) event.Parked {
	return event.Parked{Subscription: c.Name(), Stream: p.Stream, Version: p.Version, Position: p.Position, Attempts: p.Attempts, Reason: p.Reason, Time: p.Time}
}

func (c claimed) next(ctx context.Context) (event.Parked, error) {
	p, err := c.Next(ctx)
	return c.asEvent(&p), err
}

func (c claimed) skip(ctx context.Context, p event.Parked) error {
	return c.Skip(ctx, p.Position, p.Reason)
}

func (c claimed) drop(ctx context.Context, chosen []event.Parked, _ func(done int)) (int, error) {
	return c.Drop(ctx, positionsOf(chosen)...)
}

func (c claimed) retry(ctx context.Context, chosen []event.Parked) (int, bool, error) {
	return c.Retry(ctx, positionsOf(chosen)...)
}

func (c claimed) managed(string) error { return nil }

func positionsOf(parked []event.Parked) (out []mainstem.Position) {
	for i := range parked {
		out = append(out, parked[i].Position)
	}
	return out
}

// subscribers yields the subscriptions of a store: those with checkpoints, then those with claims, each in the order of
// names; only those called name unless that is "", and only of a kind unless that is "".
func (m commands) subscribers(ctx context.Context, s *event.Store, name, kind string) ([]subscriber, error) {
	var out []subscriber
	e, err := projection.Open(s, event.NewTypes(nil), &projection.Options{Logger: m.Logger()})
	if err != nil {
		return nil, err
	}
	for cp, err := range s.Checkpoints(ctx) {
		if err != nil {
			return nil, err
		}
		if name != "" && cp.Name != name {
			continue
		}
		c, err := newCheckpointed(ctx, s, e, cp)
		if err != nil {
			return nil, err
		}
		if kind == "" || kind == c.kind {
			out = append(out, c)
		}
	}
	if kind != "" && kind != ofClaims {
		return out, nil
	}
	for n, err := range claims.Names(ctx, s) {
		if err != nil {
			return nil, err
		}
		if name != "" && n != name {
			continue
		}
		c, err := claims.Open(s, n)
		if err != nil {
			return nil, err
		}
		out = append(out, claimed{c})
	}
	return out, nil
}

// subscriber returns the subscription called name.
func (m commands) subscriber(ctx context.Context, s *event.Store, name, kind string) (subscriber, error) {
	all, err := m.subscribers(ctx, s, name, kind)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, mainstem.Errorf(mainstem.KindNotFound, "event subscription", "the store %s has no subscription %s", s.Name(), cli.Printable(name))
	case len(all) > 1:
		return nil, mainstem.Errorf(mainstem.KindInvalid, "event subscription", "the store %s has two subscriptions %s: say --kind checkpoint or --kind claims", s.Name(), cli.Printable(name))
	}
	return all[0], nil
}

// choose returns the parked events at positions, all if there are none. One that is not parked is NotFound.
func choose(ctx context.Context, s subscriber, positions []mainstem.Position) (out []event.Parked, err error) {
	for p, err := range s.parked(ctx) {
		if err != nil {
			return nil, err
		}
		if len(positions) == 0 || slices.Contains(positions, p.Position) {
			out = append(out, p)
		}
	}
	for _, at := range positions {
		if !slices.ContainsFunc(out, func(p event.Parked) bool { return p.Position == at }) {
			return nil, mainstem.Errorf(mainstem.KindNotFound, "event subscription", "no event at position %d is parked", at)
		}
	}
	return out, nil
}

// lagText is a number that was counted up to maxLag.
func lagText(n int) string {
	if n >= maxLag {
		return fmt.Sprintf("%d or more", n)
	}
	return cli.Number(n)
}
