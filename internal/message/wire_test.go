package message_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// What is appended is what the Protobuf runtime writes, and both read it alike.
func TestWireIsThatOfProtobuf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t)
		want, err := proto.Marshal(message.EncodeRecord(r))
		if err != nil {
			t.Fatal(err)
		}
		got := message.AppendRecord(nil, &r)
		if !bytes.Equal(got, want) {
			t.Fatalf("%+v\nis  %x\nnot %x", r, got, want)
		}
		back, err := message.ParseRecord(got, "before", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Count = max(r.Count, 1)
		if r.Space == "" {
			r.Space = "before"
		}
		if d := cmp.Diff(r, back, cmpopts.EquateEmpty()); d != "" || (r.Value == nil) != (back.Value == nil) {
			t.Fatalf("(-sent +got)\n%s", d)
		}
		answer := message.AppendGetResponse(nil, &r)
		m := new(pb.GetResponse)
		if err := proto.Unmarshal(answer, m); err != nil {
			t.Fatal(err)
		}
		same, err := message.ParseGetResponse(answer, "")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, same, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("(-sent +got)\n%s", d)
		}
	})
}

func anyRecord(t *rapid.T) mainstem.Record {
	some := rapid.SliceOfN(rapid.Byte(), 1, 20)
	maybe := func(name string) []byte {
		switch rapid.IntRange(0, 2).Draw(t, name) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		return some.Draw(t, name+" bytes")
	}
	at := func(name string) time.Time {
		if rapid.Bool().Draw(t, name+" unset") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(t, name), rapid.Int64Range(0, 1e9-1).Draw(t, name+" ns")).UTC()
	}
	r := mainstem.Record{
		Space: rapid.SampledFrom([]string{"", "s", "kv/app/users"}).Draw(t, "space"), Key: some.Draw(t, "key"),
		Version: mainstem.Version(rapid.Uint64().Draw(t, "version")), Count: rapid.Uint32().Draw(t, "count"),
		Position: mainstem.Position(rapid.Uint64().Draw(t, "position")), Time: at("time"), Expires: at("expires"),
		Tombstone: mainstem.Tombstone(rapid.Uint8Range(0, 3).Draw(t, "tombstone")), Value: maybe("value"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		name := rapid.SampledFrom([]string{"", "a", "\xff", "é"}).Draw(t, "header")
		r.Headers = append(r.Headers, mainstem.Header{Name: name, Value: maybe("header value")})
	}
	return r
}

func TestGetRequestOnTheWire(t *testing.T) {
	for _, c := range []*pb.GetRequest{{}, {Space: "s", Key: []byte("k")}, {Space: "kv/é", Key: make([]byte, 300), Snapshot: []byte("id")}} {
		want, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := message.AppendGetRequest(nil, c.Space, c.Key, c.Snapshot); !bytes.Equal(got, want) {
			t.Errorf("%v is %x, want %x", c, got, want)
		}
		r, err := message.ParseGetRequest(want)
		if err != nil || string(r.Space) != c.Space || !bytes.Equal(r.Key, c.Key) || !bytes.Equal(r.Snapshot, c.Snapshot) {
			t.Errorf("%v is read as %q, %v", c, r, err)
		}
	}
}

func TestRecordsOnTheWire(t *testing.T) {
	var m message.Records
	m.Add(mainstem.Record{Space: "a", Key: []byte("1"), Version: 1, Count: 1})
	m.Add(mainstem.Record{Space: "a", Key: []byte("2"), Version: 1, Count: 1, Value: []byte{}})
	m.Add(mainstem.Record{Space: "b", Key: []byte("3"), Version: 1, Count: 1, Headers: mainstem.Headers{{Name: "h"}}})
	b, err := proto.Marshal(m.Message())
	if err != nil {
		t.Fatal(err)
	}
	var one []byte
	var before string
	for _, r := range []mainstem.Record{
		{Space: "a", Key: []byte("1"), Version: 1, Count: 1}, {Space: "a", Key: []byte("2"), Version: 1, Count: 1, Value: []byte{}},
		{Space: "b", Key: []byte("3"), Version: 1, Count: 1, Headers: mainstem.Headers{{Name: "h"}}},
	} {
		one = message.AppendNext(one, &r, &before)
	}
	if !bytes.Equal(one, b) {
		t.Errorf("appended one by one they are\n%x, not\n%x", one, b)
	}
	var got string
	_, last, err := message.ParseRecords(b, "", nil, func(r mainstem.Record) bool {
		got += r.Space + string(r.Key) + " "
		return true
	})
	if err != nil || got != "a1 a2 b3 " || last != "b" {
		t.Errorf("got %q, the last space is %q, %v", got, last, err)
	}
	n := 0
	if _, _, err := message.ParseRecords(b, "", nil, func(mainstem.Record) bool { n++; return false }); err != nil || n != 1 {
		t.Errorf("%d records after the first was enough, %v", n, err)
	}
}

