package projection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/kv"
)

// ReplayOptions configure [Engine.Replay]. Nil and zero fields mean the defaults, except for Into.
type ReplayOptions struct {
	// Into has for each table that the handlers write the table that the replay writes instead, both
	// as "database/table". The key "" stands for the only table of [Projection.WithTables]. The
	// other tables must be empty. Required.
	Into map[string]string
	// Until is the last position that is handled. Default: the newest position of the log, or that
	// of the replay into the same tables that is under way.
	Until mainstem.Position
	// UntilTime is the same as a commit time: events at that time or before are handled. Not with
	// Until.
	UntilTime time.Time
	// NoWait makes Replay return when the request is in the log; engines that run the projection
	// carry it out.
	NoWait bool
	// Progress, if set, is called at intervals by the goroutine that called Replay, with the number
	// of positions of the log that are handled and the total; at the end once more, with the total
	// for both.
	Progress func(done, total uint64)
}

// ReplayStatus describes a replay that is under way.
type ReplayStatus struct {
	Into     map[string]string // the tables that it writes, by the tables of the projection
	Until    mainstem.Position // where it ends
	Position mainstem.Position // everything up to it is handled
	Err      error             // why it is faulted; it is tried again
}

// Replay lets a projection handle the events from the first one up to a moment in the past, and
// write the rows to other tables: they show what the read model was then, by the present handlers.
// The tables that are read and the checkpoints of the projection stay as they are, and it runs on
// meanwhile. A replay is one subscription without partitions, NAME@rN, and also runs while the
// projection is paused.
//
// Replay only writes the request to the log and waits. The engines with this version of the
// projection carry it out: this one if the projection is registered here, else those of the version
// that was registered last. They continue after a crash, even if ctx has ended. A request like the
// one under way joins it; any other replaces it, and the call that waits for that one returns
// Conflict. The rows of a replay that was replaced or cancelled stay where they are.
//
// Writes of the handlers go to the other tables if they go through the [Tx] and [Put], [Modify] or
// [Delete]. A write to a table that Into does not have, or to [Tx.Batch], is Invalid. What was
// deleted, truncated or scavenged since is not there to be handled, and parked events are left out.
//
// When an event cannot be handled, Replay returns Unavailable with the reason. The engines try
// again until the handlers succeed, [Engine.Skip] or [Engine.CancelReplay].
//
// A projection that was never started is NotFound unless it is registered. One that is inline is
// Unavailable, see [InlineStore.Replay]; one that is live or has a target is Invalid, as are options out of range. A table
// that has entries is Exists.
func (e *Engine) Replay(ctx context.Context, name string, o *ReplayOptions) error {
	if o == nil {
		o = &ReplayOptions{}
	}
	until, err := replayUntil(ctx, e.store, o)
	if err != nil {
		return err
	}
	u, err := e.unit(name)
	if err != nil {
		u = nil
	} else if err := u.checkReplay(ctx); err != nil {
		return err
	}
	number := 0
	ctl, err := e.controls.changeWith(ctx, e.store.Log(), name, func(c *control, b *mainstem.Batch) (err error) {
		number, err = e.requestReplayTo(ctx, b, name, c, u, o, until)
		return err
	})
	if err != nil || o.NoWait {
		return err
	}
	return e.awaitReplay(ctx, name, number, ctl.ReplayUntil, o.Progress)
}

// CancelReplay ends the replay of a projection that is under way, if there is one. The rows that it
// has written stay. The errors are those of [Engine.Pause].
func (e *Engine) CancelReplay(ctx context.Context, name string) error {
	_, err := e.controls.changeWith(ctx, e.store.Log(), name, func(c *control, b *mainstem.Batch) error {
		e.endReplayTo(b, name, c)
		return nil
	})
	return err
}

// replaySet returns the name of the subscription of a replay.
func replaySet(name string, number int) string { return fmt.Sprintf("%s@r%d", name, number) }

// replayUntil returns the position at which a replay ends.
func replayUntil(ctx context.Context, store *event.Store, o *ReplayOptions) (mainstem.Position, error) {
	const op = "replay projection"
	head, err := store.Log().Head(ctx)
	switch {
	case err != nil:
		return 0, err
	case o.Until > 0 && !o.UntilTime.IsZero():
		return 0, mainstem.Refusef(mainstem.KindInvalid, op, "Until with UntilTime: want one of them")
	case o.Until > head:
		return 0, mainstem.Refusef(mainstem.KindInvalid, op, "Until is %d: the newest position is %d", o.Until, head)
	case o.Until > 0:
		return o.Until, nil
	}
	until := head
	if !o.UntilTime.IsZero() {
		until, err = positionAt(ctx, store, o.UntilTime, head)
	}
	if err == nil && until == 0 {
		err = mainstem.Refusef(mainstem.KindInvalid, op, "store %s: there are no events until then", store.Name())
	}
	return until, err
}

