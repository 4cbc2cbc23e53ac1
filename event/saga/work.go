package saga

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
)

// work is the changes of sagas in one commit. It reads the row of each saga once. flush adds the
// changes to the batch, on condition that no row has changed since it was read. So two commits that
// change the same saga conflict, and one of them is built again.
type work struct {
	r     *Records
	b     *mainstem.Batch
	sagas map[string]*instance // by ID
	order []*instance

	floors map[string]uint64 // largest message number of removed sagas, by type; read when a saga starts
}

// work returns an empty work that writes into b.
func (r *Records) work(b *mainstem.Batch) *work {
	return &work{r: r, b: b, sagas: make(map[string]*instance)}
}

// load returns the saga with an ID, with the changes of this commit so far. It is not found if it
// does not exist.
func (w *work) load(ctx context.Context, id string) (*instance, error) {
	if in := w.sagas[id]; in != nil {
		return in, nil
	}
	in := &instance{id: id}
	in.pending = func(ctx context.Context) ([]numbered, error) { return w.r.pending(ctx, in) }
	in.floor = w.floor
	e, err := w.r.rows.Get(ctx, id)
	switch {
	case err == nil:
		in.row, in.found, in.revision, in.was = e.Value, true, e.Revision, e.Value.Status
		in.hadTimes = make(map[string]time.Time, len(in.row.Timeouts))
		for name, due := range in.row.Timeouts {
			in.hadTimes[name] = due
		}
	case !errors.Is(err, mainstem.ErrNotFound):
		return nil, fmt.Errorf("read saga %.100q: %w", id, err)
	}
	w.sagas[id] = in
	w.order = append(w.order, in)
	return in, nil
}

// floor returns the message number from which a new saga of a type counts, and makes the commit
// depend on it.
func (w *work) floor(ctx context.Context, saga string) (uint64, error) {
	if n, is := w.floors[saga]; is {
		return n, nil
	}
	e, err := w.r.removed.Get(ctx, saga)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return 0, fmt.Errorf("read what sagas of type %s have sent that were removed: %w", saga, err)
	}
	w.r.removed.ExpectTo(w.b, saga, kv.IfRevision(e.Revision))
	if w.floors == nil {
		w.floors = make(map[string]uint64)
	}
	w.floors[saga] = e.Value.Sent
	return e.Value.Sent, nil
}

// pending returns the stored messages of a saga, except those that the commit removes.
func (r *Records) pending(ctx context.Context, in *instance) ([]numbered, error) {
	gone := make(map[uint64]bool, len(in.gone))
	for _, n := range in.gone {
		gone[n] = true
	}
	var out []numbered
	for e, err := range r.inbox.List(ctx, &kv.Query{Prefix: in.id + "\x00"}) {
		if err != nil {
			return nil, fmt.Errorf("read what saga %.100q has sent: %w", in.id, err)
		}
		_, n, err := splitInboxKey(e.Key)
		if err != nil {
			return nil, err
		}
		if !gone[n] {
			out = append(out, numbered{n, e.Value})
		}
	}
	return out, nil
}

// flush adds the writes of all changed sagas to the batch.
func (w *work) flush() error {
	for _, in := range w.order {
		if !in.changed {
			continue
		}
		if err := w.write(in); err != nil {
			return err
		}
	}
	return nil
}

// write adds the writes of one saga: its row, its row in the index of statuses, messages, timeouts
// and history.
func (w *work) write(in *instance) error {
	r := w.r
	r.rows.PutTo(w.b, in.id, in.row, kv.IfRevision(in.revision))
	if in.was != in.row.Status {
		if in.was != "" {
			r.status.DeleteTo(w.b, string(in.was)+"/"+in.id)
		}
		r.status.PutTo(w.b, string(in.row.Status)+"/"+in.id, nil)
	}
	for _, n := range in.gone {
		r.inbox.DeleteTo(w.b, inboxKey(in.id, n), kv.IfExists())
	}
	for _, m := range in.sends {
		r.inbox.PutTo(w.b, inboxKey(in.id, m.n), m.message)
	}
	for name, due := range in.hadTimes {
		if now, is := in.row.Timeouts[name]; !is || !storedDue(now).Equal(storedDue(due)) {
			r.timers.DeleteTo(w.b, timerKey(in.row.Saga, due, in.id, name))
		}
	}
	for name, due := range in.row.Timeouts {
		if was, is := in.hadTimes[name]; !is || !storedDue(was).Equal(storedDue(due)) {
			r.timers.PutTo(w.b, timerKey(in.row.Saga, due, in.id, name), "")
		}
	}
	return w.writeHistory(in)
}

// writeHistory adds the new entries of the history of a saga.
func (w *work) writeHistory(in *instance) error {
	if len(in.entries) == 0 {
		return nil
	}
	events := make([]event.Event, len(in.entries))
	for i := range in.entries {
		var err error
		if events[i], err = in.entries[i].event(); err != nil {
			return err
		}
		events[i].Metadata.CorrelationID, events[i].Metadata.TenantID = in.row.Correlation, in.row.Tenant
	}
	w.r.history.AppendTo(w.b, in.id, event.AnyVersion, events)
	return nil
}

// The first and the last time that the key of a timeout can hold: 1970 and 2262-04-11.
var firstDue, lastDue = time.Unix(0, 0), time.Unix(0, math.MaxInt64)

// storedDue returns the time in the key of a timeout: due, or the nearest one that the key can hold.
func storedDue(due time.Time) time.Time {
	switch {
	case due.Before(firstDue):
		return firstDue
	case due.After(lastDue):
		return lastDue
	}
	return due
}

// timerKey returns the key of a timeout. The keys of a type are in the order in which the timeouts
// are due.
func timerKey(saga string, due time.Time, id, name string) string {
	return fmt.Sprintf("%s\x00%020d\x00%s\x00%s", saga, storedDue(due).UnixNano(), id, name)
}

// splitTimerKey is the inverse of timerKey.
func splitTimerKey(key string) (due time.Time, id, name string, err error) {
	parts := strings.Split(key, "\x00")
	var ns uint64
	if len(parts) == 4 {
		ns, err = strconv.ParseUint(parts[1], 10, 63)
	}
	if len(parts) != 4 || err != nil || len(parts[1]) != 20 {
		return time.Time{}, "", "", mainstem.Errorf(mainstem.KindCorrupt, "saga", "the key %.100q of a timeout is not a type, a time, an ID and a name", key)
	}
	return time.Unix(0, int64(ns)), parts[2], parts[3], nil
}
