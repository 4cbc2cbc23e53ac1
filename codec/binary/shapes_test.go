package binary_test

import (
	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem/codec/binary/internal/shapes"
)

// The shapes that codecs are compared on: messages between actors, as the
// benchmarks of actor frameworks have them.
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

// contests are the shapes, each with the codecs that take part.
func contests() []contest {
	return []contest{
		newContest("String", "Ergo Framework", &shapes.Text{Value: "Ergo Framework"},
			func(m *shapes.Text) string { return m.Value }, func(m *shapes.Text) { *m = shapes.Text{} }),
		newContest("PID", aPID, &shapes.PID{Node: aPID.Node, Id: aPID.ID, Creation: aPID.Creation},
			fromPID, func(m *shapes.PID) { *m = shapes.PID{} }),
		newContest("ProcessID", aProcessID, &shapes.ProcessID{Node: aProcessID.Node, Name: aProcessID.Name},
			fromProcessID, func(m *shapes.ProcessID) { *m = shapes.ProcessID{} }),
		newContest("Simple", aSimple, &shapes.Simple{A: aSimple.A, B: aSimple.B, C: aSimple.C},
			func(m *shapes.Simple) simple { return simple{m.A, m.B, m.C} }, func(m *shapes.Simple) { *m = shapes.Simple{} }),
		newContest("Complex", aComplex, toComplex(aComplex), fromComplex, func(m *shapes.Complex) { *m = shapes.Complex{} }),
		newContest("Nested", aNested, toNested(aNested), fromNested, func(m *shapes.Nested) { *m = shapes.Nested{} }),
		newContest("Map", someItems, toItems(someItems), fromItems, func(m *shapes.Items) { *m = shapes.Items{} }),
		newContest("NestedMap", someItemMaps, toItemMaps(someItemMaps), fromItemMaps, func(m *shapes.ItemMaps) { *m = shapes.ItemMaps{} }),
	}
}

// message is a generated Protobuf message with the methods of vtprotobuf.
type message interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

func fromPID(m *shapes.PID) pid                   { return pid{m.Node, m.Id, m.Creation} }
func fromProcessID(m *shapes.ProcessID) processID { return processID{m.Node, m.Name} }

func toComplex(v complexStruct) *shapes.Complex {
	return &shapes.Complex{
		Name: v.Name, Id: v.ID, Tags: v.Tags, Metadata: v.Metadata,
		Pid:       &shapes.PID{Node: v.PID.Node, Id: v.PID.ID, Creation: v.PID.Creation},
		ProcessId: &shapes.ProcessID{Node: v.ProcessID.Node, Name: v.ProcessID.Name},
	}
}

func fromComplex(m *shapes.Complex) complexStruct {
	return complexStruct{m.Name, m.Id, m.Tags, m.Metadata, fromPID(m.Pid), fromProcessID(m.ProcessId)}
}

func toNested(v nested) *shapes.Nested {
	m := &shapes.Nested{
		Name: v.Name, Id: v.ID, Complex: toComplex(v.Complex),
		ComplexMap: map[string]*shapes.Complex{}, NestedMap: v.NestedMap,
	}
	for k, c := range v.ComplexMap {
		m.ComplexMap[k] = toComplex(c)
	}
	return m
}

func fromNested(m *shapes.Nested) nested {
	v := nested{m.Name, m.Id, fromComplex(m.Complex), map[string]complexStruct{}, m.NestedMap}
	for k, c := range m.ComplexMap {
		v.ComplexMap[k] = fromComplex(c)
	}
	return v
}

func toItems(v items) *shapes.Items {
	m := &shapes.Items{Items: map[string]*shapes.Item{}}
	for k, i := range v {
		m.Items[k] = &shapes.Item{Name: i.Name, Id: i.ID}
	}
	return m
}

func fromItems(m *shapes.Items) items {
	v := items{}
	for k, i := range m.Items {
		v[k] = item{i.Name, i.Id}
	}
	return v
}

func toItemMaps(v itemMaps) *shapes.ItemMaps {
	m := &shapes.ItemMaps{Maps: map[string]*shapes.Items{}}
	for k, i := range v {
		m.Maps[k] = toItems(i)
	}
	return m
}

func fromItemMaps(m *shapes.ItemMaps) itemMaps {
	v := itemMaps{}
	for k, i := range m.Maps {
		v[k] = fromItems(i)
	}
	return v
}
