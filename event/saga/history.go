package saga

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Step is the kind of an entry of a history. It is the type of the entry's event.
type Step string

// The steps.
const (
	StepStarted             Step = "SagaStarted"             // the start event was handled
	StepHandled             Step = "SagaHandled"             // an event was handled
	StepTimeout             Step = "SagaTimedOut"            // a timeout was handled
	StepRefused             Step = "SagaRefused"             // a command was refused, so the saga has failed
	StepCompensated         Step = "SagaCompensated"         // a compensation was carried out
	StepCompensationRefused Step = "SagaCompensationRefused" // a compensation was refused
	StepRetried             Step = "SagaRetried"             // Records.Retry was called
)

// Entry is an entry of the history of a saga: the effect of one step or command on it. The history
// of the saga fulfilment-42 is the stream of that name in the event store <store>.sagas.
type Entry struct {
	Step    Step             `json:"-"`
	Version mainstem.Version `json:"-"` // 1, 2, 3 …; it continues after a saga with the same ID that was removed
	Time    time.Time        `json:"-"` // of the commit

	Status      Status               `json:"status"`          // after the step
	Event       *Cause               `json:"event,omitempty"` // the event that was handled; nil for a timeout or a command
	EventType   string               `json:"event_type,omitempty"`
	Timeout     string               `json:"timeout,omitempty"`      // name of the timeout that was handled
	Command     string               `json:"command,omitempty"`      // ID of the command that was refused or has compensated
	CommandType string               `json:"command_type,omitempty"` // its type
	Error       string               `json:"error,omitempty"`        // why the saga has failed, or why a compensation was refused
	Sent        []Sent               `json:"sent,omitempty"`         // commands that the step has sent
	Timeouts    map[string]time.Time `json:"timeouts,omitempty"`     // pending after the step
}

// Sent is a command that a saga has sent.
type Sent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// HistoryStore returns the name of the event store that holds the histories of the sagas of a store.
func HistoryStore(store string) string { return store + ".sagas" }

// event returns the entry as an event of the history.
func (e *Entry) event() (event.Event, error) { return event.JSON(string(e.Step), e) }

// History yields the entries of the saga with an ID, the oldest first. A saga without a history
// yields NotFound. An error ends the sequence.
func (r *Records) History(ctx context.Context, id string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		n := 0
		for rec, err := range r.history.Events(ctx, id, nil) {
			var e Entry
			if err == nil {
				if err = json.Unmarshal(rec.Data, &e); err != nil {
					err = mainstem.Errorf(mainstem.KindCorrupt, "saga history", "%s, version %d: %w", id, rec.Version, err)
				}
				e.Step, e.Version, e.Time = Step(rec.Type), rec.Version, rec.Time
			} else if errors.Is(err, mainstem.ErrNotFound) {
				break
			}
			if !yield(e, err) || err != nil {
				return
			}
			n++
		}
		if n == 0 {
			yield(Entry{}, r.notFound(id))
		}
	}
}
