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

// The state machine of a saga:
//
//	started, running                  an event or timeout is handled         running
//	started, running                  Complete                               completed
//	started, running, completed       Fail, or a command is refused          compensating, failed (*)
//	compensating                      all compensations are carried out      compensated
//	compensating                      all were tried, one was refused        compensation_failed
//	failed                            Retry                                  running, completed (**)
//	compensation_failed               Retry                                  compensating
//	compensated                       Retry                                  started
//
// (*) failed if it has no compensations. Only started and running sagas call Fail; in a completed
// one, a command that it sent before is refused.
//
// (**) completed if it was completed when it failed.
//
// The methods of instance change one saga in memory. They read the log only through pending and
// floor. work.go writes the result as one commit; simulate.go keeps it in memory.
//
// Invariants:
//
//   - The messages of a saga have the numbers up to row.Sent, in the order in which they are
//     carried out.
//   - When a saga fails, one commit removes all of its messages and timeouts and sends the
//     compensations. So while it is compensating, its messages are compensations only.
//   - A started or running saga that has no state is one that Retry has started anew: its first
//     message is its start event. That is handled before any other event; see [unit.load].
//   - Every commit that changes a saga, or adds messages or timeouts to it, writes its row, on
//     condition of the revision that was read. Carrying out a command removes its message and need
//     not change the row.

// Cause refers to an event that was handled. It has no data of the event.
type Cause struct {
	Stream  string           `json:"stream"`
	Version mainstem.Version `json:"version"`
	Part    int              `json:"part,omitempty"` // index among the events that upcasting has made of it
}

// row is a saga as stored: a row of the table saga/<store>, whose key is the ID. Its messages and
// timeouts are rows of other tables (see records.go), written in the commits of this one.
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

	// Sent is the number of the last message. The first message of a saga has the number after the
	// largest that a removed saga of the type had. Invariant: it only grows, and two messages of
	// sagas with the same ID never have the same number.
	Sent uint64 `json:"sent,omitempty"`
	// Undo are the compensations, in the order in which they were pushed.
	Undo []undo `json:"undo,omitempty"`
	// Timeouts are the pending timeouts and when they are due, by name. Invariant: the table of
	// timeouts has one row for each of them, and no other row of this saga.
	Timeouts map[string]time.Time `json:"timeouts,omitempty"`
	// Failure is set from the failure of the saga until a retry, which uses it.
	Failure *failure `json:"failure,omitempty"`
	Ignored uint64   `json:"ignored,omitempty"` // events that came when it was neither started nor running
}

// undo is a compensation and its result.
type undo struct {
	message
	Done  bool   `json:"done,omitempty"`  // carried out
	Error string `json:"error,omitempty"` // why it was refused; "": it was not
}

// failure is the reason why a saga has failed, and the work that a retry repeats.
type failure struct {
	Error     string    `json:"error"`
	Time      time.Time `json:"time"`
	Command   string    `json:"command,omitempty"`   // ID of the refused command; "" if the saga failed by Fail or a timeout
	Step      message   `json:"step"`                // the refused command, or the failed event or timeout; a retry sends it first
	Withdrawn []message `json:"withdrawn,omitempty"` // messages that were not carried out; a retry sends them after Step
	Completed bool      `json:"completed,omitempty"` // the saga was completed; a retry makes it that again

	// Timeouts are the pending timeouts that the failure has cancelled. A retry sets them again,
	// with the time from Time until they were due.
	Timeouts map[string]time.Time `json:"timeouts,omitempty"`
}

// instance is one saga in one commit: its row, and the other effects of the commit on it.
type instance struct {
	id       string
	row      row
	found    bool                 // the saga exists: it was read, or begin was called
	revision kv.Revision          // of the row that was read; 0 if there was none
	was      Status               // status in the row that was read; "" if there was none
	hadTimes map[string]time.Time // timeouts in the row that was read

	changed bool       // the commit writes the row
	sends   []numbered // messages that the commit adds
	gone    []uint64   // numbers of messages that the commit removes, on condition that they exist
	entries []Entry    // entries that the commit adds to the history

	// pending returns the stored messages of the saga, except those in gone.
	pending func(ctx context.Context) ([]numbered, error)
	// floor returns the largest number of a message of the removed sagas of a type.
	floor func(ctx context.Context, saga string) (uint64, error)
}

