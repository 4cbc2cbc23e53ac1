package event

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/outcome"
)

// DefaultRetries is the default of [Options.Retries].
const DefaultRetries = 50

// afterQuery is the pause before a conflict with a query is tried again. The other batch is
// committed already, so the pause starts short; it grows and is random, so that many writers do not
// collide again.
var afterQuery = backoff.Policy{First: time.Millisecond, Max: 50 * time.Millisecond, Jitter: 1}

// ConditionError reports that a batch was not written because of a condition of [Store.FailIf]. It
// is a Conflict: errors.Is(err, mainstem.ErrConflict) holds.
type ConditionError struct {
	Store string
	Query Query
	After mainstem.Position
	// Found is the position of the first event after After that Query selects. It is 0 if there is
	// none: then the conflict is with an event that only shares a key of the index with the query.
	Found mainstem.Position

	condition *condition
	checked   mainstem.Position // Found is known for all events up to here
	unread    error             // error of the read that determines Found
	cause     *mainstem.Error
}

// Error describes the event that was found.
func (e *ConditionError) Error() string {
	found := fmt.Sprintf("there is one at position %d", e.Found)
	switch {
	case e.unread != nil:
		found = fmt.Sprintf("whether there is one cannot be read: %v", e.unread)
	case e.Found == 0:
		found = fmt.Sprintf("there is none up to position %d, but an event that shares a key of the index with it; try again", e.checked)
	}
	return fmt.Sprintf("event store %s: conflict: expected no event of %.200q after position %d; %s", e.Store, e.Query.String(), e.After, found)
}

// Unwrap returns the error of the log.
func (e *ConditionError) Unwrap() error { return e.cause }

// condition is one call of FailIf. It explains conflicts of its batch.
type condition struct {
	store *Store
	query Query
	after mainstem.Position // as the caller gave it
	from  mainstem.Position // after, or a later position up to which the query was read since
	first int               // index of its first condition in the batch
	n     int               // number of its conditions
}

// FailIf makes b depend on a query: if at the batch's place in the order there is an event after
// position after that q selects, nothing of the batch is written, and the error is a
// [*ConditionError]. FailIf reads nothing. It tests these keys of the index for each item of q:
//
//	the pairs of its types with its first tag of which all are declared (see [Pair]),
//	else its first tag, so put the one first that the fewest events have,
//	else each of its types,
//	else, for the empty item, the key of all events, which the index must have.
//
// This test is stricter than q: an event that has the tag but not the types is a conflict too.
// [Store.Commit] checks whether the event matters, and commits again if not; the Commit of the log
// returns the conflict, with Found 0.
//
// after is the position of the last event of a [Store.Query] without a limit, or any position up to
// which the results of q are known, such as [mainstem.Reader.Head] before the query. The store must
// have an index, and the handle must have read it: open the handle with [OpenIndexed], or query
// first. Otherwise the batch fails with Unsupported.
func (s *Store) FailIf(b *mainstem.Batch, q Query, after mainstem.Position) {
	err := q.check("fail if")
	if err == nil {
		err = s.failIf(b, q, after)
	}
	if err != nil {
		var e *mainstem.Error
		if errors.As(err, &e) {
			err = e.WithOutcome(mainstem.NotWritten)
		}
		b.Fail(err)
	}
}

func (s *Store) failIf(b *mainstem.Batch, q Query, after mainstem.Position) error {
	x := s.index.Load()
	switch {
	case !x.exists():
		return mainstem.Errorf(mainstem.KindUnsupported, "fail if", "this handle of store %s knows of no index", s.name).
			WithHint("open the store with event.OpenIndexed, or make an index with Store.CreateIndex")
	case x.moved:
		return mainstem.Errorf(mainstem.KindUnavailable, "fail if", "the index of store %s came from another log: its positions are wrong", s.name).
			WithHint("build it anew with Store.Retag")
	}
	keys, err := x.covering(q)
	if err != nil {
		return err
	}
	s.expectControl(b, x)
	c := &condition{store: s, query: q, after: after, from: after, first: len(b.Conditions())}
	for _, key := range keys {
		b.IfNotAfter(s.spaces.tags, key, after)
	}
	if after < x.since() {
		// Events after the position may be in the built keys, whose records were written later than
		// the events. During the build the anchor stands for these events: it is later than the
		// position, too.
		if x.State == stateBuilding {
			b.IfNotAfter(s.spaces.tags, anchorKey, after)
			keys = nil
		}
		for _, key := range keys {
			b.IfNotAfter(s.spaces.tags, append([]byte(builtPrefix), key...), after)
		}
	}
	c.n = len(b.Conditions()) - c.first
	b.ExplainWith(c)
	b.ExplainWith(s)
	return nil
}

