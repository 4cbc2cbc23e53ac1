package event

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
)

// Types maps event types of a store to Go types, and converts values to events and back. Older
// forms of an event are upcast on decoding; see [Types.Upcast].
//
// Names of event types are chosen, never derived from Go: renaming a Go type changes no event.
// Registering and using a Types at the same time is safe; a program usually registers all types
// before it reads the first event.
type Types struct {
	lenient bool
	logger  *slog.Logger

	mu      sync.Mutex               // held while something is registered
	current atomic.Pointer[registry] // replaced as a whole, never changed
	skipped skipped
}

// TypesOptions tune a [Types]. Nil and zero fields mean the defaults.
type TypesOptions struct {
	// Lenient skips events of unregistered types, which by default fail with an
	// [*UnknownTypeError]. Skipped events are counted by type, see [Types.Skipped], and logged once
	// for each type.
	Lenient bool
	// Logger logs the skipped types. Default slog.Default.
	Logger *slog.Logger
}

// MaxSchema is the highest schema version of an event type.
const MaxSchema = 1 << 20

// SchemaName is the entry of [Metadata.Custom] with the schema version of an event in decimal. An
// event without it has version 1.
const SchemaName = "$schema_version"

// NewTypes returns a Types without any type.
func NewTypes(opts *TypesOptions) *Types {
	if opts == nil {
		opts = &TypesOptions{}
	}
	t := &Types{lenient: opts.Lenient, logger: opts.Logger}
	if t.logger == nil {
		t.logger = slog.Default()
	}
	t.current.Store(&registry{})
	return t
}

// registry is an immutable state of a Types.
type registry struct {
	byName map[string]*eventType
	byType map[reflect.Type]*eventType
	steps  map[stepKey]step
}

// eventType is the registration of one name.
type eventType struct {
	name   string
	schema int
	stamp  string // schema in decimal, "" for 1
	codecs []codec.Codec
	goType reflect.Type
	decode func(c codec.Codec, data []byte) (any, error)
}

// TypeOption is an option of [Register].
type TypeOption func(*eventType) error

// Schema sets the schema version of the Go type, from 1, the default, to [MaxSchema]. Events that
// were appended with an older version are upcast; see [Types.Upcast].
func Schema(version int) TypeOption {
	return func(et *eventType) error {
		if version < 1 || version > MaxSchema {
			return fmt.Errorf("schema version %d: want 1 to %d", version, MaxSchema)
		}
		et.schema = version
		return nil
	}
}

// WithCodec sets the codec of the data in place of codec.JSON. Events that were written with one of
// the older codecs, as their content type says, are still decoded with it.
func WithCodec(c codec.Codec, older ...codec.Codec) TypeOption {
	return func(et *eventType) error {
		et.codecs = append([]codec.Codec{c}, older...)
		if slices.Contains(et.codecs, nil) {
			return errors.New("a codec is nil")
		}
		return nil
	}
}

// Register says that values of the Go type T are events of type name. The error is
// Invalid if either is registered already, if T is an interface, or an option is wrong.
func Register[T any](t *Types, name string, opts ...TypeOption) error {
	et := &eventType{
		name: name, schema: 1, codecs: []codec.Codec{codec.JSON}, goType: reflect.TypeFor[T](),
		decode: func(c codec.Codec, data []byte) (any, error) {
			var v T
			err := c.Decode(data, &v)
			return v, err
		},
	}
	for _, opt := range opts {
		if err := opt(et); err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "register event type", "type %.60q: %w", name, err)
		}
	}
	if et.schema > 1 {
		et.stamp = strconv.Itoa(et.schema)
	}
	return t.register(et)
}

