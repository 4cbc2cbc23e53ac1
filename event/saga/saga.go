package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
)

// MaxName is the largest number of bytes in the name of a saga or a timeout, MaxKey that in a key.
const (
	MaxName = 64
	MaxKey  = 1024
)

// Saga is the definition of one type of sagas: the events that start and continue them, and their
// handlers. [New] makes one. It does not change, and several engines may use it.
type Saga struct {
	name     string
	state    reflect.Type               // of the state S
	events   map[reflect.Type]*handlers // by Go type
	timeouts map[string]handler         // by name
	sends    map[string]*commandType    // by command type
	filter   *event.Filter              // nil: events of the types that have handlers
}

// handler is a handler without the types of state and event. It records the effects of the call in
// s; v is the event, nil for a timeout.
type handler func(s *step, v any) error

// handlers are the handlers for events of one Go type. One of them may be nil.
type handlers struct{ start, on *route }

// route is a handler of events, and the function that finds the saga of an event.
type route struct {
	key func(v any, r event.Recorded) string // "": the event is for no saga
	do  handler
}

// Option is a part of a [Saga]: the result of [StartOn], [On], [OnTimeout], [Sends] or [Select].
type Option struct {
	state reflect.Type // the state that its handler takes; nil: none
	add   func(*Saga) error
}

// New returns the definition of the sagas called name: 1 to [MaxName] letters, digits, dots and
// underlines. S is their state: a type that encoding/json can write and read. Each saga begins with
// the zero value. At least one [StartOn] is needed. The error is Invalid, and names all faults.
func New[S any](name string, options ...Option) (*Saga, error) {
	s := &Saga{
		name: name, state: reflect.TypeFor[S](), events: make(map[reflect.Type]*handlers),
		timeouts: make(map[string]handler), sends: make(map[string]*commandType),
	}
	errs := []error{checkName(name), checkState[S]()}
	for _, o := range options {
		switch {
		case o.add == nil:
			errs = append(errs, errors.New("an option is empty"))
		case o.state != nil && o.state != s.state:
			errs = append(errs, fmt.Errorf("a handler has the state %s, and the saga has %s", o.state, s.state))
		default:
			errs = append(errs, o.add(s))
		}
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(s.events)), func(h *handlers) bool { return h.start != nil }) {
		errs = append(errs, errors.New("nothing starts it: there is no StartOn"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "saga", "%.60q: %w", name, err)
	}
	return s, nil
}

