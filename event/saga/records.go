package saga

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
)

// The tables of the sagas of a store. Their layout is persisted.
//
//	table                 key                                            value
//	saga/<store>          ID                                             row
//	saga.status/<store>   status / ID                                    empty
//	saga.inbox/<store>    ID 00 number, 20 digits                        message
//	saga.timer/<store>    type 00 due, 20 digits 00 ID 00 name           empty; due is in Unix nanoseconds, see storedDue
//	saga.control/<store>  type                                           control
//	saga.removed/<store>  type                                           removal
//
// The history of a saga is the stream with its ID in the event store <store>.sagas, and the
// checkpoint of a type is that of the subscription saga/<type> of the store.
//
// Invariant: a saga has one row in saga.status, that of the status in its row.

// Records are the sagas of an event store as stored in its log: those of all types, whether or not
// this program runs them. It holds no resources and needs no Close; all methods may be called from
// many goroutines.
type Records struct {
	log     mainstem.Log
	store   string
	rows    *kv.Bucket[row]     // saga/<store>
	status  *kv.Bucket[[]byte]  // saga.status/<store>: an index of rows
	inbox   *kv.Bucket[message] // saga.inbox/<store>
	timers  *kv.Bucket[string]  // saga.timer/<store>
	history *event.Store

	source   *event.Store        // the store whose events the sagas handle
	controls *kv.Bucket[control] // saga.control/<store>
	removed  *kv.Bucket[removal] // saga.removed/<store>
}

// OpenRecords returns the sagas of the event store called store in log. It reads and creates
// nothing. The name must also be one that a table can have (see [kv.Open]); else the error is
// Invalid.
func OpenRecords(log mainstem.Log, store string) (*Records, error) {
	if log == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open sagas", "the log is nil")
	}
	r := &Records{log: log, store: store}
	var errs [8]error
	quiet := &kv.Options{NoFeed: true}
	r.rows, errs[0] = kv.Open[row](log, "saga/"+store, quiet)
	r.status, errs[1] = kv.Open[[]byte](log, "saga.status/"+store, quiet)
	r.inbox, errs[2] = kv.Open[message](log, "saga.inbox/"+store, nil)
	r.timers, errs[3] = kv.Open[string](log, "saga.timer/"+store, nil)
	r.history, errs[4] = event.Open(log, HistoryStore(store), nil)
	r.source, errs[5] = event.Open(log, store, nil)
	r.controls, errs[6] = kv.Open[control](log, "saga.control/"+store, nil)
	r.removed, errs[7] = kv.Open[removal](log, "saga.removed/"+store, quiet)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open sagas", "store %.60q: %w", store, err)
	}
	return r, nil
}

// Instance is a saga as of the moment it was read. It belongs to the caller.
type Instance struct {
	ID            string // Saga, a hyphen, Key
	Saga          string // the type
	Key           string // the correlation
	Status        Status
	State         json.RawMessage      // see [StateOf]; nil if no step has succeeded
	Error         string               // why it has failed; "" if it has not
	Refused       string               // ID of the command whose refusal made it fail; "" if it failed otherwise
	Compensations []Compensation       // in the order in which they were pushed
	Timeouts      map[string]time.Time // pending, by name, and when they are due
	Sent          uint64               // number of the last message; Retry adds messages for events and timeouts too
	Ignored       uint64               // events that came when it was neither started nor running
	Created       time.Time            // first step
	Updated       time.Time            // last entry of its history
}

// Compensation is a command that compensates a step if the saga fails, and its result.
type Compensation struct {
	Type  string
	Data  []byte // the encoded command
	Done  bool   // it was carried out
	Error string // why it was refused; "": it was not
}

// StateOf returns the state of a saga, decoded as S. Without a state it is the zero S.
func StateOf[S any](i Instance) (S, error) {
	var s S
	if i.State == nil {
		return s, nil
	}
	err := json.Unmarshal(i.State, &s)
	return s, err
}

// DecodeState is [StateOf] for code that has the type as a value: the result is of type typ.
func (i Instance) DecodeState(typ reflect.Type) (any, error) {
	v := reflect.New(typ)
	if i.State == nil {
		return v.Elem().Interface(), nil
	}
	err := json.Unmarshal(i.State, v.Interface())
	return v.Elem().Interface(), err
}

