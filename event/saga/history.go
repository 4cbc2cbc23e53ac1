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

// Step is what an entry of a history is about: the type of its event.
type Step string

// The steps.
const (
	StepStarted             Step = "SagaStarted"             // the start event was handled
	StepHandled             Step = "SagaHandled"             // an event was handled
	StepTimeout             Step = "SagaTimedOut"            // a timeout was handled
	StepRefused             Step = "SagaRefused"             // a command was refused, and the saga has failed
	StepCompensated         Step = "SagaCompensated"         // a compensation was carried out
	StepCompensationRefused Step = "SagaCompensationRefused" // a compensation was refused
	StepRetried             Step = "SagaRetried"             // Records.Retry
)

// Entry is an entry of the history of a saga: what one commit has done with it. The history of the saga
// with ID fulfilment-42 is the stream of that name in the event store <store>.sagas.
type Entry struct {
	Step    Step             `json:"-"`
	Version mainstem.Version `json:"-"` // 1, 2, 3 …; higher if a saga with the key was removed before
	Time    time.Time        `json:"-"` // when it was committed

	Status      Status               `json:"status"` // afterwards
	Event       *Cause               `json:"event,omitempty"`
	EventType   string               `json:"event_type,omitempty"`
	Timeout     string               `json:"timeout,omitempty"`      // the name of the timeout that came
	Command     string               `json:"command,omitempty"`      // the ID of the command that was refused or has compensated
	CommandType string               `json:"command_type,omitempty"` // and its type
	Error       string               `json:"error,omitempty"`        // why the saga has failed, or a compensation was refused
	Sent        []Sent               `json:"sent,omitempty"`         // commands that were sent
	Timeouts    map[string]time.Time `json:"timeouts,omitempty"`     // pending afterwards
}

// Sent is a command that a saga has sent.
type Sent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// HistoryStore returns the name of the event store that holds the histories of the sagas of a store.
func HistoryStore(store string) string { return store + ".sagas" }

func (e *Entry) event() (event.Event, error) { return event.JSON(string(e.Step), e) }

// History yields what has happened to the saga with an ID, oldest first. NotFound is the error for one that is not there.
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
