package viewhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
)

// commitRequest is one commit over all views, in JSON.
type commitRequest struct {
	ID string          `json:"id"` // an idempotency key
	If json.RawMessage `json:"if"`
	Do json.RawMessage `json:"do"`
}

// commitCondition is what must hold, or nothing is written. It has one of these.
type commitCondition struct {
	KV    *kvCondition    `json:"kv"`
	Event *eventCondition `json:"event"`
}

// kvCondition is about one key.
type kvCondition struct {
	Table string `json:"table"`
	name
	Revision *uint64 `json:"revision"`
	Absent   bool    `json:"absent"`
	Exists   bool    `json:"exists"`
}

// eventCondition is about one stream.
type eventCondition struct {
	Store    string      `json:"store"`
	Stream   string      `json:"stream"`
	Expected expectation `json:"expected"`
}

// expectation is that of a stream, in JSON: "any", "none", "exists" or a version.
type expectation struct {
	event.Expected
	given bool
}

// UnmarshalJSON reads a text or a number.
func (e *expectation) UnmarshalJSON(data []byte) (err error) {
	e.Expected, err = parseExpected(unquoted(data))
	e.given = true
	return err
}

// or returns the expectation, or another one if none was given.
func (e *expectation) or(other event.Expected) event.Expected {
	if e.given {
		return e.Expected
	}
	return other
}

// commitAction is one thing to do. It has one of these.
type commitAction struct {
	KVPut        *kvPutAction       `json:"kv.put"`
	KVDelete     *kvDeleteAction    `json:"kv.delete"`
	KVIncrement  *kvIncrementAction `json:"kv.increment"`
	EventAppend  *eventAppendAction `json:"event.append"`
	TopicPublish *publishAction     `json:"topic.publish"`
	TopicOffset  *offsetAction      `json:"topic.offset"`
	AlertInsert  *alertAction       `json:"alert.insert"`
}

// action adds what it does to a commit, and returns its part of the plan.
type action interface {
	addTo(ctx context.Context, m *commitment) (part, error)
}

// one returns the action that is there.
func (a *commitAction) one() (action, error) {
	var all []action
	if a.KVPut != nil {
		all = append(all, a.KVPut)
	}
	if a.KVDelete != nil {
		all = append(all, a.KVDelete)
	}
	if a.KVIncrement != nil {
		all = append(all, a.KVIncrement)
	}
	if a.EventAppend != nil {
		all = append(all, a.EventAppend)
	}
	if a.TopicPublish != nil {
		all = append(all, a.TopicPublish)
	}
	if a.TopicOffset != nil {
		all = append(all, a.TopicOffset)
	}
	if a.AlertInsert != nil {
		all = append(all, a.AlertInsert)
	}
	if len(all) != 1 {
		return nil, invalid("it has %d of kv.put, kv.delete, kv.increment, event.append, topic.publish, topic.offset and alert.insert: want one", len(all))
	}
	return all[0], nil
}

// commitment is a commit in the making.
type commitment struct {
	h    *Handler
	b    *mainstem.Batch
	plan plan
	read []mainstem.Condition // of actions that have read: a conflict there is not one of the client's

	stores map[string]*event.Store // those that were opened, by name
}

// store returns an event store that knows its index.
func (m *commitment) store(ctx context.Context, name string) (*event.Store, error) {
	if s := m.stores[name]; s != nil {
		return s, nil
	}
	s, err := event.Open(m.h.log, name, nil)
	if err == nil {
		err = s.Refresh(ctx)
	}
	if err != nil {
		return nil, err
	}
	if m.stores == nil {
		m.stores = make(map[string]*event.Store)
	}
	m.stores[name] = s
	return s, nil
}

// reading notes the conditions that read adds: those of an action that reads first.
func (m *commitment) reading(read func() error) error {
	n := len(m.b.Conditions())
	if err := read(); err != nil {
		return err
	}
	m.read = append(m.read, m.b.Conditions()[n:]...)
	return nil
}

// again reports whether err is a conflict with another writer of a key that an action has read, or
// with a change of the index of a store: then the commit is made anew, on what is there now.
func (m *commitment) again(err error) bool {
	if stale := (*event.StaleIndexError)(nil); errors.As(err, &stale) {
		return true
	}
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindConflict {
		return false
	}
	return slices.ContainsFunc(m.read, func(c mainstem.Condition) bool {
		w := e.Want
		return c.Space == w.Space && bytes.Equal(c.Key, w.Key) && c.Test == w.Test && c.Version == w.Version && c.Position == w.Position
	})
}

