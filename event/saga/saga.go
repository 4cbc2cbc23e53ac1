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

// MaxName is the most bytes of the name of a saga, MaxKey that of a key.
const (
	MaxName = 64
	MaxKey  = 1024
)

// Saga is the definition of one type of sagas: which events start and move them, and how.
// Make one with [New]. It does not change and may be used by several engines.
type Saga struct {
	name     string
	state    reflect.Type
	events   map[reflect.Type]*handlers
	timeouts map[string]handler
	sends    map[string]*commandType
	filter   *event.Filter // nil: the types of the handlers
}

// handler is a handler with the types of state and event taken off. It fills in s.
type handler func(s *step, v any) error

// handlers are what is to be done with events of one Go type. One of them may be nil.
type handlers struct{ start, on *route }

// route is a handler of events, and the sagas that it is for.
type route struct {
	key func(v any, r event.Recorded) string
	do  handler
}

// Option is a part of a [Saga]: [StartOn], [On], [OnTimeout], [Sends] or [Select].
type Option struct {
	state reflect.Type // nil: any
	add   func(*Saga) error
}

// New returns the sagas called name, of 1 to [MaxName] letters, digits, dots and underlines. S is
// their state: a struct that encoding/json can write and read, of which each saga begins with
// the zero value. At least one [StartOn] is needed. The error is Invalid, and names everything that is wrong.
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

// checkState finds a state that could never be stored.
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

// Name returns the name of the saga: the category of the IDs of its instances.
func (s *Saga) Name() string { return s.name }

// StartOn says that an event of Go type T starts a saga, and handles it. key returns the
// saga's key, of at most [MaxKey] bytes without control characters; "" means that the event starts
// none. If there is a saga with that key already, whatever its status, the event goes to its [On], if there is one,
// and is ignored otherwise.
func StartOn[S, T any](key func(ev T, r event.Recorded) string, do func(c *Context[S], ev T) error) Option {
	return onEvent(key, do, func(h *handlers) **route { return &h.start })
}

// On handles the events of Go type T for the saga with the key that key returns; "" means that
// the event is for none. An event for a saga that has not been started, or that is not under way
// any more, is ignored and counted.
//
// An error of do writes nothing, and the event is tried again, and is poison in the end: see
// [Follow]. To end the saga, do calls [Context.Fail].
func On[S, T any](key func(ev T, r event.Recorded) string, do func(c *Context[S], ev T) error) Option {
	return onEvent(key, do, func(h *handlers) **route { return &h.on })
}

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

// OnTimeout handles the timeouts of a name, which [Context.Timeout] sets. An error of do is tried
// again; when it has failed [Options.Attempts] times, the saga fails.
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

// Sends says that the saga dispatches commands of Go type C, or compensates with them, and how they
// are encoded until they are carried out: with the first codec, codec.JSON if there is none. Those that the
// others have encoded are still read. A command that a saga does not declare it cannot send.
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

// Select chooses the events that the saga sees, in place of those of all streams whose types
// have a handler. It is needed where upcasters make events of other types into those: then it names both.
// Events of types that nobody registered are an error; see [event.Types].
func Select(f event.Filter) Option {
	return Option{add: func(s *Saga) error { s.filter = &f; return nil }}
}

// StreamKey is the key of events whose stream is the correlation: "42" for those of the
// stream order-42.
func StreamKey[T any](_ T, r event.Recorded) string { return event.ParseStreamID(r.Stream).ID }

// selected returns the filter of the saga's subscription.
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

// idOf returns the ID of a saga: its type and its key. A type has no hyphen, so two sagas of
// different types never have one ID.
func idOf(name, key string) string { return name + "-" + key }

func (s *Saga) checkKey(key string) error {
	if len(key) > MaxKey {
		return mainstem.Refusef(mainstem.KindInvalid, "saga", "%s: the key %.60q… has %d bytes: the limit is %d", s.name, key, len(key), MaxKey)
	}
	return event.ValidateStream(idOf(s.name, key))
}