// What is read at all is read as Protobuf reads it.
func FuzzParseRecord(f *testing.F) {
	seed(f, message.EncodeRecord(mainstem.Record{
		Space: "s", Key: []byte("k"), Version: 3, Count: 2, Position: 9, Time: time.Unix(1, 2), Expires: time.Unix(3, 4),
		Tombstone: 1, Headers: mainstem.Headers{{Name: "a", Value: []byte{}}, {Name: "\xff"}}, Value: []byte("v"),
	}))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := message.ParseRecord(data, "", nil)
		if !invalidOrNil(t, err) {
			return
		}
		m := new(pb.Record)
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatalf("Protobuf says %v", err)
		}
		want, err := message.DecodeRecord(m, nil)
		if err != nil {
			t.Fatalf("DecodeRecord says %v", err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("(-Protobuf +here)\n%s", d)
		}
	})
}

func FuzzParseGetRequest(f *testing.F) {
	seed(f, &pb.GetRequest{Space: "s", Key: []byte("k"), Snapshot: []byte("id")})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := message.ParseGetRequest(data)
		if err != nil {
			return
		}
		m := new(pb.GetRequest)
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatalf("Protobuf says %v", err)
		}
		if string(got.Space) != m.Space || !bytes.Equal(got.Key, m.Key) || !bytes.Equal(got.Snapshot, m.Snapshot) {
			t.Fatalf("got %q, want %v", got, m)
		}
	})
}

// A batch that is read at all is read as Protobuf reads it.
func FuzzParseBatch(f *testing.F) {
	b := mainstem.NewBatch()
	b.ID, b.Durability, b.Time = "id", mainstem.Fsync, time.Unix(1, 2)
	b.Ensure("s", mainstem.Policy{History: 1, MaxAge: time.Hour, Metadata: map[string]string{"a": "b"}})
	b.IfVersion("s", []byte("k"), 3)
	b.IfNotAfter("s", []byte("k"), 4)
	b.Add(mainstem.Write{
		Space: "s", Key: []byte("k"), Value: []byte{}, Count: 2, TTL: -time.Hour - 1, Version: 1 << 63,
		Headers: mainstem.Headers{{Name: "a", Value: []byte{}}, {Name: "\xff"}},
	})
	sent, err := new(message.Encoder).AppendBatch(nil, b, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sent)
	f.Add(sent[:len(sent)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := mainstem.NewBatch(), mainstem.NewBatch()
		if message.ParseBatch(data, got, asString, new(message.Ensured)) != nil {
			return
		}
		m := new(pb.CommitRequest)
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatalf("Protobuf says %v", err)
		}
		if err := message.DecodeBatch(m, want); err != nil {
			t.Fatalf("DecodeBatch says %v", err)
		}
		if got.ID != want.ID || got.Durability != want.Durability || !got.Time.Equal(want.Time) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		for _, d := range []string{
			cmp.Diff(want.Ensures(), got.Ensures(), cmpopts.EquateEmpty()), cmp.Diff(want.Conditions(), got.Conditions(), cmpopts.EquateEmpty()),
			cmp.Diff(want.Writes(), got.Writes(), cmpopts.EquateEmpty()),
		} {
			if d != "" {
				t.Fatalf("(-Protobuf +here)\n%s", d)
			}
		}
	})
}

func FuzzParseReceipt(f *testing.F) {
	seed(f, &pb.CommitResponse{First: 1, Last: 2, Versions: []uint64{1, 0, 1 << 63}, Duplicate: true})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := message.ParseReceipt(data)
		if !invalidOrNil(t, err) {
			return
		}
		m := new(pb.CommitResponse)
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatalf("Protobuf says %v", err)
		}
		want, err := message.DecodeReceipt(m)
		if err != nil {
			t.Fatalf("DecodeReceipt says %v", err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("(-Protobuf +here)\n%s", d)
		}
	})
}

func FuzzParseGetManyRequest(f *testing.F) {
	seed(f, &pb.GetManyRequest{Space: "s", Keys: [][]byte{[]byte("k"), {}, []byte("l")}, Snapshot: []byte("id")})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := message.ParseGetManyRequest(data)
		if err != nil {
			return
		}
		m := new(pb.GetManyRequest)
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatalf("Protobuf says %v", err)
		}
		if string(got.Space) != m.Space || !slices.EqualFunc(got.Keys, m.Keys, bytes.Equal) || !bytes.Equal(got.Snapshot, m.Snapshot) {
			t.Fatalf("got %q, want %v", got, m)
		}
	})
}
