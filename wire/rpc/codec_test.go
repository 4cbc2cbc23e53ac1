package rpc

import (
	"bytes"
	"strings"
	"testing"

	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// parts counts the messages below m.
func parts(m protoreflect.Message) int {
	n := 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			n += v.List().Len()
			for i := 0; f.Message() != nil && i < v.List().Len(); i++ {
				n += parts(v.List().Get(i).Message())
			}
		case f.IsMap():
			n += v.Map().Len()
		case f.Message() != nil:
			n += 1 + parts(v.Message())
		}
		return true
	})
	return n
}

// What a codec lets through has not more parts than it may.
func FuzzCodecsBoundParts(f *testing.F) {
	const limit = 1000
	seed := &pb.CommitRequest{Ensures: []*pb.Ensure{{Policy: &pb.Policy{Metadata: map[string]string{"a": "b"}}}}}
	for range 3000 {
		seed.Writes = append(seed.Writes, &pb.Write{Headers: []*pb.Header{{}}})
	}
	large, err := proto.Marshal(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(large, 30)
	f.Add([]byte("\x2a\x04\x2a\x02\x0a\x00"), 20_000)
	f.Add([]byte(`{},`), 30_000)
	f.Fuzz(func(t *testing.T, unit []byte, times int) {
		data := bytes.Repeat(unit, max(1, min(times, (smallRequest*2)/max(len(unit), 1))))
		var m pb.CommitRequest
		if (binaryCodec{limit}).Unmarshal(data, &m) == nil && len(data) > smallRequest {
			if n := parts(m.ProtoReflect()); n > limit {
				t.Fatalf("%d parts in %d bytes were let through", n, len(data))
			}
		}
		m.Reset()
		text := append(append([]byte(`{"writes":[`), data...), `{}]}`...)
		if (jsonCodec{"json", limit}).Unmarshal(text, &m) == nil && len(text) > smallRequest {
			if n := parts(m.ProtoReflect()); n > 2*limit {
				t.Fatalf("%d parts in %d bytes of JSON were let through", n, len(text))
			}
		}
	})
}

func TestCodecsTakeLargeRequestsOfFewParts(t *testing.T) {
	want := &pb.CommitRequest{Writes: []*pb.Write{{Space: "s", Key: []byte("k"), Value: make([]byte, 1<<20), Headers: []*pb.Header{{Name: "h"}}}}}
	for _, codec := range []interface {
		Marshal(any) ([]byte, error)
		Unmarshal([]byte, any) error
	}{binaryCodec{2}, jsonCodec{"json", 3}} {
		data, err := codec.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := new(pb.CommitRequest)
		if err := codec.Unmarshal(data, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%T: %v", codec, err)
		}
	}
	if _, err := (binaryCodec{1}).Marshal("text"); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("a message that is none: %v", err)
	}
}
