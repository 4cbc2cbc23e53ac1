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

// Records are the sagas of an event store as they are kept in its log, of all types, whether or not
// this program runs them. It holds no resources, and is safe for concurrent use.
type Records struct {
	log     mainstem.Log
	store   string
	rows    *kv.Bucket[row]     // by ID
	status  *kv.Bucket[[]byte]  // status, "/", ID: nothing
	inbox   *kv.Bucket[message] // ID, 0, number
	timers  *kv.Bucket[string]  // type, 0, due time, 0, ID, 0, name: nothing
	history *event.Store

	source   *event.Store        // whose events the sagas handle
	controls *kv.Bucket[control] // by type
	removed  *kv.Bucket[removal] // by type
}

// OpenRecords returns the sagas of the event store of that name in log. It reads and creates nothing. The name of the
// store must be one that a table can have; see [kv.Open].
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

// Instance is a saga as it stands. It belongs to the caller.
type Instance struct {
	ID            string // Saga, a hyphen, Key
	Saga          string // the type
	Key           string // the correlation
	Status        Status
	State         json.RawMessage // see [StateOf]
	Error         string          // why it has failed; "" if it has not
	Refused       string          // the ID of the command whose refusal made it fail, if it was one
	Compensations []Compensation  // in the order in which they were pushed
	Timeouts      map[string]time.Time
	Sent          uint64 // the number of the last command; events and timeouts that Retry takes up are counted too
	Ignored       uint64 // events that came when it was not under way any more
	Created       time.Time
	Updated       time.Time
}

// Compensation is a command that undoes something if the saga fails, and what became of it.
type Compensation struct {
	Type  string
	Data  []byte // the command, encoded
	Done  bool
	Error string // why it was refused
}

// StateOf returns the state of a saga, given its type.
func StateOf[S any](i Instance) (S, error) {
	var s S
	if i.State == nil {
		return s, nil
	}
	err := json.Unmarshal(i.State, &s)
	return s, err
}

// DecodeState returns the state of a saga as a value of a Go type: [StateOf] for code that has the type
// as a value.
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

// ID returns the ID of the saga of a type with a key, for [Records.Get] and its like.
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

// Find yields the sagas of a type, of all types if it is "", that have one of these statuses, or any if
// there are none. It reads as many rows as it yields. Those of a status come in the order of their IDs; one that
// changes its status meanwhile may come twice or not at all.
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

// findPage is how many rows Find reads at a time.
const findPage = 100

// find yields the sagas of one status, and reports whether to go on.
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

// Retry takes a saga up again that has ended without success; an engine that runs its type does the rest.
// The others are [ErrNotRetryable], and one that is not there NotFound.
//
// Failed: the command that was refused is sent again, or the event or timeout that made it fail is handled
// again, and what was withdrawn at that time is sent again. CompensationFailed: the compensations
// that were refused are sent again. Compensated: the start event is handled again, with a new state: since
// everything was undone, everything is done anew. Commands that are sent again have new IDs.
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
