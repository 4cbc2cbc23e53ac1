package codec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "github.com/mainstemdev/mainstem/bench/contenders/codec/shapespb"
	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// message is a generated Protobuf message with the methods of vtprotobuf.
type message interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

// messageOf returns the message that means what v points to.
func messageOf(v any) (message, error) {
	switch v := v.(type) {
	case *string:
		return &pb.Text{Value: *v}, nil
	case *codec.PID:
		return toPID(*v), nil
	case *codec.ProcessID:
		return &pb.ProcessID{Node: v.Node, Name: v.Name}, nil
	case *codec.Simple:
		return &pb.Simple{A: v.A, B: v.B, C: v.C}, nil
	case *codec.Complex:
		return toComplex(*v), nil
	case *codec.Nested:
		return toNested(v), nil
	case *codec.Items:
		return toItems(*v), nil
	case *codec.ItemMaps:
		m := &pb.ItemMaps{Maps: make(map[string]*pb.Items, len(*v))}
		for k, i := range *v {
			m.Maps[k] = toItems(i)
		}
		return m, nil
	}
	return nil, fmt.Errorf("no message for %T", v)
}

// valueOf is the inverse of messageOf: it returns a pointer.
func valueOf(m message) any {
	switch m := m.(type) {
	case *pb.Text:
		return &m.Value
	case *pb.PID:
		v := fromPID(m)
		return &v
	case *pb.ProcessID:
		return &codec.ProcessID{Node: m.Node, Name: m.Name}
	case *pb.Simple:
		return &codec.Simple{A: m.A, B: m.B, C: m.C}
	case *pb.Complex:
		v := fromComplex(m)
		return &v
	case *pb.Nested:
		return fromNested(m)
	case *pb.Items:
		v := fromItems(m)
		return &v
	case *pb.ItemMaps:
		v := codec.ItemMaps{}
		for k, i := range m.Maps {
			v[k] = fromItems(i)
		}
		return &v
	}
	return nil
}

// clearing returns what makes m empty without what Reset does for reflection, which
// vtprotobuf needs not.
func clearing(m message) func() {
	switch m := m.(type) {
	case *pb.Text:
		return zeroing(m)
	case *pb.PID:
		return zeroing(m)
	case *pb.ProcessID:
		return zeroing(m)
	case *pb.Simple:
		return zeroing(m)
	case *pb.Complex:
		return zeroing(m)
	case *pb.Nested:
		return zeroing(m)
	case *pb.Items:
		return zeroing(m)
	case *pb.ItemMaps:
		return zeroing(m)
	}
	return nil
}

func zeroing[T any](m *T) func() { return func() { *m = *new(T) } }

func toPID(v codec.PID) *pb.PID { return &pb.PID{Node: v.Node, Id: v.ID, Creation: v.Creation} }

func fromPID(m *pb.PID) codec.PID {
	return codec.PID{Node: m.GetNode(), ID: m.GetId(), Creation: m.GetCreation()}
}

func toComplex(v codec.Complex) *pb.Complex {
	return &pb.Complex{
		Name: v.Name, Id: v.ID, Tags: v.Tags, Metadata: v.Metadata, Pid: toPID(v.PID),
		ProcessId: &pb.ProcessID{Node: v.ProcessID.Node, Name: v.ProcessID.Name},
	}
}

func fromComplex(m *pb.Complex) codec.Complex {
	return codec.Complex{
		Name: m.GetName(), ID: m.GetId(), Tags: m.GetTags(), Metadata: m.GetMetadata(), PID: fromPID(m.GetPid()),
		ProcessID: codec.ProcessID{Node: m.GetProcessId().GetNode(), Name: m.GetProcessId().GetName()},
	}
}

func toNested(v *codec.Nested) *pb.Nested {
	m := &pb.Nested{
		Name: v.Name, Id: v.ID, Complex: toComplex(v.Complex),
		ComplexMap: make(map[string]*pb.Complex, len(v.ComplexMap)), NestedMap: v.NestedMap,
	}
	for k, c := range v.ComplexMap {
		m.ComplexMap[k] = toComplex(c)
	}
	return m
}

func fromNested(m *pb.Nested) *codec.Nested {
	v := &codec.Nested{
		Name: m.Name, ID: m.Id, Complex: fromComplex(m.Complex),
		ComplexMap: map[string]codec.Complex{}, NestedMap: m.NestedMap,
	}
	for k, c := range m.ComplexMap {
		v.ComplexMap[k] = fromComplex(c)
	}
	return v
}

func toItems(v codec.Items) *pb.Items {
	m := &pb.Items{Items: make(map[string]*pb.Item, len(v))}
	for k, i := range v {
		m.Items[k] = &pb.Item{Name: i.Name, Id: i.ID}
	}
	return m
}

func fromItems(m *pb.Items) codec.Items {
	v := codec.Items{}
	for k, i := range m.Items {
		v[k] = codec.Item{Name: i.Name, ID: i.Id}
	}
	return v
}
