package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
	codec "github.com/mainstemdev/mainstem/codec/binary"
)

// ErrUnregistered is found by errors.Is in the error of a send if the type of the message, or of a
// value inside of it, has no name, or the other node cannot read it. Its kind is Invalid.
var ErrUnregistered = errors.New("the type cannot be sent")

// kind is a type, or an error value, that has a name. It implements [actor.Encoded]. It is not
// changed once it is in a table.
type kind struct {
	codec    *codec.Registry
	number   uint64 // in the frames of this node, from 1
	short    uint64 // the codec's number of the type inside of values, 0 if it writes the name
	name     string
	typ      reflect.Type // nil for an error value
	sentinel error        // the error value
	schema   string       // of the codec; "" for an error value
	others   bool         // its values may hold values of other registered types
	prefix   []byte       // of a value that the codec writes with its type; nil: not known
}

// copyLimit is the size in bytes up to which data are copied behind the prefix of their kind. The
// codec then decodes them as a value with its type, which takes one allocation.
const copyLimit = 4096

// Type returns the type.
func (k *kind) Type() reflect.Type { return k.typ }

// Into decodes data into the value that v points to. A panic in a method of the type is an error.
func (k *kind) Into(data []byte, v any) error {
	return guard(func() error { return k.codec.Decode(data, v) })
}

// Value decodes data and returns the value. A panic in a method of the type is an error.
func (k *kind) Value(data []byte) (v any, err error) {
	err = guard(func() error { v, err = k.value(data); return err })
	return v, err
}

func (k *kind) value(data []byte) (any, error) {
	if k.prefix == nil || len(data) > copyLimit {
		p := reflect.New(k.typ)
		if err := k.codec.Decode(data, p.Interface()); err != nil {
			return nil, err
		}
		return p.Elem().Interface(), nil
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	*buf = append(append((*buf)[:0], k.prefix...), data...)
	return k.codec.DecodeAny(*buf)
}

var scratch = sync.Pool{New: func() any { return new([]byte) }}

// kinds are the kinds of a node: a snapshot of its registry, with numbers. The table is read
// without a lock and never changed: update replaces it.
type kinds struct {
	codec *codec.Registry
	mu    sync.Mutex // held by update
	table atomic.Pointer[kindTable]
}

type kindTable struct {
	byNumber []*kind // by number less one, without gaps
	byName   map[string]*kind
	byType   map[reflect.Type]*kind
}

func newKinds(r *codec.Registry) *kinds {
	ks := &kinds{codec: r}
	ks.table.Store(&kindTable{byName: map[string]*kind{}, byType: map[reflect.Type]*kind{}})
	return ks
}

// update adds the names that were registered since the last call, and returns their kinds. An error
// does not keep the others from being added.
func (ks *kinds) update() ([]*kind, error) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	old := ks.table.Load()
	now := &kindTable{byNumber: slices.Clip(old.byNumber), byName: maps.Clone(old.byName), byType: maps.Clone(old.byType)}
	var fresh []*kind
	var wrong error
	for _, name := range ks.codec.Names() {
		if now.byName[name] != nil {
			continue
		}
		if len(now.byNumber) == frames.MaxEntries || len(name) > frames.MaxText {
			wrong = invalidf("the type %.64q: a cluster has at most %d types with names of at most %d bytes", name, frames.MaxEntries, frames.MaxText)
			break
		}
		k, err := ks.describe(name)
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		k.number = uint64(len(now.byNumber) + 1)
		now.byNumber = append(now.byNumber, k)
		now.byName[name] = k
		if k.typ != nil {
			now.byType[k.typ] = k
		}
		fresh = append(fresh, k)
	}
	ks.table.Store(now)
	return fresh, wrong
}