// send adds a message with the next number, and returns its command ID.
func (in *instance) send(m message) string {
	in.row.Sent++
	in.sends = append(in.sends, numbered{in.row.Sent, m})
	return commandID(in.row.Saga, in.row.Key, in.row.Sent)
}

// note marks the saga as changed at now, and adds e with the present status to its history.
func (in *instance) note(now time.Time, e Entry) {
	in.changed = true
	in.row.Updated = now.UTC().Round(0)
	e.Status = in.row.Status
	in.entries = append(in.entries, e)
}

// begin initializes a saga that does not exist, for the start event r.
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

// causeOf returns the reference to r.
func causeOf(r *event.Recorded, part int) Cause {
	return Cause{Stream: r.Stream, Version: r.Version, Part: part}
}

// ignore counts an event that came when the saga was neither started nor running.
func (in *instance) ignore() {
	in.row.Ignored++
	in.changed = true
}

// task is one call of a handler: for an event or for a timeout.
type task struct {
	saga    *Saga
	do      handler
	value   any            // the decoded event; nil for a timeout
	event   event.Recorded // zero for a timeout
	timeout string         // name of the timeout; "" for an event
	again   message        // the message by which a retry repeats the task
	entry   Entry          // for the history
}

// eventTask returns the task of handling v, which is part number part of r.
func eventTask(s *Saga, do handler, v any, r event.Recorded, part int, step Step) task {
	cause := causeOf(&r, part)
	return task{
		saga: s, do: do, value: v, event: r, again: message{Kind: kindAgain, Event: &cause},
		entry: Entry{Step: step, Event: &cause, EventType: r.Type},
	}
}

// timeoutTask returns the task of handling the timeout called name.
func timeoutTask(s *Saga, name string) task {
	return task{
		saga: s, do: s.timeouts[name], timeout: name, again: message{Kind: kindAgain, Timeout: name},
		entry: Entry{Step: StepTimeout, Timeout: name},
	}
}

// handle calls the handler of t and applies the effects of the call to the saga. After an error the
// instance may be changed in part, and the commit must be dropped.
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

// setTimeouts applies the timeouts that a step has set and cancelled.
func (in *instance) setTimeouts(s *step) {
	for name, d := range s.timeouts {
		if d < 0 {
			delete(in.row.Timeouts, name)
		} else {
			in.setTimeout(name, s.now.Add(d))
		}
	}
}

// setTimeout sets one timeout, which replaces a pending one of the same name.
func (in *instance) setTimeout(name string, due time.Time) {
	if in.row.Timeouts == nil {
		in.row.Timeouts = make(map[string]time.Time)
	}
	in.row.Timeouts[name] = due.UTC().Round(0)
}

// fail makes the saga fail: it withdraws the messages that are not carried out, those of this
// commit included, cancels the timeouts, and sends the compensations.
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
	f.Time, f.Completed, f.Timeouts = now.UTC().Round(0), in.row.Status == Completed, in.row.Timeouts
	in.row.Failure, in.row.Timeouts, in.row.Status = &f, nil, Failed
	e.Error = f.Error
	if len(in.row.Undo) > 0 {
		in.row.Status = Compensating
		e.Sent = in.compensate()
	}
	in.note(now, e)
	return nil
}

// compensate sends the compensations that are not carried out, the last one first, since messages
// are carried out in the order of their numbers.
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

// refused applies the refusal of a message: it fails the saga, or notes that a compensation was
// refused. The message is removed.
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

// undone notes that a compensation was carried out, or was refused if cause is not nil. When none
// is left to try, it ends the saga as compensated or compensation_failed.
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
			in.note(now, e) // others are not tried yet
			return
		case !u.Done:
			status = CompensationFailed
		}
	}
	in.row.Status = status
	in.note(now, e)
}

// retry continues a saga that has failed; see [Records.Retry]. Sagas in another status are
// [ErrNotRetryable].
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
		if f.Completed {
			in.row.Status = Completed
		}
		for name, due := range f.Timeouts {
			in.setTimeout(name, now.Add(due.Sub(f.Time)))
		}
		e.Timeouts = maps.Clone(in.row.Timeouts)
		for _, m := range append([]message{f.Step}, f.Withdrawn...) {
			if id := in.send(m); m.Kind == kindCommand {
				e.Sent = append(e.Sent, Sent{ID: id, Type: m.Type})
			}
		}
	}
	in.note(now, e)
	return nil
}