// positionAt returns the position of the newest event up to head that was committed at t or before,
// or 0. It reads about 64 events at most.
func positionAt(ctx context.Context, store *event.Store, t time.Time, head mainstem.Position) (mainstem.Position, error) {
	// Invariant: low is 0 or the position of an event at t or before, and the events after high are
	// later than t. Times never decrease with positions.
	low, high := mainstem.Position(0), head
	for low < high {
		middle := low + (high-low)/2
		next, err := firstAfter(ctx, store, middle)
		switch {
		case err != nil:
			return 0, err
		case next.Position == 0 || next.Position > high || next.Time.After(t):
			high = middle
		default:
			low = next.Position
		}
	}
	if low == 0 {
		return 0, nil
	}
	return low, nil
}

// firstAfter returns the first event of the store after p, or the zero value.
func firstAfter(ctx context.Context, store *event.Store, p mainstem.Position) (event.Recorded, error) {
	for r, err := range store.Feed(ctx, &event.FeedOptions{After: p, Limit: 1}) {
		return event.Recorded{Position: r.Position, Time: r.Time}, err
	}
	return event.Recorded{}, nil
}

// checkReplay checks that the projection can be replayed. It writes the control row if there is
// none.
func (u *unit) checkReplay(ctx context.Context) error {
	const op = "replay projection"
	switch {
	case u.live != nil:
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: it is live, and writes no tables", u.p.name)
	case u.p.target != nil:
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: it has a target, whose tables have no other names", u.p.name)
	}
	_, _, err := u.enter(ctx)
	return err
}

// requestReplayTo requests a replay in the row c, and returns its number. If there is one like it
// under way, it returns the number of that one.
func (e *Engine) requestReplayTo(ctx context.Context, b *mainstem.Batch, name string, c *control, u *unit, o *ReplayOptions, until mainstem.Position) (int, error) {
	tables, version := splitTables(c.Tables), max(c.Version, c.Described)
	if u != nil {
		tables, version = u.p.tableNames(), u.p.version
	}
	into, err := resolveInto(name, tables, o.Into)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(into)
	if err != nil {
		return 0, err
	}
	newest := o.Until == 0 && o.UntilTime.IsZero()
	if c.Replay > 0 && c.ReplayVersion == version && (newest || c.ReplayUntil == until) && c.ReplayInto == string(text) {
		return c.Replay, nil
	}
	if err := checkEmpty(ctx, e.store.Log(), into); err != nil {
		return 0, err
	}
	e.endReplayTo(b, name, c)
	c.Replays++
	c.Replay, c.ReplayVersion, c.ReplayUntil, c.ReplayInto = c.Replays, version, until, string(text)
	return c.Replay, nil
}

// resolveInto returns the tables that a replay writes, by the tables of the projection, of which
// declared are known.
func resolveInto(name string, declared []string, into map[string]string) (map[string]string, error) {
	const op = "replay projection"
	out := make(map[string]string)
	for from, to := range into {
		if from == "" {
			if len(declared) != 1 {
				return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: Into must name the table that %s stands for: the projection declares %d tables: %s",
					name, to, len(declared), strings.Join(declared, ", "))
			}
			from = declared[0]
		}
		if other, ok := out[from]; ok {
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: Into has two tables for %s: %s and %s", name, from, other, to)
		}
		out[from] = to
	}
	if len(out) == 0 {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: Into is empty: want a table to write to", name)
	}
	written := make(map[string]bool)
	for _, from := range slices.Sorted(maps.Keys(out)) {
		to := out[from]
		base, _, _ := strings.Cut(to, "@")
		switch {
		case written[to]:
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: two tables of Into are %s", name, to)
		case to == from, slices.Contains(declared, base):
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: table %s is the projection's own: want another one", name, to)
		}
		written[to] = true
	}
	for _, from := range declared {
		if out[from] == "" {
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: Into has no table for %s, which the projection writes", name, from)
		}
	}
	return out, nil
}

// checkEmpty refuses tables that have entries, and wrong names.
func checkEmpty(ctx context.Context, log mainstem.Log, into map[string]string) error {
	for _, name := range into {
		table, err := kv.Open[[]byte](log, name, nil)
		if err != nil {
			return err
		}
		for key, err := range table.Keys(ctx, &kv.Query{Limit: 1}) {
			if err != nil {
				return err
			}
			return mainstem.Refusef(mainstem.KindExists, "replay projection", "table %s has entries, %.60q for example", name, key).
				WithHint("name a table that does not exist yet, or remove this one first")
		}
	}
	return nil
}

// endReplayTo ends the replay that is under way, if there is one, as part of b. Any engine then
// drops what it has parked; see sweep.
func (e *Engine) endReplayTo(b *mainstem.Batch, name string, c *control) {
	if c.Replay == 0 {
		return
	}
	set := replaySet(name, c.Replay)
	e.store.DeleteCheckpointTo(b, set)
	e.controls.faults.DeleteTo(b, set)
	e.controls.old.PutTo(b, set, oldBuild{Due: time.Now().UTC()})
	c.Replay, c.ReplayVersion, c.ReplayUntil, c.ReplayInto = 0, 0, 0, ""
}

