package actor

import (
	"reflect"
	"sync"
)

// Decoded messages hold references and replies that belong to no node yet. bind
// finds them by type and gives them to the node that got the message, so that an
// actor need not know where a message came from. What is to be done for a type
// is found out once: nothing for types that hold none.

// bindable is implemented by pointers to references and replies.
type bindable interface{ bind(n *Node) }

func (r *Ref[M]) bind(n *Node)   { *r = r.On(n) }
func (r *Reply[R]) bind(n *Node) { *r = r.On(n) }

// binder binds what is in an addressable value; nil: there can be nothing in it.
type binder func(n *Node, v reflect.Value)

// binders are the binders of a node by type: reflect.Type -> binder.
type binders struct{ known sync.Map }

// bind returns m with all references and replies in it bound to n.
func (n *Node) bind(m any) any {
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
	b(n, v)
	return v.Interface()
}

func (bs *binders) of(t reflect.Type) binder {
	if b, ok := bs.known.Load(t); ok {
		return b.(binder)
	}
	b := bs.build(t, make(map[reflect.Type]bool))
	bs.known.Store(t, b)
	return b
}

var bindableType = reflect.TypeFor[bindable]()

// build makes the binder of t. A type that contains itself is looked up when
// it is met again, at run time.
func (bs *binders) build(t reflect.Type, within map[reflect.Type]bool) binder {
	if reflect.PointerTo(t).Implements(bindableType) {
		return func(n *Node, v reflect.Value) { v.Addr().Interface().(bindable).bind(n) }
	}
	if within[t] {
		return func(n *Node, v reflect.Value) {
			if b := bs.of(t); b != nil {
				b(n, v)
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
		return func(n *Node, v reflect.Value) {
			if !v.IsNil() {
				v.Set(reflect.ValueOf(n.bind(v.Interface())))
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
	return func(n *Node, v reflect.Value) {
		for i, b := range fields {
			b(n, v.Field(i))
		}
	}
}

func bindElem(b binder) binder {
	if b == nil {
		return nil
	}
	return func(n *Node, v reflect.Value) {
		if !v.IsNil() {
			b(n, v.Elem())
		}
	}
}

func bindEach(b binder) binder {
	if b == nil {
		return nil
	}
	return func(n *Node, v reflect.Value) {
		for i := range v.Len() {
			b(n, v.Index(i))
		}
	}
}

func bindMap(b binder) binder {
	if b == nil {
		return nil
	}
	return func(n *Node, v reflect.Value) {
		for _, k := range v.MapKeys() {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(v.MapIndex(k))
			b(n, e)
			v.SetMapIndex(k, e)
		}
	}
}
