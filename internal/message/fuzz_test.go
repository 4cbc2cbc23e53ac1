package message_test

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/proto"
)

// seed adds messages to the corpus of f.
func seed(f *testing.F, messages ...proto.Message) {
	f.Add([]byte{})
	for _, m := range messages {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
}

// invalidOrNil fails unless err is nil or an Invalid error.
func invalidOrNil(t *testing.T, err error) (ok bool) {
	if err != nil && !errors.Is(err, mainstem.ErrInvalid) {
		t.Fatalf("%v is not invalid", err)
	}
	return err == nil
}

// A batch that can be decoded can be encoded again, to the same batch, unless it has
// names that cannot travel, which a decoded one has not.
func FuzzDecodeBatch(f *testing.F) {
	seed(f, &pb.CommitRequest{
		Id: []byte("id"), Durability: -1,
		Ensures:    []*pb.Ensure{{Space: "s", Policy: &pb.Policy{History: 1, Metadata: map[string]string{"a": "b"}}}},
		Conditions: []*pb.Condition{{Space: "s", Key: []byte("k"), Test: pb.Test_TEST_EXISTS}},
		Writes: []*pb.Write{
			{Space: "s", Key: []byte("k"), Value: []byte{}, Headers: []*pb.Header{{RawName: []byte{0xff}}}},
			{Op: pb.Op_OP_REMOVE, Version: 1 << 63},
		},
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m pb.CommitRequest
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		first := mainstem.NewBatch()
		if !invalidOrNil(t, message.DecodeBatch(&m, first)) {
			return
		}
		invalidOrNil(t, first.Validate(mainstem.Limits{}.WithDefaults()))
		again, err := new(message.Encoder).AppendBatch(nil, first, nil)
		if err != nil {
			t.Fatal(err)
		}
		second := mainstem.NewBatch()
		if err := message.ParseBatch(again, second, asString, new(message.Ensured)); err != nil {
			t.Fatal(err)
		}
		if len(first.Writes()) != len(second.Writes()) || len(first.Conditions()) != len(second.Conditions()) || len(first.Ensures()) != len(second.Ensures()) {
			t.Fatalf("decoded %v, then %v", first, second)
		}
		for i, w := range first.Writes() {
			if v := second.Writes()[i]; (w.Value == nil) != (v.Value == nil) || w.Op != v.Op || w.TTL != v.TTL || w.Size() != v.Size() {
				t.Fatalf("write %d decoded as %v, then %v", i, w, v)
			}
		}
	})
}

func FuzzDecodeRequests(f *testing.F) {
	seed(f,
		&pb.ScanRequest{Space: "s", Start: []byte{}, Limit: -1},
		&pb.ReadRequest{Space: "s", Key: []byte("k"), From: 1, To: 2, Follow: true},
		&pb.FeedRequest{Spaces: []string{"a", ""}, NoSpaces: true, After: 1 << 63},
		&pb.CreateSpaceRequest{Name: "s", Policy: &pb.Policy{History: -1}},
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		var scan pb.ScanRequest
		if proto.Unmarshal(data, &scan) == nil {
			if r, err := message.DecodeRange(&scan); invalidOrNil(t, err) {
				invalidOrNil(t, r.Validate())
			}
		}
		var read pb.ReadRequest
		if proto.Unmarshal(data, &read) == nil {
			if v, err := message.DecodeVersions(&read); invalidOrNil(t, err) {
				invalidOrNil(t, v.Validate())
			}
		}
		var feed pb.FeedRequest
		if proto.Unmarshal(data, &feed) == nil {
			if v, err := message.DecodeFilter(&feed); invalidOrNil(t, err) {
				invalidOrNil(t, v.Validate())
			}
		}
		var create pb.CreateSpaceRequest
		if proto.Unmarshal(data, &create) == nil {
			if p, err := message.DecodePolicy(create.Policy); invalidOrNil(t, err) {
				invalidOrNil(t, p.Validate())
			}
		}
	})
}

func FuzzDecodeAnswers(f *testing.F) {
	seed(f,
		&pb.Record{Space: "s", Key: []byte("k"), Version: 1, Headers: []*pb.Header{{Name: "h"}}},
		&pb.CommitResponse{First: 1, Versions: []uint64{1, 0}},
		&pb.SpaceInfo{Name: "s", Policy: &pb.Policy{}},
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		var record pb.Record
		if proto.Unmarshal(data, &record) == nil {
			if r, err := message.DecodeRecord(&record, nil); invalidOrNil(t, err) && r.Count == 0 {
				t.Fatal("a record without items")
			}
		}
		var receipt pb.CommitResponse
		if proto.Unmarshal(data, &receipt) == nil {
			_, err := message.DecodeReceipt(&receipt)
			invalidOrNil(t, err)
		}
		var space pb.SpaceInfo
		if proto.Unmarshal(data, &space) == nil {
			_, err := message.DecodeSpaceInfo(&space)
			invalidOrNil(t, err)
		}
	})
}