func postCommit(c *call) error {
	var q commitRequest
	body, err := c.readJSON(&q)
	if err != nil {
		return err
	}
	who, err := c.identify(body)
	if err != nil {
		return err
	}
	if q.ID != "" {
		if who.id != "" {
			return invalid("both id and %s are there: want one", headerKey)
		}
		if who, err = c.identityOf(q.ID, body); err != nil {
			return err
		}
	}
	conditions, err := optionalList[commitCondition](q.If, c.h.o.Limits.MaxBatchWrites)
	if err != nil {
		return err
	}
	actions, err := optionalList[commitAction](q.Do, c.h.o.Limits.MaxBatchWrites)
	if err != nil {
		return err
	}
	if len(conditions)+len(actions) == 0 {
		return invalid("there is nothing to do: want do, if or both")
	}
	for n := 1; ; n++ {
		m := &commitment{h: c.h, b: mainstem.NewBatch()}
		r, memo, err := c.makeCommit(m, who, conditions, actions)
		if err == nil {
			return c.answerCommit(m.plan, r, memo)
		}
		if !m.again(err) || !contention.Wait(c.ctx, n) {
			return err
		}
	}
}

// optionalList is decodeList for an array that may be missing.
func optionalList[T any](data []byte, limit int) ([]T, error) {
	if data == nil {
		return nil, nil
	}
	return decodeList[T](data, limit)
}

// build adds conditions and actions to the batch.
func (m *commitment) build(ctx context.Context, conditions []commitCondition, actions []commitAction) error {
	for i := range conditions {
		if err := conditions[i].addTo(m); err != nil {
			return at("if", i, err)
		}
	}
	for i := range actions {
		a, err := actions[i].one()
		if err == nil {
			var p part
			if p, err = a.addTo(ctx, m); err == nil {
				err = m.b.Err()
			}
			m.plan.Parts = append(m.plan.Parts, p)
		}
		if err != nil {
			return at("do", i, err)
		}
	}
	return nil
}

// at says in which element of a list a mistake is.
func at(list string, i int, err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind != mainstem.KindInvalid {
		return err
	}
	return invalid("%s[%d]: %w", list, i, err)
}

// makeCommit builds the batch and commits it. Its memo is the plan.
func (c *call) makeCommit(m *commitment, who identity, conditions []commitCondition, actions []commitAction) (mainstem.Receipt, json.RawMessage, error) {
	if err := m.build(c.ctx, conditions, actions); err != nil {
		return c.made(who, err)
	}
	memo, err := json.Marshal(m.plan)
	if err != nil {
		return mainstem.Receipt{}, nil, mainstem.Refusef(mainstem.KindInternal, "http", "encode a plan: %w", err)
	}
	return c.commit(m.b, who, memo)
}

// answerCommit answers with what was written: by the plan p, or that of a duplicate, which memo has.
func (c *call) answerCommit(p plan, r mainstem.Receipt, memo json.RawMessage) error {
	if r.Duplicate {
		p = plan{}
		if err := json.Unmarshal(memo, &p); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "http", "a remembered plan: %w", err)
		}
	}
	out := committed{First: position(r.First), Last: position(r.Last), Time: r.Time.UTC(), Duplicate: r.Duplicate, Results: []result{}}
	for i := range p.Parts {
		out.Results = append(out.Results, p.Parts[i].result(r))
	}
	return c.answer(http.StatusCreated, out)
}

func (q *commitCondition) addTo(m *commitment) error {
	switch {
	case q.KV != nil && q.Event == nil:
		return q.KV.addTo(m)
	case q.Event != nil && q.KV == nil:
		return q.Event.addTo(m)
	}
	return invalid("want one of kv and event")
}

func (q *kvCondition) addTo(m *commitment) error {
	t, err := m.h.openTable(q.Table)
	if err != nil {
		return err
	}
	key, err := q.text()
	if err != nil {
		return err
	}
	o := kvOptions{IfRevision: q.Revision, IfAbsent: q.Absent, IfExists: q.Exists}
	cond, some, err := o.condition()
	if err != nil || !some {
		return invalid("want one of revision, absent and exists")
	}
	t.ExpectTo(m.b, key, cond)
	return m.b.Err()
}

func (q *eventCondition) addTo(m *commitment) error {
	s, err := event.Open(m.h.log, q.Store, nil)
	if err != nil {
		return err
	}
	if !q.Expected.given {
		return invalid("expected is missing: want none, exists or a version")
	}
	s.ExpectTo(m.b, q.Stream, q.Expected.Expected)
	return m.b.Err()
}

// kvPutAction writes a key.
type kvPutAction struct {
	Table string `json:"table"`
	kvPair
}

func (q *kvPutAction) addTo(_ context.Context, m *commitment) (part, error) {
	t, err := m.h.openTable(q.Table)
	if err != nil {
		return part{}, err
	}
	n := m.b.Len()
	return keyPart(n, nil), q.putTo(m.b, t)
}

// kvDeleteAction deletes a key.
type kvDeleteAction struct {
	Table string `json:"table"`
	name
	Purge      bool    `json:"purge"`
	IfRevision *uint64 `json:"ifRevision"`
	IfExists   bool    `json:"ifExists"`
}

func (q *kvDeleteAction) addTo(_ context.Context, m *commitment) (part, error) {
	t, err := m.h.openTable(q.Table)
	if err != nil {
		return part{}, err
	}
	key, err := q.text()
	if err != nil {
		return part{}, err
	}
	o := kvOptions{IfRevision: q.IfRevision, IfExists: q.IfExists}
	cond, some, err := o.condition()
	if err != nil {
		return part{}, err
	}
	var opts []kv.DeleteOption
	if some {
		opts = append(opts, cond)
	}
	n := m.b.Len()
	if q.Purge {
		t.PurgeTo(m.b, key, opts...)
	} else {
		t.DeleteTo(m.b, key, opts...)
	}
	return keyPart(n, nil), nil
}

