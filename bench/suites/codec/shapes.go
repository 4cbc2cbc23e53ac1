package codec

// PID names a process by number.
type PID struct {
	Node     string `bin:"1"`
	ID       uint64 `bin:"2"`
	Creation int64  `bin:"3"`
}

// ProcessID names a process by name.
type ProcessID struct {
	Node string `bin:"1"`
	Name string `bin:"2"`
}

// Simple is a flat struct.
type Simple struct {
	A float32 `bin:"1"`
	B float64 `bin:"2"`
	C string  `bin:"3"`
}

// Complex has a list, a map and structs in it.
type Complex struct {
	Name      string            `bin:"1"`
	ID        int32             `bin:"2"`
	Tags      []string          `bin:"3"`
	Metadata  map[string]string `bin:"4"`
	PID       PID               `bin:"5"`
	ProcessID ProcessID         `bin:"6"`
}

// Nested has a Complex, and a map of them.
type Nested struct {
	Name       string             `bin:"1"`
	ID         int32              `bin:"2"`
	Complex    Complex            `bin:"3"`
	ComplexMap map[string]Complex `bin:"4"`
	NestedMap  map[string]string  `bin:"5"`
}

// Item is what the maps hold.
type Item struct {
	Name string `bin:"1"`
	ID   int32  `bin:"2"`
}

// Items is a map of structs.
type Items = map[string]Item

// ItemMaps is a map of maps.
type ItemMaps = map[string]Items

// Shape is a type of message. Value and Other point to two values of it that
// differ in every part. New points to a new zero value each time; Clear makes what
// v points to zero.
type Shape struct {
	Name  string
	Value any
	Other any
	New   func() any
	Clear func(v any)
}

func shape[T any](name string, value, other T) Shape {
	return Shape{
		Name: name, Value: &value, Other: &other,
		New:   func() any { return new(T) },
		Clear: func(v any) { *v.(*T) = *new(T) },
	}
}

// Shapes returns the eight shapes, from small to large.
func Shapes() []Shape {
	a, b := complexOf("test", 123, "1"), complexOf("complex_value", 789, "2")
	return []Shape{
		shape("string", "Ergo Framework", "An other text!"),
		shape("pid", PID{"demo@127.0.0.1", 312, 2}, PID{"other@127.0.0.1", 1 << 40, 1_763_000_000}),
		shape("process-id", ProcessID{"demo@127.0.0.1", "example"}, ProcessID{"other@127.0.0.1", "second"}),
		shape("simple", Simple{123.45, 678.90, "test"}, Simple{-1.5, 1e300, "tset"}),
		shape("complex", a, b),
		shape("nested", nestedOf("test", 123, a), nestedOf("nested_test", 456, b)),
		shape("map", Items{"key1": {"test1", 123}, "key2": {"test2", 456}}, Items{"key1": {"value1", 1}, "key2": {"value2", 2}}),
		shape("nested-map", ItemMaps{
			"outer1": {"inner1": {"test1", 123}, "inner2": {"test2", 456}},
			"outer2": {"inner3": {"test3", 789}},
		}, ItemMaps{
			"outer1": {"inner1": {"value1", 1}, "inner2": {"value2", 2}},
			"outer2": {"inner3": {"value3", 3}},
		}),
	}
}

func complexOf(name string, id int32, n string) Complex {
	return Complex{
		Name: name, ID: id, Tags: []string{"tag1", "tag" + n},
		Metadata: map[string]string{"key1": "value" + n, "key2": "value2"},
		PID:      PID{"node" + n, 1, 1}, ProcessID: ProcessID{"node" + n, "process" + n},
	}
}

func nestedOf(name string, id int32, c Complex) Nested {
	return Nested{
		Name: name, ID: id, Complex: c,
		ComplexMap: map[string]Complex{"key1": c},
		NestedMap:  map[string]string{"key1": name, "key2": "value2"},
	}
}
