package cluster

import (
	"context"
	"reflect"
)

// A message is refused before it is sent if the peer cannot read its type. The types of the
// values in fields of interface types depend on the message: if the peer cannot read some type of
// ours, or has not answered about all, each message with such fields is searched.

// maxInside is how deep a message is searched. The codec refuses deeper ones.
const maxInside = 1000

// readable fails if v holds a value that the peer cannot read, when it is known of all.
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

// plainKind reports whether nothing is inside of values of a kind.
func plainKind(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }

// knows fails if the peer cannot read the value v of an interface. An error
// without a name is written as a text, which all can read.
func (s *session) knows(ctx context.Context, v any) error {
	k := s.cluster.kinds.table.Load().byName[s.cluster.kinds.codec.NameOf(v)]
	if k == nil {
		return nil
	}
	return s.awaitTypeAck(ctx, k, v)
}
