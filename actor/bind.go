package actor

import (
	"reflect"
	"sync"
)

// A decoded message holds references and replies that belong to no node yet. bind walks over the
// message and binds each of them to the node that got the message, so that an actor treats messages
// of all nodes alike. It walks over exported fields, pointers, slices, arrays, interfaces and the
// values of maps, not over their keys.
//
// The walk of a type, its binder, is built by reflection once for each node. A type that can hold
// neither references nor replies has none, and its messages cost one look-up. The walk changes the
// message in place and does not end if its pointers form a cycle.

// bindable is implemented by pointers to references and replies.
type bindable interface{ bind(to binding) }

// binding is the target of references and replies: the node that got them, and the number of the
// actor that got them, 0 if that is not known. Answers by that actor keep their order with its
// other messages to the same node.
type binding struct {
	node *Node
	by   uint64
}

func (r *Ref[M]) bind(to binding)   { *r = r.On(to.node) }
func (r *Reply[R]) bind(to binding) { *r = r.on(to.node, to.by) }

// binder binds the references and replies in an addressable value. nil is the binder of a type that
// can hold none.
type binder func(to binding, v reflect.Value)

// binders are the binders of a node by type: reflect.Type -> binder.
type binders struct{ known sync.Map }

// bind returns m with all references and replies in it bound to n and to the actor with the number
// by. m is copied, but not the memory that it points to, which must be the caller's own.
func (n *Node) bind(m any, by uint64) any {
	if m == nil {
		return nil
	}
	t := reflect.TypeOf(m)
	b := n.binders.of(t)
	if b == nil {
		return m
	}
	v := reflect.New(t).Elem()
	v.Set(reflect.ValueOf(m))
	b(binding{n, by}, v)
	return v.Interface()
}

// of returns the binder of t, which it builds at the first call.
func (bs *binders) of(t reflect.Type) binder {
	if b, ok := bs.known.Load(t); ok {
		return b.(binder)
	}
	b := bs.build(t, make(map[reflect.Type]bool))
	bs.known.Store(t, b)
	return b
}

var bindableType = reflect.TypeFor[bindable]()

// build makes the binder of t. within are the types that are being built. If t is one of them, it
// contains itself: the result looks the binder up when it is called.
func (bs *binders) build(t reflect.Type, within map[reflect.Type]bool) binder {
	if reflect.PointerTo(t).Implements(bindableType) {
		return func(to binding, v reflect.Value) { v.Addr().Interface().(bindable).bind(to) }
	}
	if within[t] {
		return func(to binding, v reflect.Value) {
			if b := bs.of(t); b != nil {
				b(to, v)
			}
		}
	}
	within[t] = true
	defer delete(within, t)
	switch t.Kind() {
	case reflect.Struct:
		return bs.buildStruct(t, within)
	case reflect.Pointer:
		return bindElem(bs.build(t.Elem(), within))
	case reflect.Slice, reflect.Array:
		return bindEach(bs.build(t.Elem(), within))
	case reflect.Map:
		return bindMap(bs.build(t.Elem(), within))
	case reflect.Interface:
		return func(to binding, v reflect.Value) {
			if !v.IsNil() {
				v.Set(reflect.ValueOf(to.node.bind(v.Interface(), to.by)))
			}
		}
	}
	return nil
}

func (bs *binders) buildStruct(t reflect.Type, within map[reflect.Type]bool) binder {
	fields := make(map[int]binder)
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			if b := bs.build(f.Type, within); b != nil {
				fields[i] = b
			}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(to binding, v reflect.Value) {
		for i, b := range fields {
			b(to, v.Field(i))
		}
	}
}

func bindElem(b binder) binder {
	if b == nil {
		return nil
	}
	return func(to binding, v reflect.Value) {
		if !v.IsNil() {
			b(to, v.Elem())
		}
	}
}

func bindEach(b binder) binder {
	if b == nil {
		return nil
	}
	return func(to binding, v reflect.Value) {
		for i := range v.Len() {
			b(to, v.Index(i))
		}
	}
}

func bindMap(b binder) binder {
	if b == nil {
		return nil
	}
	return func(to binding, v reflect.Value) {
		for _, k := range v.MapKeys() {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(v.MapIndex(k))
			b(to, e)
			v.SetMapIndex(k, e)
		}
	}
}
