package binary_test

// The shapes that speed and allocations are measured on: messages between actors, as
// the benchmarks of actor frameworks have them. Suite codec of the bench compares the
// codec with others on messages of the same types.
type (
	pid struct {
		Node     string `bin:"1"`
		ID       uint64 `bin:"2"`
		Creation int64  `bin:"3"`
	}
	processID struct {
		Node string `bin:"1"`
		Name string `bin:"2"`
	}
	simple struct {
		A float32 `bin:"1"`
		B float64 `bin:"2"`
		C string  `bin:"3"`
	}
	complexStruct struct {
		Name      string            `bin:"1"`
		ID        int32             `bin:"2"`
		Tags      []string          `bin:"3"`
		Metadata  map[string]string `bin:"4"`
		PID       pid               `bin:"5"`
		ProcessID processID         `bin:"6"`
	}
	nested struct {
		Name       string                   `bin:"1"`
		ID         int32                    `bin:"2"`
		Complex    complexStruct            `bin:"3"`
		ComplexMap map[string]complexStruct `bin:"4"`
		NestedMap  map[string]string        `bin:"5"`
	}
	item struct {
		Name string `bin:"1"`
		ID   int32  `bin:"2"`
	}
	items    = map[string]item
	itemMaps = map[string]items
)

var (
	aPID       = pid{"demo@127.0.0.1", 312, 2}
	aProcessID = processID{"demo@127.0.0.1", "example"}
	aSimple    = simple{123.45, 678.90, "test"}
	aComplex   = complexStruct{
		Name: "test", ID: 123, Tags: []string{"tag1", "tag2"},
		Metadata: map[string]string{"key1": "value1", "key2": "value2"},
		PID:      pid{"node1", 1, 1}, ProcessID: processID{"node1", "process1"},
	}
	aNested = nested{
		Name: "test", ID: 123, Complex: aComplex,
		ComplexMap: map[string]complexStruct{"key1": aComplex},
		NestedMap:  map[string]string{"key1": "value1", "key2": "value2"},
	}
	someItems    = items{"key1": {"test1", 123}, "key2": {"test2", 456}}
	someItemMaps = itemMaps{
		"outer1": {"inner1": {"test1", 123}, "inner2": {"test2", 456}},
		"outer2": {"inner3": {"test3", 789}},
	}
)

// shape is one of them, with the ways to encode and decode it.
type shape struct {
	name  string
	value any
	ways  []way
}

func shapes() []shape {
	return []shape{
		newShape("String", "Ergo Framework"),
		newShape("PID", aPID),
		newShape("ProcessID", aProcessID),
		newShape("Simple", aSimple),
		newShape("Complex", aComplex),
		newShape("Nested", aNested),
		newShape("Map", someItems),
		newShape("NestedMap", someItemMaps),
	}
}
