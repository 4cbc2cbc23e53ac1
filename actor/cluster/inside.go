package cluster

import (
	"context"
	"reflect"
)

// A message is refused before it is sent if the peer cannot read its type (session.kindOf). The
// types of values in fields of interface types are known only from each message. So while the peer
// cannot read some type of this node, or has not answered about all, every message of a type with
// such fields is searched for values that the peer cannot read.

// maxInside is the depth to which a message is searched: the codec's default limit.
const maxInside = 1000

// readable waits for the peer's answers about the types of the values inside of v, in interfaces, and
// fails if it cannot read one. Map keys are not searched.
func (s *session) readable(ctx context.Context, v reflect.Value, depth int) error {
	if depth == 0 {
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if err := s.knows(ctx, v.Interface()); err != nil {
			return err
		}
		return s.readable(ctx, v.Elem(), depth-1)
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return s.readable(ctx, v.Elem(), depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if err := s.readable(ctx, v.Field(i), depth-1); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if plainKind(v.Type().Elem().Kind()) {
			return nil
		}
		for i := range v.Len() {
			if err := s.readable(ctx, v.Index(i), depth-1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			if err := s.readable(ctx, entry.Value(), depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainKind reports whether values of a kind hold no other values.
func plainKind(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }

// knows fails if the peer cannot read the value v of an interface. A value whose type has no name
// passes: an error without a name is written as text, and the codec refuses others.
func (s *session) knows(ctx context.Context, v any) error {
	k := s.cluster.kinds.table.Load().byName[s.cluster.kinds.codec.NameOf(v)]
	if k == nil {
		return nil
	}
	return s.awaitTypeAck(ctx, k, v)
}
