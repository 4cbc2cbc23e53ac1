package saga

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event/command"
)

// commandType is a Go type of commands that a saga sends; see [Sends].
type commandType struct {
	name   string
	typ    reflect.Type
	codecs []codec.Codec
	decode func(c codec.Codec, data []byte, base command.Base) (command.Command, error)
}

// newCommandType returns the command type of C. Its name is the CommandType of a zero C.
func newCommandType[C command.Command](codecs []codec.Codec) (*commandType, error) {
	typ := reflect.TypeFor[C]()
	if typ.Kind() == reflect.Interface {
		return nil, fmt.Errorf("%s is an interface: declare the commands that implement it", typ)
	}
	if len(codecs) == 0 {
		codecs = []codec.Codec{codec.JSON}
	}
	for _, c := range codecs {
		if c == nil {
			return nil, fmt.Errorf("a codec of %s is nil", typ)
		}
	}
	zero := reflect.Zero(typ)
	if typ.Kind() == reflect.Pointer {
		zero = reflect.New(typ.Elem())
	}
	name := zero.Interface().(command.Command).CommandType()
	if name == "" {
		return nil, fmt.Errorf("the command type of %s is empty", typ)
	}
	return &commandType{name: name, typ: typ, codecs: codecs, decode: func(c codec.Codec, data []byte, base command.Base) (command.Command, error) {
		var cmd C
		if err := c.Decode(data, &cmd); err != nil {
			return nil, err
		}
		setBase(reflect.ValueOf(&cmd).Elem(), base)
		return cmd, nil
	}}, nil
}

// setBase fills in the empty IDs of the command.Base that v embeds, if it embeds one.
func setBase(v reflect.Value, base command.Base) {
	have := baseField(v)
	if have == nil {
		return
	}
	for _, pair := range [][2]*string{{&have.CommandID, &base.CommandID}, {&have.CorrelationID, &base.CorrelationID}, {&have.CausationID, &base.CausationID}} {
		if *pair[0] == "" {
			*pair[0] = *pair[1]
		}
	}
}

// baseField returns the command.Base that v, or the struct it points to, embeds; nil if there is
// none. v must be settable.
func baseField(v reflect.Value) *command.Base {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	f, ok := v.Type().FieldByName("Base")
	if !ok || !f.Anonymous || len(f.Index) != 1 || f.Type != reflect.TypeFor[command.Base]() {
		return nil
	}
	return v.FieldByIndex(f.Index).Addr().Interface().(*command.Base)
}

// Kinds of messages. They are stored: add new ones at the end only.
const (
	kindCommand = iota // a command
	kindUndo           // a compensation; Undo is its index in row.Undo
	kindAgain          // an event or timeout that Retry handles again
)

// message is work of a saga that waits: a row of the table saga.inbox/<store>. Its key is the ID of
// the saga, a zero byte, and the number of the message.
type message struct {
	Kind int `json:"kind,omitempty"`

	Type        string `json:"type,omitempty"` // of the command; this and the next ones are empty for kindAgain
	Codec       string `json:"codec,omitempty"`
	Data        []byte `json:"data,omitempty"`
	Correlation string `json:"correlation,omitempty"`
	Causation   string `json:"causation,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	Undo        int    `json:"undo,omitempty"`

	Event   *Cause `json:"event,omitempty"`   // kindAgain: the event; nil for a timeout
	Timeout string `json:"timeout,omitempty"` // kindAgain: name of the timeout
}

// numbered is a message with its number.
type numbered struct {
	n uint64
	message
}

// encode returns the message of a command. A command that the saga does not declare, or that is not
// of the declared Go type or a pointer to it, is Invalid.
func (s *Saga) encode(cmd command.Command) (message, error) {
	if cmd == nil {
		return message{}, errors.New("the command is nil")
	}
	t := s.sends[cmd.CommandType()]
	if t == nil {
		return message{}, mainstem.Refusef(mainstem.KindInvalid, "saga", "%s does not send the command %.60q: declare it with saga.Sends", s.name, cmd.CommandType())
	}
	v := reflect.ValueOf(cmd)
	if v.Type() != t.typ && v.Kind() == reflect.Pointer && v.Type().Elem() == t.typ && !v.IsNil() {
		v = v.Elem()
	}
	if v.Type() != t.typ {
		return message{}, mainstem.Refusef(mainstem.KindInvalid, "saga", "%s: command %s is a %T, and it is declared as %s", s.name, t.name, cmd, t.typ)
	}
	data, err := t.codecs[0].Append(nil, v.Interface())
	if err != nil {
		return message{}, mainstem.Refusef(mainstem.KindInvalid, "saga", "%s: command %s: %w", s.name, t.name, err)
	}
	return message{Type: t.name, Codec: t.codecs[0].Name(), Data: data}, nil
}

// decode returns the command of a message. If it embeds command.Base, empty IDs are filled in, with
// id as CommandID. Commands that this version of the program cannot decode are Unavailable: another
// version may.
func (s *Saga) decode(m *message, id string) (command.Command, error) {
	t := s.sends[m.Type]
	if t == nil {
		return nil, mainstem.Errorf(mainstem.KindUnavailable, "saga", "command %s is of type %s, which saga %s does not declare any more", id, m.Type, s.name)
	}
	base := command.Base{CommandID: id, CorrelationID: m.Correlation, CausationID: m.Causation}
	for _, c := range t.codecs {
		if c.Name() == m.Codec {
			cmd, err := t.decode(c, m.Data, base)
			if err != nil {
				err = mainstem.Errorf(mainstem.KindUnavailable, "saga", "command %s, a %s, cannot be decoded: %w", id, m.Type, err)
			}
			return cmd, err
		}
	}
	return nil, mainstem.Errorf(mainstem.KindUnavailable, "saga", "command %s, a %s, was encoded with the codec %s, which saga %s does not declare", id, m.Type, m.Codec, s.name)
}

// commandID returns the ID of a command, type/key/number. It is the same for every try of the step
// that sends it.
func commandID(name, key string, n uint64) string {
	return name + "/" + key + "/" + strconv.FormatUint(n, 10)
}

// inboxKey returns the key of a message in the inbox. The keys of one saga are in the order of the
// numbers. An ID has no zero byte, so the keys of different sagas do not mix.
func inboxKey(id string, n uint64) string { return fmt.Sprintf("%s\x00%020d", id, n) }

// splitInboxKey is the inverse of inboxKey.
func splitInboxKey(key string) (id string, n uint64, err error) {
	id, number, ok := strings.Cut(key, "\x00")
	if n, err = strconv.ParseUint(number, 10, 64); !ok || err != nil || len(number) != 20 {
		return "", 0, mainstem.Errorf(mainstem.KindCorrupt, "saga", "the key %.100q of the inbox is not an ID and a number", key)
	}
	return id, n, nil
}
