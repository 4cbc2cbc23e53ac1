package actor

import (
	"reflect"
	"sync"
)

// Decoded messages hold references and replies that belong to no node yet. bind
// finds them by type and gives them to the node that got the message, so that an
// actor treats messages of all nodes alike. How to find them is worked out once for each
// type; types that hold none cost nothing.

// bindable is implemented by pointers to references and replies.
type bindable interface{ bind(to binding) }

// binding is what references and replies are bound to: a node, and the actor that
// got them. Its answers keep their order with its other messages. by is 0 if it is not known.
type binding struct {
	node *Node
	by   uint64
}

func (r *Ref[M]) bind(to binding)   { *r = r.On(to.node) }
func (r *Reply[R]) bind(to binding) { *r = r.on(to.node, to.by) }

// binder binds what is in an addressable value; nil: there can be nothing in it.
type binder func(to binding, v reflect.Value)

// binders are the binders of a node by type: reflect.Type -> binder.
type binders struct{ known sync.Map }

// bind returns m with all references and replies in it bound to n, and to the actor
// of a number.
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