// describe returns a new kind, without a number, for a name of the registry.
func (ks *kinds) describe(name string) (*kind, error) {
	k := &kind{codec: ks.codec, name: name, typ: ks.codec.TypeOf(name)}
	if k.typ == nil {
		var err error
		k.sentinel, err = ks.valueOf(name)
		return k, err
	}
	zero := reflect.Zero(k.typ).Interface()
	var err error
	if k.schema, err = ks.codec.Schema(zero); err != nil {
		return nil, err
	}
	k.others = strings.Contains(k.schema, "any")
	if len(k.schema) > frames.MaxSchema {
		return nil, invalidf("the schema of %q has %d bytes: the limit is %d", name, len(k.schema), frames.MaxSchema)
	}
	named, err := ks.codec.AppendAny(nil, zero)
	if err != nil {
		return k, nil // the zero value cannot be encoded: no prefix and no short number
	}
	if plain, err := ks.codec.Append(nil, zero); err == nil && bytes.HasSuffix(named, plain) {
		k.prefix = slices.Clip(named[:len(named)-len(plain)])
	}
	// After its first byte the codec writes 2n+1 for the short number n, or else twice the length
	// of the name, and the name.
	if n, read := binary.Uvarint(named[min(1, len(named)):]); read > 0 && n&1 == 1 {
		k.short = n >> 1
	}
	return k, nil
}

// valueOf returns the error value of a name. The registry has no function for that. So valueOf
// encodes another error value, puts the name in place of its name, and decodes the result.
func (ks *kinds) valueOf(name string) (error, error) {
	pattern, err := ks.codec.AppendAny(nil, sentinels[0].err)
	if err != nil {
		return nil, err
	}
	word := func(name string) []byte { return append(binary.AppendUvarint(nil, uint64(len(name))<<1), name...) }
	v, err := ks.codec.DecodeAny(bytes.Replace(pattern, word(sentinels[0].name), word(name), 1))
	if err != nil {
		return nil, err
	}
	value, ok := v.(error)
	if !ok {
		return nil, invalidf("%q is registered as a %T: want an error", name, v)
	}
	return value, nil
}

// of returns the kind of a value, or an Invalid error with ErrUnregistered.
func (ks *kinds) of(v any) (*kind, error) {
	if k := ks.table.Load().byType[reflect.TypeOf(v)]; k != nil {
		return k, nil
	}
	if ks.codec.NameOf(v) != "" { // registered with the registry after Join
		if _, err := ks.update(); err == nil {
			if k := ks.table.Load().byType[reflect.TypeOf(v)]; k != nil {
				return k, nil
			}
		}
	}
	return nil, unsendable(fmt.Sprintf("%T", v), "it is not registered: give it a name with Cluster.Register on all nodes")
}

func unsendable(what, why string) error {
	return mainstem.Errorf(mainstem.KindInvalid, "send a "+what, "%w: %s", ErrUnregistered, why)
}

// catalog returns the frame that describes kinds to other nodes.
func catalog(ks []*kind) *frames.Catalog {
	c := &frames.Catalog{Entries: make([]frames.Entry, 0, len(ks))}
	for _, k := range ks {
		c.Entries = append(c.Entries, frames.Entry{Number: k.number, Short: k.short, Name: k.name, Schema: k.schema})
	}
	return c
}

// judge returns the kind of this node as which values of a peer's type are decoded, or nil and the
// problem, for a person at the peer.
func (ks *kinds) judge(e frames.Entry) (k *kind, problem string) {
	k = ks.table.Load().byName[e.Name]
	switch {
	case k == nil:
		return nil, fmt.Sprintf("%q is not registered there", e.Name)
	case (k.typ == nil) != (e.Schema == ""):
		return nil, fmt.Sprintf("%q is an error value on one of the nodes and a type on the other", e.Name)
	case k.short != e.Short:
		return nil, fmt.Sprintf("%q has the number %d here and %d there", e.Name, e.Short, k.short)
	case k.typ == nil || k.schema == e.Schema:
		return k, ""
	}
	if err := ks.codec.Compatible(e.Schema, reflect.Zero(k.typ).Interface()); err != nil {
		return nil, strings.ToValidUTF8(fmt.Sprintf("%q cannot be read there: %v", e.Name, err), "?")
	}
	return k, ""
}
