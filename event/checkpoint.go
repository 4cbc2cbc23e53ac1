package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// MaxSubscription is the largest number of bytes in the name of a subscription.
const MaxSubscription = 256

// Checkpoint is the progress of a subscription: all events up to Position are handled, and the
// handler's writes about them are committed.
type Checkpoint struct {
	Name     string
	Position mainstem.Position
	Updated  time.Time
	// Owner is the instance that wrote the checkpoint, such as "web-1 pid 4711 #2": host, process,
	// and number of the subscription in the process. It is empty after [Store.SetCheckpointTo].
	Owner string
	// Revision is the version of the checkpoint's record: it grows with each write.
	Revision mainstem.Version

	filter string // in the form stored with the checkpoint
}

// Filter returns the filter of the subscription as stored with the checkpoint. If none is stored,
// the result selects everything.
func (c *Checkpoint) Filter() (f Filter, err error) {
	if c.filter != "" {
		if err := json.Unmarshal([]byte(c.filter), &f); err != nil {
			return f, mainstem.Errorf(mainstem.KindCorrupt, "decode", "checkpoint filter of %s: %w", c.Name, err)
		}
	}
	return f, nil
}

// A checkpoint is one record of the space event.checkpoint/<store>: the key is the name of the
// subscription, the value the position in decimal. The header $filter holds the subscription's
// filter as JSON; it is left out if the filter selects everything or is too large. The header
// $owner names the instance of the subscription that wrote the record.
const (
	headerFilter = "$filter"
	headerOwner  = "$owner"
)

var owners atomic.Uint64 // number of subscriptions of this process so far

// newOwner returns a name of an instance of a subscription, for operators.
func newOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%.64s pid %d #%d", host, os.Getpid(), owners.Add(1))
}

// maxFilterBytes is the size of the largest filter that is stored with a checkpoint.
const maxFilterBytes = 64 << 10

var checkpointPolicy = mainstem.Policy{History: 1, NoFeed: true}

func (f *Filter) save() []byte {
	out, err := json.Marshal(f)
	if err != nil || len(out) > maxFilterBytes || string(out) == "{}" {
		return nil
	}
	return out
}

func decodeCheckpoint(rec *mainstem.Record) (Checkpoint, []byte, error) {
	p, err := strconv.ParseUint(string(rec.Value), 10, 64)
	if err != nil {
		return Checkpoint{}, nil, mainstem.Errorf(mainstem.KindCorrupt, "decode", "checkpoint: %w", err).At(rec.Space, rec.Key)
	}
	filter, _ := rec.Headers.Get(headerFilter)
	owner, _ := rec.Headers.Get(headerOwner)
	return Checkpoint{Name: string(rec.Key), Position: mainstem.Position(p), Updated: rec.Time, Owner: string(owner),
		Revision: rec.Version, filter: string(filter)}, filter, nil
}

func decodeFilter(rec *mainstem.Record, saved []byte) (*Filter, error) {
	f := new(Filter)
	if saved == nil {
		return f, nil
	}
	if err := json.Unmarshal(saved, f); err != nil {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "decode", "checkpoint filter: %w", err).At(rec.Space, rec.Key)
	}
	return f, nil
}

func checkSubscription(op, name string) error {
	if name == "" || len(name) > MaxSubscription || !plain(name) {
		return mainstem.Refusef(mainstem.KindInvalid, op, "subscription %.60q: want a name of 1 to %d bytes of UTF-8 without control characters", name, MaxSubscription)
	}
	return nil
}

// Checkpoint returns the checkpoint of the subscription called name, or NotFound if there is none.
func (s *Store) Checkpoint(ctx context.Context, name string) (Checkpoint, error) {
	if err := checkSubscription("checkpoint", name); err != nil {
		return Checkpoint{}, err
	}
	rec, err := s.log.Get(ctx, s.spaces.checkpoints, []byte(name))
	if err != nil {
		return Checkpoint{}, err
	}
	cp, _, err := decodeCheckpoint(&rec)
	return cp, err
}

// Checkpoints yields the checkpoints of all subscriptions, ordered by name.
func (s *Store) Checkpoints(ctx context.Context) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		for rec, err := range s.log.Scan(ctx, s.spaces.checkpoints, mainstem.Range{}) {
			if isNotFound(err) {
				return
			}
			var cp Checkpoint
			if err == nil {
				cp, _, err = decodeCheckpoint(&rec)
			}
			if !yield(cp, err) || err != nil {
				return
			}
		}
	}
}

// SetCheckpointTo moves the checkpoint of the subscription called name, as part of b. Move it back
// to 0 to handle all events again, in the batch that clears the subscription's results, or forward
// to skip events that cannot be handled. A running instance detects the move at its next commit,
// whose batch is then not written: it continues from the new position, or ends with
// [ErrCheckpointMoved] if it is exclusive (see [SubscribeOptions]).
func (s *Store) SetCheckpointTo(b *mainstem.Batch, name string, position mainstem.Position) {
	if err := checkSubscription("set checkpoint", name); err != nil {
		b.Fail(err)
		return
	}
	s.writeCheckpoint(b, []byte(name), position, nil, "")
}

