package event

import (
	"fmt"
	"maps"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
)

// stepKey identifies an upcasting step: from events of type name with schema version from.
type stepKey struct {
	name string
	from int
}

// step is one upcasting step. Exactly one of its fields is set.
type step struct {
	// one returns the data in the next schema version. et is nil if the type is not registered.
	one func(et *eventType, content string, data []byte, m Metadata) ([]byte, error)
	// many returns the events that replace the event.
	many func(Recorded) ([]Event, error)
}

// Upcast adds the step from schema version from to the next for events of type name. f returns the
// new data, must not keep the data or the metadata that it is given, and must be deterministic.
// Several steps form a chain. Stored events are never changed: Kafka clients, and callers that load
// events without Types, read them as they were appended. A second step from the same version is
// Invalid, and so is a step from the registered version or above.
func (t *Types) Upcast(name string, from int, f func(data []byte, m Metadata) ([]byte, error)) error {
	if f == nil {
		return mainstem.Refusef(mainstem.KindInvalid, "register upcaster", "type %.60q: the function is nil", name)
	}
	return t.addStep(stepKey{name, from}, step{
		one: func(_ *eventType, _ string, data []byte, m Metadata) ([]byte, error) { return f(data, m) },
	})
}

// UpcastFunc is [Types.Upcast] for a function between Go types: A is the form of the data in schema
// version from, B in the next. Neither needs to be registered. The codec is that of the event's
// content type and the registered type, codec.JSON if the type is not registered.
func UpcastFunc[A, B any](t *Types, name string, from int, f func(A) (B, error)) error {
	if f == nil {
		return mainstem.Refusef(mainstem.KindInvalid, "register upcaster", "type %.60q: the function is nil", name)
	}
	return t.addStep(stepKey{name, from}, step{
		one: func(et *eventType, content string, data []byte, _ Metadata) ([]byte, error) {
			c := codec.JSON
			if et != nil {
				c = et.codecFor(content)
			}
			var a A
			if err := c.Decode(data, &a); err != nil {
				return nil, err
			}
			b, err := f(a)
			if err != nil {
				return nil, err
			}
			return c.Append(nil, b)
		},
	})
}

// UpcastMany adds a step that replaces an event of type name and schema version from by any number
// of events, of the same or other types, or by none. Fields that are empty in an event of f are
// taken from the old one: ID, type, content type, metadata. Without an entry [SchemaName], an event
// of the same type has the next schema version, and one of another type version 1; further steps
// may follow. The name need not be registered, so that a type can be renamed. Stream, version,
// position and time stay: the versions of a stream count the events that were appended.
func (t *Types) UpcastMany(name string, from int, f func(Recorded) ([]Event, error)) error {
	if f == nil {
		return mainstem.Refusef(mainstem.KindInvalid, "register upcaster", "type %.60q: the function is nil", name)
	}
	return t.addStep(stepKey{name, from}, step{many: f})
}

func (t *Types) addStep(key stepKey, s step) error {
	const op = "register upcaster"
	if err := (&Event{Type: key.name}).check(op, 0, 0); err != nil {
		return err
	}
	if key.from < 1 || key.from >= MaxSchema {
		return mainstem.Refusef(mainstem.KindInvalid, op, "type %s: from schema version %d: want 1 to %d", key.name, key.from, MaxSchema-1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	reg := t.current.Load()
	if _, ok := reg.steps[key]; ok {
		return mainstem.Refusef(mainstem.KindInvalid, op, "type %s: there is an upcaster from schema version %d already", key.name, key.from)
	}
	if et := reg.byName[key.name]; et != nil && key.from >= et.schema {
		return mainstem.Refusef(mainstem.KindInvalid, op, "type %s: from schema version %d, and the registered one is %d", key.name, key.from, et.schema)
	}
	next := *reg
	next.steps = maps.Clone(reg.steps)
	if next.steps == nil {
		next.steps = make(map[stepKey]step)
	}
	next.steps[key] = s
	t.current.Store(&next)
	return nil
}

// Check returns an error that names the registered types to which no chain of upcasters leads from
// schema version 1. Call it when the program starts, to find gaps before an old event fails with a
// [*SchemaGapError]. A type whose first versions were never appended needs no chain from them.
func (t *Types) Check() error {
	reg := t.current.Load()
	for _, name := range t.Names() {
		for from := 1; from < reg.byName[name].schema; from++ {
			s, ok := reg.steps[stepKey{name, from}]
			if !ok {
				return mainstem.Errorf(mainstem.KindInvalid, "check event types", "type %s: %w", name, fmt.Errorf("no upcaster leads from schema version %d to %d", from, from+1))
			}
			if s.many != nil {
				break // the result of this step depends on the event
			}
		}
	}
	return nil
}