func checkName(name string) error {
	ok := name != "" && len(name) <= MaxName
	for _, c := range []byte(name) {
		ok = ok && (c == '.' || c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z')
	}
	if !ok {
		return fmt.Errorf("want a name of 1 to %d letters, digits, dots and underlines", MaxName)
	}
	return nil
}

// checkState returns an error if the state could never be stored or read.
func checkState[S any]() error {
	var zero S
	data, err := json.Marshal(zero)
	if err == nil {
		err = json.Unmarshal(data, &zero)
	}
	if err != nil {
		return fmt.Errorf("the state %s: %w", reflect.TypeFor[S](), err)
	}
	return nil
}

// Name returns the name of the type, with which the IDs of its instances begin.
func (s *Saga) Name() string { return s.name }

// StartOn makes an event of Go type T start a saga, and handles the event. key returns the key of
// the saga: at most [MaxKey] bytes without control characters. "" means that the event starts none.
// If there is a saga with that key already, in whatever status, the event is handled by the [On] of
// T. If there is no such On, it is counted as ignored.
func StartOn[S, T any](key func(ev T, r event.Recorded) string, do func(c *Context[S], ev T) error) Option {
	return onEvent(key, do, func(h *handlers) **route { return &h.start })
}

// On handles the events of Go type T for the saga with the key that key returns; "" means that the
// event is for no saga. An event for a saga that does not exist is counted as early, and an event
// for one that is neither started nor running as ignored.
//
// If do returns an error, nothing is written. The event is tried again, and is poison in the end;
// see [Follow]. To end the saga instead, do calls [Context.Fail] and returns nil.
func On[S, T any](key func(ev T, r event.Recorded) string, do func(c *Context[S], ev T) error) Option {
	return onEvent(key, do, func(h *handlers) **route { return &h.on })
}

// onEvent returns the option that sets one of the two routes for events of Go type T, which at
// selects.
func onEvent[S, T any](key func(T, event.Recorded) string, do func(*Context[S], T) error, at func(*handlers) **route) Option {
	typ := reflect.TypeFor[T]()
	return Option{state: reflect.TypeFor[S](), add: func(s *Saga) error {
		h := s.events[typ]
		if h == nil {
			h = new(handlers)
			s.events[typ] = h
		}
		switch r := at(h); {
		case key == nil || do == nil:
			return fmt.Errorf("the key or the handler of %s is nil", typ)
		case *r != nil:
			return fmt.Errorf("two handlers for %s", typ)
		default:
			*r = &route{
				key: func(v any, r event.Recorded) string { return key(v.(T), r) },
				do:  func(s *step, v any) error { return call(s, func(c *Context[S]) error { return do(c, v.(T)) }) },
			}
			return nil
		}
	}}
}

// OnTimeout handles the timeouts called name, which [Context.Timeout] sets. If do returns an error,
// it is called again; after [Options.Attempts] errors the saga fails. Errors of kind Unavailable do
// not count.
func OnTimeout[S any](name string, do func(c *Context[S]) error) Option {
	return Option{state: reflect.TypeFor[S](), add: func(s *Saga) error {
		switch {
		case name == "" || len(name) > MaxName || event.ValidateStream(name) != nil:
			return fmt.Errorf("timeout %.60q: want a name of 1 to %d bytes without control characters", name, MaxName)
		case do == nil:
			return fmt.Errorf("the handler of timeout %s is nil", name)
		case s.timeouts[name] != nil:
			return fmt.Errorf("two handlers for timeout %s", name)
		}
		s.timeouts[name] = func(s *step, _ any) error { return call(s, do) }
		return nil
	}}
}

// Sends declares that the saga dispatches commands of Go type C or compensates with them. While
// they wait, commands are encoded with the first codec (default codec.JSON). The other codecs only
// read, for commands that an older version of the program has encoded. A saga cannot send a command
// that it does not declare.
func Sends[C command.Command](codecs ...codec.Codec) Option {
	return Option{add: func(s *Saga) error {
		t, err := newCommandType[C](codecs)
		if err != nil {
			return err
		}
		if s.sends[t.name] != nil {
			return fmt.Errorf("command %s is declared twice", t.name)
		}
		s.sends[t.name] = t
		return nil
	}}
}

// Select replaces the filter of the events. Default: the events of all streams whose types have a
// handler. It is needed if upcasters make such events from events of other types: the filter must
// then name both. Events of types that are not registered are an error; see [event.Types].
func Select(f event.Filter) Option {
	return Option{add: func(s *Saga) error { s.filter = &f; return nil }}
}

// StreamKey returns the ID of the stream of an event as the key: "42" for events of stream
// order-42.
func StreamKey[T any](_ T, r event.Recorded) string { return event.ParseStreamID(r.Stream).ID }

// selected returns the filter of the subscription of the type. A Go type that is not registered as
// an event is Invalid.
func (s *Saga) selected(types *event.Types) (event.Filter, error) {
	var names []string
	for t := range s.events {
		name := types.NameOf(reflect.Zero(t).Interface())
		if name == "" {
			return event.Filter{}, mainstem.Refusef(mainstem.KindInvalid, "saga", "%s: Go type %s is not registered as an event: call event.Register", s.name, t)
		}
		names = append(names, name)
	}
	if s.filter != nil {
		return *s.filter, nil
	}
	slices.Sort(names)
	return event.Filter{Types: names}, nil
}

// idOf returns the ID of a saga: its type, a hyphen and its key. The name of a type has no hyphen,
// so sagas of different types have different IDs.
func idOf(name, key string) string { return name + "-" + key }

func (s *Saga) checkKey(key string) error {
	if len(key) > MaxKey {
		return mainstem.Refusef(mainstem.KindInvalid, "saga", "%s: the key %.60q… has %d bytes: the limit is %d", s.name, key, len(key), MaxKey)
	}
	return event.ValidateStream(idOf(s.name, key))
}
