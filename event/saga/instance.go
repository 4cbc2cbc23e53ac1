package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
)

// Cause is an event that was handled: a reference, without its data.
type Cause struct {
	Stream  string           `json:"stream"`
	Version mainstem.Version `json:"version"`
	Part    int              `json:"part,omitempty"` // which of the events that upcasting has made of it, from 0
}

// row is a saga as it is stored: a row of the table saga/<store>, whose key is the ID. Every change of a
// saga depends on the revision of its row, so changes are one after the other wherever they are made. Its
// messages and timeouts are rows of other tables, written in the commits of this one.
type row struct {
	Saga        string          `json:"saga"`
	Key         string          `json:"key"`
	Status      Status          `json:"status"`
	State       json.RawMessage `json:"state,omitempty"`
	Start       Cause           `json:"start"`
	Correlation string          `json:"correlation,omitempty"`
	Tenant      string          `json:"tenant,omitempty"`
	Created     time.Time       `json:"created"`
	Updated     time.Time       `json:"updated"`

	// Sent is the number of the last message; it begins where those of sagas that were removed end.
	// Invariant: it only grows, and no two messages of sagas with one ID ever have one number.
	Sent uint64 `json:"sent,omitempty"`
	// Undo are the compensations, in the order in which they were pushed.
	Undo []undo `json:"undo,omitempty"`
	// Timeouts are those that are pending, and when they are due. Invariant: each has its row in the
	// table of timeouts, and no other row there is of this saga.
	Timeouts map[string]time.Time `json:"timeouts,omitempty"`
	// Failure is set from the failure on, until a retry. It says what a retry takes up.
	Failure *failure `json:"failure,omitempty"`
	Ignored uint64   `json:"ignored,omitempty"` // events for it when it was not under way
}

// undo is a compensation, and what became of it.
type undo struct {
	message
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"` // why it was refused
}

// failure says why a saga has failed, and at which step.
type failure struct {
	Error     string    `json:"error"`
	Time      time.Time `json:"time"`
	Command   string    `json:"command,omitempty"`   // the ID of the command that was refused
	Step      message   `json:"step"`                // the command, or the event or timeout, that a retry takes up
	Withdrawn []message `json:"withdrawn,omitempty"` // not carried out at that time; a retry sends them again
}

// instance is a saga in one commit: its row, and what the commit does besides.
type instance struct {
	id       string
	row      row
	found    bool
	revision kv.Revision          // of the row that was read, 0 if there is none
	was      Status               // in that row
	hadTimes map[string]time.Time // its timeouts

	changed bool
	sends   []numbered // messages that the commit adds
	gone    []uint64   // messages that it removes, which must be there
	entries []Entry    // what it adds to the history

	// pending returns the messages of the saga that are stored and not carried out.
	pending func(ctx context.Context) ([]numbered, error)
	// floor returns the highest number of a message of any saga of a type that was removed.
	floor func(ctx context.Context, saga string) (uint64, error)
}

// send adds a message.
func (in *instance) send(m message) string {
	in.row.Sent++
	in.sends = append(in.sends, numbered{in.row.Sent, m})
	return commandID(in.row.Saga, in.row.Key, in.row.Sent)
}

// note marks the saga as changed at a time, and adds what has happened to its history.
func (in *instance) note(now time.Time, e Entry) {
	in.changed = true
	in.row.Updated = now.UTC().Round(0)
	e.Status = in.row.Status
	in.entries = append(in.entries, e)
}

// begin makes a saga that is not there one that an event starts.
func (in *instance) begin(ctx context.Context, s *Saga, key string, r *event.Recorded, part int, now time.Time) error {
	floor, err := in.floor(ctx, s.name)
	if err != nil {
		return err
	}
	in.row = row{
		Saga: s.name, Key: key, Start: causeOf(r, part), Created: now.UTC().Round(0), Sent: floor,
		Correlation: r.Metadata.CorrelationID, Tenant: r.Metadata.TenantID,
	}
	if in.row.Correlation == "" {
		in.row.Correlation = in.id
	}
	in.found = true
	return nil
}

func causeOf(r *event.Recorded, part int) Cause {
	return Cause{Stream: r.Stream, Version: r.Version, Part: part}
}

// ignore counts an event for a saga that is not under way.
func (in *instance) ignore() {
	in.row.Ignored++
	in.changed = true
}

// task is what a handler is called for.
type task struct {
	saga    *Saga
	do      handler
	value   any            // of an event
	event   event.Recorded // of an event
	timeout string         // of a timeout
	again   message        // what a retry after a failure takes up
	entry   Entry          // what the history says of it
}

// eventTask returns the task of handling v, a part of r.
func eventTask(s *Saga, do handler, v any, r event.Recorded, part int, step Step) task {
	cause := causeOf(&r, part)
	return task{
		saga: s, do: do, value: v, event: r, again: message{Kind: kindAgain, Event: &cause},
		entry: Entry{Step: step, Event: &cause, EventType: r.Type},
	}
}

func timeoutTask(s *Saga, name string) task {
	return task{
		saga: s, do: s.timeouts[name], timeout: name, again: message{Kind: kindAgain, Timeout: name},
		entry: Entry{Step: StepTimeout, Timeout: name},
	}
}

