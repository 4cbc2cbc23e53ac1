package event

import (
	"fmt"
	"maps"
	"strconv"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// maxUpcasts bounds the number of upcasting steps for one recorded event, including those for the
// events that it is split into, so that a cycle of upcasters ends.
const maxUpcasts = 1000

// Decode returns the value of a recorded event in its present form. It is a value of the registered
// Go type, and shares no memory with r unless the codec's values do.
//
// It is nil for an event that is skipped because the Types is lenient, or that an upcaster dropped.
// An event that an upcaster splits into several is Invalid here; use [Types.Each]. Other errors are
// [*UnknownTypeError], [*SchemaGapError], [*SchemaFutureError], Corrupt for data that the codec
// refuses, and errors of upcasters.
func (t *Types) Decode(r Recorded) (any, error) {
	var out any
	n := 0
	err := t.Each(r, func(v any, _ Recorded) error {
		out = v
		n++
		return nil
	})
	if err == nil && n > 1 {
		err = mainstem.Errorf(mainstem.KindInvalid, "decode event", "stream %.60q: version %d of type %s becomes %d events: use Each", r.Stream, r.Version, r.Type, n)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Each calls do for each event into which upcasting turns r, in order; that is one event for nearly
// all r. The value is that of [Types.Decode]; the Recorded is r with the type, data and schema
// version that the value was decoded from. Each stops at the first error of do.
func (t *Types) Each(r Recorded, do func(v any, r Recorded) error) error {
	w := walk{types: t, reg: t.current.Load(), lenient: t.lenient, left: maxUpcasts, do: do}
	return w.each(r)
}

// EachStrict is [Types.Each], but fails on events of unknown types even if t is lenient.
func (t *Types) EachStrict(r Recorded, do func(v any, r Recorded) error) error {
	w := walk{types: t, reg: t.current.Load(), left: maxUpcasts, do: do}
	return w.each(r)
}

// walk is one call of Each.
type walk struct {
	types   *Types
	reg     *registry
	lenient bool
	left    int // upcasting steps that are left
	do      func(any, Recorded) error
}

func (w *walk) each(r Recorded) error {
	schema, err := SchemaOf(r.Metadata)
	if err != nil {
		return corruptEvent(&r, err)
	}
	for {
		et := w.reg.byName[r.Type]
		if et != nil && schema == et.schema {
			v, err := et.decode(et.codecFor(r.ContentType), r.Data)
			if err != nil {
				return corruptEvent(&r, err)
			}
			return w.do(v, r)
		}
		s, ok := w.reg.steps[stepKey{r.Type, schema}]
		switch {
		case et == nil && !ok:
			return w.unknown(&r)
		case et != nil && schema > et.schema:
			return &SchemaFutureError{Stream: r.Stream, Version: r.Version, Type: r.Type, Schema: schema, Known: et.schema}
		case !ok:
			return &SchemaGapError{Stream: r.Stream, Version: r.Version, Type: r.Type, Missing: schema, Expected: et.schema}
		}
		if w.left--; w.left < 0 {
			return mainstem.Errorf(mainstem.KindInvalid, "upcast event", "stream %.60q: version %d has taken %d steps and is at type %s, schema version %d: the upcasters lead in a circle",
				r.Stream, r.Version, maxUpcasts, r.Type, schema)
		}
		if s.many != nil {
			return w.split(r, schema, s)
		}
		if r.Data, err = s.one(et, r.ContentType, r.Data, r.Metadata); err != nil {
			return upcastError(&r, schema, err)
		}
		schema++
		r.Metadata = withSchema(r.Metadata, schema)
	}
}

// split applies a step that turns one event into 0 to n events.
func (w *walk) split(r Recorded, schema int, s step) error {
	events, err := s.many(r)
	if err != nil {
		return upcastError(&r, schema, err)
	}
	for _, ev := range events {
		part := r
		part.Event = ev
		if part.ID.IsZero() {
			part.ID = r.ID
		}
		if part.Type == "" {
			part.Type = r.Type
		}
		if ev.ContentType == "" {
			part.ContentType = r.ContentType
		}
		part.Metadata = ev.Metadata.Or(r.Metadata)
		if _, stamped := ev.Metadata.Custom[SchemaName]; !stamped {
			next := 1
			if part.Type == r.Type {
				next = schema + 1
			}
			part.Metadata = withSchema(part.Metadata, next)
		}
		if err := w.each(part); err != nil {
			return err
		}
	}
	return nil
}

// SchemaOf returns the schema version of an event with metadata m, or 1 if there is no entry
// [SchemaName].
func SchemaOf(m Metadata) (int, error) {
	text, ok := m.Custom[SchemaName]
	if !ok {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxSchema {
		return 0, fmt.Errorf("%s is %.20q: want a number from 1 to %d", SchemaName, text, MaxSchema)
	}
	return n, nil
}

// withSchema returns m with another schema version, in a new map.
func withSchema(m Metadata, schema int) Metadata {
	m.Custom = maps.Clone(m.Custom)
	switch {
	case schema == 1:
		delete(m.Custom, SchemaName)
	case m.Custom == nil:
		m.Custom = map[string]string{SchemaName: strconv.Itoa(schema)}
	default:
		m.Custom[SchemaName] = strconv.Itoa(schema)
	}
	return m
}

// maxSkipped is the number of unknown types that are counted separately.
const maxSkipped = 1000

// skipped counts the events that a lenient Types skipped.
type skipped struct {
	mu     sync.Mutex
	counts map[string]uint64
}

func (w *walk) unknown(r *Recorded) error {
	if !w.lenient {
		return &UnknownTypeError{Stream: r.Stream, Version: r.Version, Type: r.Type}
	}
	s := &w.types.skipped
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[string]uint64)
	}
	n, known := s.counts[r.Type]
	switch {
	case known:
		s.counts[r.Type] = n + 1
	case len(s.counts) < maxSkipped:
		s.counts[r.Type] = 1
		w.types.logger.Warn("events of a type that is not registered are skipped", "type", r.Type, "stream", r.Stream, "version", r.Version)
	default:
		s.counts[""]++
	}
	return nil
}

// Skipped returns the number of skipped events of each unknown type; only a lenient Types counts
// them. From the 1,000th type on they are counted together, under "".
func (t *Types) Skipped() map[string]uint64 {
	t.skipped.mu.Lock()
	defer t.skipped.mu.Unlock()
	return maps.Clone(t.skipped.counts)
}

// UnknownTypeError reports an event of an unregistered type. It is Unsupported.
type UnknownTypeError struct {
	Stream  string
	Version mainstem.Version
	Type    string
}

// Error names the event and what to do.
func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("stream %.64q: version %d is of type %.60q, which is not registered: register it, or open the types with Lenient", e.Stream, e.Version, e.Type)
}

// Unwrap makes it an error of kind Unsupported.
func (e *UnknownTypeError) Unwrap() error { return unsupported }

// SchemaGapError reports that no chain of upcasters leads from the schema version of an event to
// the registered one. It is Unsupported.
type SchemaGapError struct {
	Stream   string
	Version  mainstem.Version
	Type     string
	Missing  int // the schema version that no upcaster starts from
	Expected int // the registered one
}

// Error names the missing upcaster.
func (e *SchemaGapError) Error() string {
	return fmt.Sprintf("stream %.64q: version %d of type %s has schema version %d, and there is no upcaster from it towards %d", e.Stream, e.Version, e.Type, e.Missing, e.Expected)
}

// Unwrap makes it an error of kind Unsupported.
func (e *SchemaGapError) Unwrap() error { return unsupported }

// SchemaFutureError reports that an event was written by a newer program, with a schema version
// above the registered one. It is Unsupported.
type SchemaFutureError struct {
	Stream  string
	Version mainstem.Version
	Type    string
	Schema  int // of the event
	Known   int // the registered one
}

// Error names both versions.
func (e *SchemaFutureError) Error() string {
	return fmt.Sprintf("stream %.64q: version %d of type %s has schema version %d, and this program knows up to %d: use a newer program", e.Stream, e.Version, e.Type, e.Schema, e.Known)
}

// Unwrap makes it an error of kind Unsupported.
func (e *SchemaFutureError) Unwrap() error { return unsupported }

// unsupported gives the errors of this package about types their kind.
var unsupported = &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "decode event"}

func corruptEvent(r *Recorded, err error) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "decode event", "version %d of type %s: %w", r.Version, r.Type, err).At("", []byte(r.Stream))
}

func upcastError(r *Recorded, schema int, err error) error {
	return fmt.Errorf("stream %.64q: version %d of type %s: upcast from schema version %d: %w", r.Stream, r.Version, r.Type, schema, err)
}