func instanceOf(r *row) Instance {
	i := Instance{
		ID: idOf(r.Saga, r.Key), Saga: r.Saga, Key: r.Key, Status: r.Status, State: bytes.Clone(r.State),
		Timeouts: r.Timeouts, Sent: r.Sent, Ignored: r.Ignored, Created: r.Created, Updated: r.Updated,
	}
	if r.Failure != nil {
		i.Error, i.Refused = r.Failure.Error, r.Failure.Command
	}
	for _, u := range r.Undo {
		i.Compensations = append(i.Compensations, Compensation{Type: u.Type, Data: u.Data, Done: u.Done, Error: u.Error})
	}
	return i
}

// ID returns the ID of the saga of a type with a key.
func ID(saga, key string) string { return idOf(saga, key) }

func (r *Records) notFound(id string) error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "saga", Space: r.rows.Space(), Key: []byte(id), Outcome: mainstem.NotWritten}
}

// Get returns the saga with an ID, or NotFound.
func (r *Records) Get(ctx context.Context, id string) (Instance, error) {
	e, err := r.rows.Get(ctx, id)
	if errors.Is(err, mainstem.ErrNotFound) {
		return Instance{}, r.notFound(id)
	}
	if err != nil {
		return Instance{}, err
	}
	return instanceOf(&e.Value), nil
}

// Find yields the sagas that have one of the statuses, or any status if none is given. They are of
// one type, or of all types if saga is "". With statuses they are yielded status by status; those
// of one status are in the order of their IDs. Find is not as of one moment: a saga whose status
// changes meanwhile may be yielded twice or not at all. An unknown status is Invalid. An error ends
// the sequence.
func (r *Records) Find(ctx context.Context, saga string, statuses ...Status) iter.Seq2[Instance, error] {
	prefix := saga
	if saga != "" {
		prefix += "-"
	}
	return func(yield func(Instance, error) bool) {
		if len(statuses) == 0 {
			for e, err := range r.rows.List(ctx, &kv.Query{Prefix: prefix}) {
				if !yield(instanceOf(&e.Value), err) || err != nil {
					return
				}
			}
			return
		}
		for _, s := range statuses {
			if _, err := ParseStatus(string(s)); err != nil {
				yield(Instance{}, err)
				return
			}
			if !r.find(ctx, string(s)+"/", prefix, yield) {
				return
			}
		}
	}
}

// findPage is the number of rows that Find reads at a time.
const findPage = 100

// find yields the sagas of one status. It returns false when the iteration must end.
func (r *Records) find(ctx context.Context, status, prefix string, yield func(Instance, error) bool) bool {
	for after := ""; ; {
		var ids []string
		for key, err := range r.status.Keys(ctx, &kv.Query{Prefix: status + prefix, After: after, Limit: findPage}) {
			if err != nil {
				yield(Instance{}, err)
				return false
			}
			after = key
			ids = append(ids, strings.TrimPrefix(key, status))
		}
		entries, err := r.rows.GetMany(ctx, ids...)
		if err != nil {
			yield(Instance{}, err)
			return false
		}
		for i := range entries {
			e := &entries[i]
			if e.Live() && string(e.Value.Status)+"/" == status && !yield(instanceOf(&e.Value), nil) {
				return false
			}
		}
		if len(ids) < findPage {
			return true
		}
	}
}

// Retry continues a saga that has failed. An engine that runs its type does the work. Sagas in
// other statuses are [ErrNotRetryable]; one that does not exist is NotFound.
//
//   - Failed: the command that was refused is sent again, or the event or timeout whose step failed
//     is handled again, with the state that the step has left. Then the commands that were
//     withdrawn are sent again. The saga is running, or completed if it was completed when the
//     command was refused. Timeouts that the failure has cancelled are set again, with the time
//     that was left then.
//   - CompensationFailed: the compensations that were refused are sent again.
//   - Compensated: everything was undone, so the saga starts anew. The start event is handled
//     again, with a zero state and no compensations, and before all events that follow.
//
// Commands that are sent again have new IDs.
func (r *Records) Retry(ctx context.Context, id string) error {
	for {
		b := mainstem.NewBatch()
		w := r.work(b)
		in, err := w.load(ctx, id)
		if err != nil {
			return err
		}
		if !in.found {
			return r.notFound(id)
		}
		if err := in.retry(time.Now()); err != nil {
			return err
		}
		if err := w.flush(); err != nil {
			return err
		}
		if err := r.commit(ctx, b); !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
}