// covering returns keys of the index such that each event of q has at least one of them.
func (x *index) covering(q Query) (keys [][]byte, err error) {
	seen := make(map[string]bool)
	for i := range q {
		own := x.coveringItem(&q[i])
		if own == nil {
			return nil, mainstem.Errorf(mainstem.KindUnsupported, "fail if", "item %d is empty, and the index has no key for every event", i).
				WithHint("make the index with IndexOptions.All, or name types or tags")
		}
		for _, key := range own {
			if !seen[string(key)] {
				seen[string(key)] = true
				keys = append(keys, key)
			}
		}
	}
	return keys, nil
}

func (x *index) coveringItem(it *Item) (keys [][]byte) {
	for _, tag := range it.Tags {
		if len(it.Types) > 0 && !slices.ContainsFunc(it.Types, func(typ string) bool { return !x.paired(typ, tag) }) {
			for _, typ := range it.Types {
				keys = append(keys, indexKey(pairKey, typ, tag))
			}
			return keys
		}
	}
	switch {
	case len(it.Tags) > 0:
		return [][]byte{indexKey(tagKey, it.Tags[0], "")}
	case len(it.Types) > 0:
		for _, typ := range it.Types {
			keys = append(keys, indexKey(typeKey, typ, ""))
		}
		return keys
	case x.All:
		return [][]byte{indexKey(allKey, "", "")}
	}
	return nil
}

// holds reports whether c added cond to a batch.
func (c *condition) holds(cond *mainstem.Condition, b *mainstem.Batch) bool {
	own := b.Conditions()[c.first:min(c.first+c.n, len(b.Conditions()))]
	return slices.ContainsFunc(own, func(o mainstem.Condition) bool {
		return o.Test == cond.Test && o.Position == cond.Position && o.Space == cond.Space && string(o.Key) == string(cond.Key)
	})
}

// ExplainConflict implements [mainstem.Explainer]: it reads whether the query selects an event
// after the position.
func (c *condition) ExplainConflict(ctx context.Context, b *mainstem.Batch, e *mainstem.Error) error {
	if e.Want.Test != mainstem.TestNotAfter || b == nil || c.first > len(b.Conditions()) || !c.holds(&e.Want, b) {
		return nil
	}
	said := &ConditionError{Store: c.store.name, Query: c.query, After: c.after, condition: c, cause: e}
	said.checked, said.Found, said.unread = c.find(ctx)
	return said
}

// find returns the position of the first event of the query after c.from and up to the head of the
// log, 0 if there is none. It also returns the head.
func (c *condition) find(ctx context.Context) (head, found mainstem.Position, err error) {
	if head, err = c.store.log.Head(ctx); err != nil {
		return 0, 0, err
	}
	err = c.store.query(ctx, c.query, QueryOptions{After: c.from, Limit: 1}, head, func(ev Recorded) bool {
		found = ev.Position
		return false
	})
	return head, found, err
}

// raise changes the condition to one on events after p: the events before are known not to match.
func (c *condition) raise(b *mainstem.Batch, p mainstem.Position) {
	c.from = p
	for i := range b.Conditions()[c.first : c.first+c.n] {
		b.Conditions()[c.first+i].Position = p
	}
}

// Commit commits b, whose conditions of [Store.FailIf] on this store it makes exact: if the commit
// fails because of an event that a query does not select, it is tried again, at most
// [Options.Retries] times, with pauses. While the outcome of an attempt is unknown, the same batch
// is committed again, until the outcome is known or ctx ends; b gets an ID for that if it has none,
// so it is written at most once. A log that takes no commits after an unknown outcome, such as one
// in a directory, gets one try and needs no ID; see [mainstem.FailStopper].
//
// The error is a [*ConditionError] if an event that a query selects was found, or if all attempts
// failed (then Found is 0); a [*StaleIndexError] if the index was changed since the batch was
// built; otherwise as [Store.Explain] returns it.
func (s *Store) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	for try := 1; ; try++ {
		r, err := outcome.Commit(ctx, s.log, b)
		if err == nil {
			s.learn(b, r)
			return r, nil
		}
		var failed *ConditionError
		if !errors.As(err, &failed) {
			return r, s.Explain(ctx, err)
		}
		if failed.unread != nil {
			return r, failed.unread
		}
		if failed.Found > 0 || failed.condition.store != s || try > s.opts.Retries || !afterQuery.Wait(ctx, try) {
			return r, err
		}
		failed.condition.raise(b, failed.checked)
	}
}