// kvIncrementAction adds to a counter.
type kvIncrementAction struct {
	Table string `json:"table"`
	name
	By  *counter `json:"by"`
	TTL string   `json:"ttl"`
}

func (q *kvIncrementAction) addTo(ctx context.Context, m *commitment) (part, error) {
	key, err := q.text()
	if err != nil {
		return part{}, err
	}
	if q.By == nil {
		return part{}, invalid("by is missing: want the number to add")
	}
	var opts []kv.ValueOption
	if q.TTL != "" {
		d, err := parseTTL(q.TTL)
		if err != nil {
			return part{}, invalid("ttl is %.40q: want a duration such as 30m, 0 for none", q.TTL)
		}
		opts = append(opts, kv.TTL(d))
	}
	n := m.b.Len()
	var sum counter
	err = m.reading(func() error {
		v, err := m.h.incrementTo(ctx, m.b, q.Table, key, int64(*q.By), opts)
		sum = counter(v)
		return err
	})
	return keyPart(n, &sum), err
}

// eventAppendAction appends events to a stream.
type eventAppendAction struct {
	Store    string          `json:"store"`
	Stream   string          `json:"stream"`
	Expected expectation     `json:"expected"`
	Events   json.RawMessage `json:"events"`
}

func (q *eventAppendAction) addTo(ctx context.Context, m *commitment) (part, error) {
	s, err := m.store(ctx, q.Store)
	if err != nil {
		return part{}, err
	}
	list, err := optionalList[newEvent](q.Events, m.h.o.Limits.MaxBatchWrites)
	if err != nil {
		return part{}, err
	}
	events, err := eventsOf(list)
	if err != nil {
		return part{}, err
	}
	n := m.b.Len()
	s.AppendTo(m.b, q.Stream, q.Expected.or(event.AnyVersion), events)
	return eventsPart(m.b, n, s.Space()), nil
}

// publishAction publishes records.
type publishAction struct {
	Topic   string          `json:"topic"`
	Records json.RawMessage `json:"records"`
}

func (q *publishAction) addTo(ctx context.Context, m *commitment) (part, error) {
	t, err := m.h.topics.Topic(ctx, q.Topic)
	if err != nil {
		return part{}, err
	}
	list, err := optionalList[newRecord](q.Records, m.h.o.Limits.MaxBatchWrites)
	if err != nil {
		return part{}, err
	}
	if len(list) == 0 {
		return part{}, invalid("records are missing: want at least one")
	}
	return publishTo(m.b, t, list)
}

// offsetAction stores where a consumer group goes on.
type offsetAction struct {
	Topic string `json:"topic"`
	Group string `json:"group"`
	groupOffset
}

func (q *offsetAction) addTo(ctx context.Context, m *commitment) (part, error) {
	t, err := m.h.topics.Topic(ctx, q.Topic)
	if err != nil {
		return part{}, err
	}
	t.Offsets(q.Group).CommitTo(m.b, q.Partition, int64(q.Offset))
	return part{}, nil
}

// alertAction inserts a row into an alert table.
type alertAction struct {
	Table  string                     `json:"table"`
	Values map[string]json.RawMessage `json:"values"`
}

func (q *alertAction) addTo(ctx context.Context, m *commitment) (part, error) {
	alerts := m.h.o.Alerts()
	if alerts == nil {
		return part{}, refuse(http.StatusNotImplemented, mainstem.KindUnsupported, "this server keeps no alert tables: see the setting omnibus")
	}
	values := make(map[string]any, len(q.Values))
	for column, data := range q.Values {
		v, err := columnValue(data)
		if err != nil {
			return part{}, invalid("the column %.60s is %w", column, err)
		}
		values[column] = v
	}
	return part{}, m.reading(func() error { return alerts.InsertTo(ctx, m.b, q.Table, values) })
}

// maxExact is the largest whole number up to which every one is a float64.
const maxExact = 1 << 53

// columnValue reads the value of a column: a text, a truth value, an int64 or a float64. All digits of
// a whole number count: it is not read as a float64, which has 53 bits.
func columnValue(data []byte) (any, error) {
	switch data[0] { // an array or an object would be decoded as a whole
	case '[':
		return nil, errors.New("an array: want a text, a number or a truth value")
	case '{':
		return nil, errors.New("an object: want a text, a number or a truth value")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, badJSON(err)
	}
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return nil, fmt.Errorf("%.40s: want a whole number from %d to %d", v, math.MinInt64, math.MaxInt64)
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("%.40s: want a number that fits into 64 bits, up to about 1.8e308", v)
		}
		if f == math.Trunc(f) && math.Abs(f) <= maxExact {
			return int64(f), nil
		}
		return f, nil
	case string, bool:
		return v, nil
	default:
		return nil, errors.New("null: want a text, a number or a truth value")
	}
}