func (t *Types) register(et *eventType) error {
	const op = "register event type"
	if err := (&Event{Type: et.name}).check(op, 0, 0); err != nil {
		return err
	}
	if et.goType.Kind() == reflect.Interface {
		return mainstem.Refusef(mainstem.KindInvalid, op, "type %s: %s is an interface: register the types that implement it", et.name, et.goType)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	reg := t.current.Load()
	if was := reg.byName[et.name]; was != nil {
		return mainstem.Refusef(mainstem.KindInvalid, op, "type %s: the name is registered already, for %s", et.name, was.goType)
	}
	if was := reg.byType[et.goType]; was != nil {
		return mainstem.Refusef(mainstem.KindInvalid, op, "type %s: %s is registered already, as %s", et.name, et.goType, was.name)
	}
	for key := range reg.steps {
		if key.name == et.name && key.from >= et.schema {
			return mainstem.Refusef(mainstem.KindInvalid, op, "type %s: schema version %d, and there is an upcaster from %d", et.name, et.schema, key.from)
		}
	}
	next := &registry{byName: maps.Clone(reg.byName), byType: maps.Clone(reg.byType), steps: reg.steps}
	if next.byName == nil {
		next.byName, next.byType = make(map[string]*eventType), make(map[reflect.Type]*eventType)
	}
	next.byName[et.name], next.byType[et.goType] = et, et
	t.current.Store(next)
	return nil
}

// find returns the type of v, nil if it is not registered, and v itself or, if v is a pointer to a
// value of the type, that value.
func (reg *registry) find(v any) (*eventType, any) {
	gt := reflect.TypeOf(v)
	if et := reg.byType[gt]; et != nil || gt == nil || gt.Kind() != reflect.Pointer {
		return et, v
	}
	et := reg.byType[gt.Elem()]
	if rv := reflect.ValueOf(v); et != nil && !rv.IsNil() {
		return et, rv.Elem().Interface()
	}
	return nil, v
}

// NameOf returns the event type of v, a value of a registered Go type or a pointer to
// one; "" if it is not registered.
func (t *Types) NameOf(v any) string {
	if et, _ := t.current.Load().find(v); et != nil {
		return et.name
	}
	return ""
}

// Names returns the registered event types, in order.
func (t *Types) Names() []string {
	return slices.Sorted(maps.Keys(t.current.Load().byName))
}

// Encode returns the event for v, a value of a registered Go type or a pointer to one: its type,
// data, content type, for a schema above 1 the entry [SchemaName], and the tags if v implements
// [Tags]. The event belongs to the caller. A value of another type is Invalid.
func (t *Types) Encode(v any) (Event, error) {
	et, v := t.current.Load().find(v)
	if et == nil {
		return Event{}, mainstem.Refusef(mainstem.KindInvalid, "encode event", "Go type %T is not registered: call event.Register", v)
	}
	data, err := et.codecs[0].Append(nil, v)
	if err != nil {
		return Event{}, mainstem.Refusef(mainstem.KindInvalid, "encode event", "type %s: %w", et.name, err)
	}
	ev := Event{Type: et.name, Data: data, ContentType: contentType(et.codecs[0])}
	if tagged, ok := v.(Tags); ok {
		ev.Tags = tagged.EventTags()
	}
	if et.stamp != "" {
		ev.Metadata.Custom = map[string]string{SchemaName: et.stamp}
	}
	return ev, nil
}

// codecFor returns the codec for an event with the given content type. An empty or unknown content
// type stands for the first codec.
func (et *eventType) codecFor(content string) codec.Codec {
	for _, c := range et.codecs[1:] {
		if content == contentType(c) {
			return c
		}
	}
	return et.codecs[0]
}

// contentType returns the media type of the output of c.
func contentType(c codec.Codec) string {
	switch name := c.Name(); name {
	case "json":
		return "application/json"
	case "raw":
		return "application/octet-stream"
	case "cbor":
		return "application/cbor"
	case "msgpack":
		return "application/vnd.msgpack"
	case "protobuf":
		return "application/protobuf"
	default:
		return "application/x-" + name
	}
}