// handle calls the handler of t and makes what it has asked for part of the commit. After an error the
// commit is to be dropped.
func (in *instance) handle(ctx context.Context, t task, now time.Time) error {
	s := &step{saga: t.saga, in: in, now: now, ev: t.event}
	if err := protect(func() error { return t.do(s, t.value) }); err != nil {
		return err
	}
	status := Running
	if t.entry.Step == StepStarted {
		status = Started
	}
	in.row.State = s.state
	for _, m := range s.undo {
		in.row.Undo = append(in.row.Undo, undo{message: m})
	}
	if s.failed != nil {
		return in.fail(ctx, now, t.entry, failure{Error: s.failed.Error(), Step: t.again})
	}
	in.row.Status = status
	e := t.entry
	for _, m := range s.sends {
		id := in.send(m)
		e.Sent = append(e.Sent, Sent{ID: id, Type: m.Type})
	}
	in.setTimeouts(s)
	if s.complete {
		in.row.Status, in.row.Timeouts = Completed, nil
	}
	e.Timeouts = maps.Clone(in.row.Timeouts)
	in.note(now, e)
	return nil
}

// protect turns a panic of f into an error.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

func (in *instance) setTimeouts(s *step) {
	for name, d := range s.timeouts {
		switch {
		case d < 0:
			delete(in.row.Timeouts, name)
		case in.row.Timeouts == nil:
			in.row.Timeouts = map[string]time.Time{name: s.now.Add(d).UTC().Round(0)}
		default:
			in.row.Timeouts[name] = s.now.Add(d).UTC().Round(0)
		}
	}
}

// fail ends the saga: it withdraws what is not carried out, and sends the compensations.
func (in *instance) fail(ctx context.Context, now time.Time, e Entry, f failure) error {
	pending, err := in.pending(ctx)
	if err != nil {
		return err
	}
	for _, m := range pending {
		in.gone = append(in.gone, m.n)
		f.Withdrawn = append(f.Withdrawn, m.message)
	}
	for _, m := range in.sends {
		f.Withdrawn = append(f.Withdrawn, m.message)
	}
	in.sends = nil
	f.Time = now.UTC().Round(0)
	in.row.Failure, in.row.Timeouts, in.row.Status = &f, nil, Failed
	e.Error = f.Error
	if len(in.row.Undo) > 0 {
		in.row.Status = Compensating
		e.Sent = in.compensate()
	}
	in.note(now, e)
	return nil
}

// compensate sends the compensations that are not carried out, the last one first: messages of a
// saga are carried out in the order of their numbers.
func (in *instance) compensate() (sent []Sent) {
	for i := len(in.row.Undo) - 1; i >= 0; i-- {
		u := &in.row.Undo[i]
		if u.Done {
			continue
		}
		u.Error = ""
		m := u.message
		m.Kind, m.Undo = kindUndo, i
		sent = append(sent, Sent{ID: in.send(m), Type: m.Type})
	}
	return sent
}

// refused notes that a command was refused, and removes it.
func (in *instance) refused(ctx context.Context, now time.Time, n uint64, m message, cause error) error {
	in.changed = true
	in.gone = append(in.gone, n)
	id := commandID(in.row.Saga, in.row.Key, n)
	if m.Kind == kindUndo {
		in.undone(now, id, m, cause)
		return nil
	}
	e := Entry{Step: StepRefused, Command: id, CommandType: m.Type, Event: m.Event, Timeout: m.Timeout}
	return in.fail(ctx, now, e, failure{Error: cause.Error(), Command: id, Step: m})
}

// undone notes that a compensation was carried out, or refused.
func (in *instance) undone(now time.Time, id string, m message, cause error) {
	if m.Undo >= len(in.row.Undo) || in.row.Status != Compensating {
		return
	}
	e := Entry{Step: StepCompensated, Command: id, CommandType: m.Type}
	u := &in.row.Undo[m.Undo]
	if u.Done = cause == nil; cause != nil {
		u.Error = cause.Error()
		e.Step, e.Error = StepCompensationRefused, u.Error
	}
	status := Compensated
	for _, u := range in.row.Undo {
		switch {
		case !u.Done && u.Error == "":
			in.note(now, e) // there are more
			return
		case !u.Done:
			status = CompensationFailed
		}
	}
	in.row.Status = status
	in.note(now, e)
}

// retry takes a saga up again that has ended without success.
func (in *instance) retry(now time.Time) error {
	if !in.row.Status.retryable() {
		return notRetryable(in.id, in.row.Status)
	}
	e := Entry{Step: StepRetried}
	switch f := in.row.Failure; {
	case in.row.Status == CompensationFailed:
		in.row.Status = Compensating
		e.Sent = in.compensate()
	case in.row.Status == Compensated:
		start := in.row.Start
		in.row.Status, in.row.State, in.row.Undo, in.row.Failure = Started, nil, nil, nil
		in.send(message{Kind: kindAgain, Event: &start})
	default:
		in.row.Status, in.row.Failure = Running, nil
		for _, m := range append([]message{f.Step}, f.Withdrawn...) {
			if id := in.send(m); m.Kind == kindCommand {
				e.Sent = append(e.Sent, Sent{ID: id, Type: m.Type})
			}
		}
	}
	in.note(now, e)
	return nil
}