// MoveCheckpointTo moves a checkpoint that was read with [Store.Checkpoint], as part of b, on
// condition that the checkpoint was not written since: otherwise the commit fails with Conflict.
// The effect on running instances is that of [Store.SetCheckpointTo].
func (s *Store) MoveCheckpointTo(b *mainstem.Batch, cp Checkpoint, position mainstem.Position) {
	if err := checkSubscription("move checkpoint", cp.Name); err != nil {
		b.Fail(err)
		return
	}
	b.IfVersion(s.spaces.checkpoints, []byte(cp.Name), cp.Revision)
	var filter []byte
	if cp.filter != "" {
		filter = []byte(cp.filter)
	}
	s.writeCheckpoint(b, []byte(cp.Name), position, filter, "")
}

// DeleteCheckpointTo removes the checkpoint of the subscription called name, as part of b, so that
// the subscription starts anew. The effect on running instances is that of [Store.SetCheckpointTo].
func (s *Store) DeleteCheckpointTo(b *mainstem.Batch, name string) {
	if err := checkSubscription("delete checkpoint", name); err != nil {
		b.Fail(err)
		return
	}
	b.Ensure(s.spaces.checkpoints, checkpointPolicy)
	b.Delete(s.spaces.checkpoints, []byte(name))
}

func (s *Store) writeCheckpoint(b *mainstem.Batch, name []byte, p mainstem.Position, filter []byte, owner string) {
	w := mainstem.Write{Space: s.spaces.checkpoints, Key: name, Value: strconv.AppendUint(nil, uint64(p), 10)}
	if filter != nil {
		w.Headers = mainstem.Headers{{Name: headerFilter, Value: filter}}
	}
	if owner != "" {
		w.Headers = append(w.Headers, mainstem.Header{Name: headerOwner, Value: []byte(owner)})
	}
	b.Ensure(s.spaces.checkpoints, checkpointPolicy)
	b.Add(w)
}

// waitAgain is the time after which WaitFor looks whether the event that it waits for is still
// there. Tests change it.
var waitAgain = 5 * time.Second

// WaitFor returns when the subscription called name has handled all events up to position that it
// selects, in whatever process it runs. The results of the subscription for a write at position can
// then be read. Events that are removed meanwhile are not waited for, which WaitFor notices after
// some seconds; else it does not poll. A filter of more than 64 KiB as JSON is not known here and
// counts as one that selects everything, so WaitFor may wait for a later event.
//
// A position beyond the newest of the log is Invalid; a subscription without a checkpoint, or whose
// checkpoint is deleted meanwhile, is NotFound.
func (s *Store) WaitFor(ctx context.Context, name string, position mainstem.Position) error {
	if _, err := s.Checkpoint(ctx, name); err != nil {
		return err
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	if position > head {
		return mainstem.Errorf(mainstem.KindInvalid, "wait for", "position %d is beyond the newest, %d", position, head)
	}
	w := waiter{s: s, name: []byte(name), position: position}
	for {
		following, cancel := context.WithTimeout(ctx, waitAgain)
		err := w.wait(ctx, following)
		again := err != nil && following.Err() != nil && ctx.Err() == nil
		cancel()
		if !again {
			return err
		}
		if err := w.recheck(ctx); err != nil {
			return err
		}
	}
}

// waiter is the state of a call of WaitFor.
type waiter struct {
	s        *Store
	name     []byte
	position mainstem.Position

	// todo is the position of an event that is known to be selected by the filter: the wait lasts at
	// least until it is handled. 0 if none is known.
	todo   mainstem.Position
	filter *Filter
	saved  []byte // filter as it is stored
}

// wait follows the checkpoint until there is nothing to wait for any more, or following ends.
func (w *waiter) wait(ctx, following context.Context) error {
	space := w.s.spaces.checkpoints
	for rec, err := range w.s.log.Read(following, space, w.name, mainstem.Versions{Follow: true}) {
		if err != nil {
			return err
		}
		if !rec.Live() {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "wait for", Space: space, Key: bytes.Clone(w.name)}
		}
		cp, saved, err := decodeCheckpoint(&rec)
		if err != nil {
			return err
		}
		if cp.Position >= w.position {
			return nil
		}
		if cp.Position < w.todo && bytes.Equal(saved, w.saved) {
			continue
		}
		w.saved = bytes.Clone(saved)
		if w.filter, err = decodeFilter(&rec, saved); err != nil {
			return err
		}
		if w.todo, err = w.s.nextSelected(ctx, w.filter, cp.Position, w.position); err != nil || w.todo == 0 {
			return err
		}
	}
	return mainstem.ErrClosed // an engine ends a follower only with an error
}

// recheck forgets the event that is waited for if it is no longer there.
func (w *waiter) recheck(ctx context.Context) error {
	if w.todo == 0 {
		return nil
	}
	next, err := w.s.nextSelected(ctx, w.filter, w.todo-1, w.todo)
	if err == nil && next == 0 {
		w.todo = 0
	}
	return err
}

// nextSelected returns the position of the first event after after, up to upTo, that f selects; 0
// if there is none.
func (s *Store) nextSelected(ctx context.Context, f *Filter, after, upTo mainstem.Position) (mainstem.Position, error) {
	sel, err := f.selector()
	if err == nil {
		err = sel.open(ctx, s, after)
	}
	if err != nil {
		return 0, err
	}
	for rec, err := range s.log.Feed(ctx, sel.filter(s, after, false)) {
		if err != nil {
			return 0, err
		}
		if rec.Position > upTo {
			return 0, nil
		}
		ok, err := sel.wants(ctx, s, &rec)
		if err != nil {
			return 0, err
		}
		if ok {
			return rec.Position, nil
		}
	}
	return 0, nil
}