// awaitReplay waits until a replay that ends at until is finished.
func (e *Engine) awaitReplay(ctx context.Context, name string, number int, until mainstem.Position, progress func(done, total uint64)) error {
	const op = "replay projection"
	for n := 1; ; n++ {
		ctl, _, _, err := e.controls.get(ctx, name)
		switch {
		case err != nil:
			return err
		case ctl.isReplayed(number):
			if progress != nil {
				progress(uint64(until), uint64(until))
			}
			return nil
		case ctl.Replay != number:
			return mainstem.Errorf(mainstem.KindConflict, op, "%s: it was cancelled, or another one has replaced it", name)
		}
		s, err := e.replayStatus(ctx, name, &ctl)
		switch {
		case err != nil:
			return err
		case s.Err != nil:
			return mainstem.Errorf(mainstem.KindUnavailable, op, "%s: after position %d: %w", name, s.Position, s.Err).
				WithHint("the engines try again until it succeeds; skip the event, or cancel the replay")
		case progress != nil:
			progress(uint64(s.Position), uint64(s.Until))
		}
		if !watching.Wait(ctx, n) {
			return mainstem.Ended(ctx, op+" "+name, time.Time{}, "the engines that replay it, which go on")
		}
	}
}

// replayStatus returns the status of the replay that is under way, or nil.
func (e *Engine) replayStatus(ctx context.Context, name string, c *control) (*ReplayStatus, error) {
	if c.Replay == 0 {
		return nil, nil
	}
	set := replaySet(name, c.Replay)
	cp, err := e.store.Checkpoint(ctx, set)
	if err := ignoreNotFound(err); err != nil {
		return nil, err
	}
	s := &ReplayStatus{Until: c.ReplayUntil, Position: cp.Position}
	if s.Into, err = c.replayInto(); err != nil {
		return nil, err
	}
	f, faulted, err := e.faultOf(ctx, set, cp)
	if faulted {
		s.Err = errors.New(f.Error)
	}
	return s, err
}

// replayInto returns the tables that the replay writes, by the tables of the projection.
func (c *control) replayInto() (into map[string]string, err error) {
	if err := json.Unmarshal([]byte(c.ReplayInto), &into); err != nil {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "replay projection", "the tables in the control row: %w", err)
	}
	return into, nil
}

// beginReplay starts the replay that the row asks for, if this engine has its handlers.
func (g *generation) beginReplay() {
	ctl := &g.ctl
	if ctl.Replay == 0 || ctl.ReplayVersion != g.u.p.version || g.u.p.target != nil {
		return
	}
	into, err := ctl.replayInto()
	if err != nil {
		g.u.e.opts.Logger.Error("a projection cannot be replayed", "store", g.u.e.store.Name(), "projection", g.u.p.name, "error", err)
		return
	}
	g.start(&set{g: g, n: 1, into: into, until: ctl.ReplayUntil})
	g.wg.Go(func() { g.drive(g.finishReplay) })
}

// finishReplay waits until the events of the replay are handled and ends it.
func (g *generation) finishReplay(ctx context.Context) error {
	name := g.u.p.name
	if err := g.u.e.store.WaitFor(ctx, replaySet(name, g.ctl.Replay), g.ctl.ReplayUntil); err != nil {
		return err
	}
	b, ended := mainstem.NewBatch(), g.ctl
	g.u.e.endReplayTo(b, name, &ended)
	ended.finishedReplay(g.ctl.Replay)
	return g.commit(ctx, b, func(c *control) { *c = ended })
}

// flushReplay is flush for a replay, whose batch must have no other writes.
func (tx *Tx) flushReplay(ctx context.Context, name string) error {
	if tx.batch.Len() > 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "projection", "%s: a handler has written to Tx.Batch, which a replay cannot write elsewhere", name)
	}
	if err := tx.flush(ctx); err != nil {
		return err
	}
	return tx.batch.Err()
}

// replayTable returns the table that a replay writes instead of a model's. It is opened once for
// each commit.
func replayTable[T any](tx *Tx, m readmodel.Model[T]) (*readmodel.Table[T], error) {
	name := readmodel.NameOf(m)
	if t, ok := tx.opened[name].(*readmodel.Table[T]); ok {
		return t, nil
	}
	to, ok := tx.into[name]
	if !ok {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "projection", "table %s: the replay has no table to write instead: add it to ReplayOptions.Into", name)
	}
	t, err := readmodel.OpenAs(m, to)
	if err == nil {
		if tx.opened == nil {
			tx.opened = make(map[string]any)
		}
		tx.opened[name] = t
	}
	return t, err
}
