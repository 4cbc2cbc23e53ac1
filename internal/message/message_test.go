package message_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

// travel sends m over the wire as both encodings and gives what arrives to each.
func travel[M any, P interface {
	*M
	proto.Message
}](t *rapid.T, m P, arrived func(P)) {
	binary, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got := P(new(M))
	if err := proto.Unmarshal(binary, got); err != nil {
		t.Fatal(err)
	}
	arrived(got)
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got = P(new(M))
	if err := protojson.Unmarshal(text, got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	arrived(got)
}

// same fails unless got is want, nil and empty told apart.
func same(t *rapid.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("what arrived differs (-sent +arrived):\n%s", d)
	}
}

func TestRecordArrivesAsItWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := record.Draw(t, "record")
		travel(t, message.EncodeRecord(want), func(m *pb.Record) {
			got, err := message.DecodeRecord(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, want)
		})
	})
}

func TestRecordsArriveAsTheyWereSent(t *testing.T) {
	var m message.Records // the same memory again and again
	rapid.Check(t, func(t *rapid.T) {
		m.Reset()
		want := rapid.SliceOfN(record, 0, 8).Draw(t, "records")
		for i, r := range want {
			if i > 0 && rapid.Bool().Draw(t, "same space") {
				want[i].Space = want[i-1].Space
				r.Space = want[i].Space
			}
			lent := r.Clone()
			m.Add(lent)
			for j := range lent.Key { // what was lent may be overwritten now
				lent.Key[j]++
			}
			for j := range lent.Value {
				lent.Value[j]++
			}
		}
		if m.Len() != len(want) {
			t.Fatalf("%d records in the message, added %d", m.Len(), len(want))
		}
		travel(t, m.Message(), func(m *pb.Records) {
			var got []mainstem.Record
			space := ""
			for _, in := range m.Records {
				r, err := message.DecodeRecord(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if r.Space == "" && len(got) > 0 && want[len(got)].Space != "" {
					r.Space = space
				}
				space = r.Space
				got = append(got, r)
			}
			if len(want) == 0 {
				want = nil
			}
			same(t, got, want)
		})
	})
}

func TestRecordsAreFullInTime(t *testing.T) {
	var m message.Records
	for range message.FullRecords {
		if m.Full() {
			t.Fatalf("full with %d tiny records", m.Len())
		}
		m.Add(mainstem.Record{Key: []byte("k"), Value: []byte("v")})
	}
	if !m.Full() {
		t.Errorf("not full with %d records", m.Len())
	}
	m.Reset()
	m.Add(mainstem.Record{Key: []byte("k"), Value: make([]byte, message.FullBytes)})
	if !m.Full() {
		t.Errorf("not full with a value of %d bytes", message.FullBytes)
	}
	m.Reset()
	m.Add(mainstem.Record{Key: []byte("k"), Headers: mainstem.Headers{{Name: "h", Value: make([]byte, message.FullBytes)}}})
	if !m.Full() {
		t.Errorf("not full with a header of %d bytes", message.FullBytes)
	}
	if m.Reset(); m.Full() || m.Len() != 0 {
		t.Error("not empty after Reset")
	}
}

func TestRecordsTakeNoMemoryForEachRecord(t *testing.T) {
	var m message.Records
	r := mainstem.Record{Space: "s", Key: []byte("key"), Value: make([]byte, 61), Time: time.Now(), Headers: mainstem.Headers{{Name: "type", Value: []byte("x")}}}
	allocs := testing.AllocsPerRun(20, func() {
		m.Reset()
		for range 100 {
			m.Add(r)
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations for 100 records in memory used before", allocs)
	}
}

func TestBatchArrivesAsItWasSent(t *testing.T) {
	var encoder message.Encoder // the same memory again and again
	var known message.Ensured
	rapid.Check(t, func(t *rapid.T) {
		want := batch.Draw(t, "batch")
		sent, err := encoder.AppendBatch(nil, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		sameBatch := func(got *mainstem.Batch) {
			same(t, got.ID, want.ID)
			same(t, got.Durability, want.Durability)
			if !got.Time.Equal(want.Time) {
				t.Fatalf("the time is %v, want %v", got.Time, want.Time)
			}
			same(t, got.Ensures(), want.Ensures())
			same(t, got.Conditions(), want.Conditions())
			same(t, got.Writes(), want.Writes())
		}
		m := new(pb.CommitRequest)
		if err := proto.Unmarshal(sent, m); err != nil {
			t.Fatal(err)
		}
		travel(t, m, func(m *pb.CommitRequest) {
			got := mainstem.NewBatch()
			if err := message.DecodeBatch(m, got); err != nil {
				t.Fatal(err)
			}
			sameBatch(got)
		})
		got := mainstem.NewBatch()
		if err := message.ParseBatch(sent, got, asString, &known); err != nil {
			t.Fatal(err)
		}
		sameBatch(got)
		runtime, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil || !bytes.Equal(runtime, sent) {
			t.Fatalf("%v\nis  %x\nnot %x, %v", m, sent, runtime, err)
		}
	})
}

func asString(name []byte) string { return string(name) }

// A batch that is encoded with another ID has that one.
func TestBatchWithAnotherID(t *testing.T) {
	b, got := mainstem.NewBatch(), mainstem.NewBatch()
	b.ID = "own"
	sent, err := new(message.Encoder).AppendBatch([]byte("before"), b, []byte("other"))
	if err != nil || !bytes.HasPrefix(sent, []byte("before")) {
		t.Fatalf("%q, %v", sent, err)
	}
	if err := message.ParseBatch(sent[len("before"):], got, asString, new(message.Ensured)); err != nil || got.ID != "other" {
		t.Errorf("the ID is %q, %v", got.ID, err)
	}
}

// An encoder that remembers a space takes another policy, or one that was changed since, as it is.
func TestEncoderTakesPoliciesAsTheyAre(t *testing.T) {
	var encoder message.Encoder
	var known message.Ensured
	metadata := map[string]string{"a": "1", "b": "2"}
	for i, change := range []func(){func() {}, func() { metadata["a"] = "3" }, func() { delete(metadata, "b") }, func() {}} {
		change()
		b, got := mainstem.NewBatch(), mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{History: 1, Metadata: metadata})
		sent, err := encoder.AppendBatch(nil, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := message.ParseBatch(sent, got, asString, &known); err != nil {
			t.Fatal(err)
		}
		if len(got.Ensures()) != 1 || !got.Ensures()[0].Policy.Equal(b.Ensures()[0].Policy) {
			t.Errorf("batch %d ensures %v, want %v", i, got.Ensures(), b.Ensures())
		}
	}
}

func TestNamesThatCannotTravelAreInvalid(t *testing.T) {
	write, condition := mainstem.NewBatch(), mainstem.NewBatch()
	write.Put("\xff", []byte("k"), nil)
	condition.IfAbsent("\xff", []byte("k"))
	for name, b := range map[string]*mainstem.Batch{"write": write, "condition": condition} {
		_, err := new(message.Encoder).AppendBatch(nil, b, nil)
		var e *mainstem.Error
		if !errors.As(err, &e) || e.Kind != mainstem.KindInvalid || e.Outcome != mainstem.NotWritten {
			t.Errorf("%s in a space that is not UTF-8: %v", name, err)
		}
	}
	if _, err := message.EncodePolicy(mainstem.Policy{Metadata: map[string]string{"a": "\xff"}}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("metadata that is not UTF-8: %v", err)
	}
}

func TestReceiptArrivesAsItWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := mainstem.Receipt{
			First: mainstem.Position(rapid.Uint64().Draw(t, "first")), Last: mainstem.Position(rapid.Uint64().Draw(t, "last")),
			Time: instant.Draw(t, "time"), Duplicate: rapid.Bool().Draw(t, "duplicate"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "versions") {
			want.Versions = append(want.Versions, mainstem.Version(rapid.Uint64().Draw(t, "version")))
		}
		travel(t, message.EncodeReceipt(want), func(m *pb.CommitResponse) {
			got, err := message.DecodeReceipt(m)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, want)
		})
		sent := message.AppendReceipt(nil, &want)
		if runtime, err := proto.Marshal(message.EncodeReceipt(want)); err != nil || !bytes.Equal(runtime, sent) {
			t.Fatalf("%v\nis  %x\nnot %x, %v", want, sent, runtime, err)
		}
		got, err := message.ParseReceipt(sent)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	})
}

func TestRequestsArriveAsTheyWereSent(t *testing.T) {
	number := func(t *rapid.T, name string) uint64 { return rapid.Uint64().Draw(t, name) }
	rapid.Check(t, func(t *rapid.T) {
		rng := mainstem.Range{
			Prefix: optionalKey.Draw(t, "prefix"), Start: optionalBytes.Draw(t, "start"), End: optionalBytes.Draw(t, "end"),
			Reverse: rapid.Bool().Draw(t, "reverse"), Limit: rapid.Int().Draw(t, "limit"),
			KeysOnly: rapid.Bool().Draw(t, "keys"), Tombstones: rapid.Bool().Draw(t, "tombstones"),
		}
		travel(t, message.EncodeRange("s", rng, nil), func(m *pb.ScanRequest) {
			got, err := message.DecodeRange(m)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, rng)
		})
		v := mainstem.Versions{
			From: mainstem.Version(number(t, "from")), To: mainstem.Version(number(t, "to")),
			Reverse: rapid.Bool().Draw(t, "reverse"), Limit: rapid.Int().Draw(t, "limit"), Follow: rapid.Bool().Draw(t, "follow"),
		}
		travel(t, message.EncodeVersions("s", []byte("k"), v, nil), func(m *pb.ReadRequest) {
			got, err := message.DecodeVersions(m)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, v)
		})
		f := mainstem.Filter{
			Spaces:    rapid.SampledFrom([][]string{nil, {}, {"a"}, {"b", "", "b"}}).Draw(t, "spaces"),
			KeyPrefix: optionalKey.Draw(t, "prefix"), After: mainstem.Position(number(t, "after")),
			Limit: rapid.Int().Draw(t, "limit"), Follow: rapid.Bool().Draw(t, "follow"),
		}
		travel(t, message.EncodeFilter(f, nil), func(m *pb.FeedRequest) {
			got, err := message.DecodeFilter(m)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, f)
		})
	})
}

func TestSpaceArrivesAsItWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := mainstem.SpaceInfo{
			Name: name.Draw(t, "name"), Policy: policy.Draw(t, "policy"), Created: instant.Draw(t, "created"),
			Keys: rapid.Int64().Draw(t, "keys"), Records: rapid.Int64().Draw(t, "records"), Bytes: rapid.Int64().Draw(t, "bytes"),
			Last: mainstem.Position(rapid.Uint64().Draw(t, "last")), Updated: instant.Draw(t, "updated"),
		}
		m, err := message.EncodeSpaceInfo(want)
		if err != nil {
			t.Fatal(err)
		}
		travel(t, m, func(m *pb.SpaceInfo) {
			got, err := message.DecodeSpaceInfo(m)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, want)
		})
	})
}

// overWire returns err as a client gets it: through the detail, not the Go value.
func overWire(t *testing.T, err error, outcome mainstem.Outcome) (*connect.Error, *mainstem.Error) {
	t.Helper()
	sent := message.EncodeError(err, outcome)
	arrived := connect.NewWireError(sent.Code(), errors.New(sent.Message()))
	for _, d := range sent.Details() {
		arrived.AddDetail(d)
	}
	return arrived, message.DecodeError(arrived)
}

func TestErrorArrivesWhole(t *testing.T) {
	for kind := mainstem.KindInternal; kind <= mainstem.KindUnsupported; kind++ {
		want := &mainstem.Error{
			Kind: kind, Op: "commit", Space: "s", Key: []byte{0, 0xff}, Outcome: mainstem.NotWritten,
			Hint: "do this", Err: errors.New("because"),
		}
		if kind == mainstem.KindConflict {
			want.Want = mainstem.Condition{Space: "s", Key: []byte{0, 0xff}, Test: mainstem.TestAbsent}
			want.Got, want.GotLive = 3, true
		}
		code, got := overWire(t, want, mainstem.NoOutcome)
		if got == nil {
			t.Fatalf("%v: no detail arrived in %v", kind, code)
		}
		if got.Error() != want.Error() {
			t.Errorf("%v: says %q, sent %q", kind, got, want)
		}
		cause := got.Err
		got.Err, want.Err = nil, nil
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v: what arrived differs (-sent +arrived):\n%s", kind, d)
		}
		if kind == mainstem.KindCanceled && !errors.Is(cause, context.Canceled) {
			t.Errorf("the cause of a cancellation is %v", cause)
		}
		if mainstem.KindOf(got) != kind {
			t.Errorf("kind %v arrived as %v", kind, mainstem.KindOf(got))
		}
	}
}

func TestDeadlineArrivesAsOne(t *testing.T) {
	sent := &mainstem.Error{Kind: mainstem.KindCanceled, Op: "get", Err: context.DeadlineExceeded}
	code, got := overWire(t, sent, mainstem.NoOutcome)
	if code.Code() != connect.CodeDeadlineExceeded || !errors.Is(got, context.DeadlineExceeded) || got.Error() != sent.Error() {
		t.Errorf("a deadline arrived as %v: %v", code.Code(), got)
	}
}

func TestErrorOfAnotherTypeIsInternal(t *testing.T) {
	_, got := overWire(t, fmt.Errorf("disk %s", "gone"), mainstem.Unknown)
	if got == nil || got.Kind != mainstem.KindInternal || got.Outcome != mainstem.Unknown || !strings.Contains(got.Error(), "disk gone") {
		t.Errorf("got %+v", got)
	}
}

func TestErrorFitsOnTheWire(t *testing.T) {
	huge := strings.Repeat("\xff", 1<<20)
	sent := &mainstem.Error{
		Kind: mainstem.KindConflict, Op: huge, Space: huge, Key: []byte(huge), Hint: huge, Err: errors.New(huge),
		Want: mainstem.Condition{Space: huge, Key: []byte(huge)},
	}
	code, got := overWire(t, sent, mainstem.NoOutcome)
	if got == nil {
		t.Fatal("no detail arrived")
	}
	if n := len(code.Message()); n > 32<<10 {
		t.Errorf("the message has %d bytes", n)
	}
	size := 0
	for _, d := range code.Details() {
		size += len(d.Bytes())
	}
	if size > 128<<10 {
		t.Errorf("the detail has %d bytes", size)
	}
}

func TestErrorWithoutDetailIsNone(t *testing.T) {
	for _, err := range []error{errors.New("x"), connect.NewError(connect.CodeInternal, errors.New("x"))} {
		if e := message.DecodeError(err); e != nil {
			t.Errorf("%v has the detail %v", err, e)
		}
	}
}

// A later version may send what this one does not know: never good news.
func TestUnknownNumbersInErrorsAreTakenWithCaution(t *testing.T) {
	d, err := connect.NewErrorDetail(&pb.ErrorDetail{Kind: 99, Outcome: 77, Want: &pb.Condition{Test: -5}})
	if err != nil {
		t.Fatal(err)
	}
	c := connect.NewError(connect.CodeInternal, errors.New("x"))
	c.AddDetail(d)
	if e := message.DecodeError(c); e == nil || e.Kind != mainstem.KindInternal || e.Outcome != mainstem.Unknown {
		t.Errorf("got %+v", e)
	}
}

// Numbers are checked before they are made smaller: 256 is not 0.
func TestNumbersOutOfRangeAreInvalid(t *testing.T) {
	commit := func(m *pb.CommitRequest) error { return message.DecodeBatch(m, mainstem.NewBatch()) }
	write := func(w *pb.Write) error { return commit(&pb.CommitRequest{Writes: []*pb.Write{w}}) }
	decodeRecord := func(m *pb.Record) error { _, err := message.DecodeRecord(m, nil); return err }
	many := make([]*pb.Ensure, message.MaxEnsures+1)
	for what, err := range map[string]error{
		"operation 256":     write(&pb.Write{Op: 256}),
		"operation -1":      write(&pb.Write{Op: -1}),
		"ttl of 1000 years": write(&pb.Write{Ttl: &durationpb.Duration{Seconds: 1000 * 365 * 86400}}),
		"ttl of mixed sign": write(&pb.Write{Ttl: &durationpb.Duration{Seconds: 1, Nanos: -1}}),
		"test 256":          commit(&pb.CommitRequest{Conditions: []*pb.Condition{{Test: 256}}}),
		"max age":           commit(&pb.CommitRequest{Ensures: []*pb.Ensure{{Policy: &pb.Policy{MaxAge: &durationpb.Duration{Seconds: math.MaxInt64}}}}}),
		"many ensures":      commit(&pb.CommitRequest{Ensures: many}),
		"tombstone 256":     decodeRecord(&pb.Record{Tombstone: 256}),
		"no record":         decodeRecord(nil),
		"year 10000":        decodeRecord(&pb.Record{Time: &timestamppb.Timestamp{Seconds: 253402300800}}),
		"nanoseconds":       decodeRecord(&pb.Record{Expires: &timestamppb.Timestamp{Nanos: -1}}),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want invalid", what, err)
		}
	}
}

func TestDecodedBatchSharesBytes(t *testing.T) {
	value := []byte("value")
	b := mainstem.NewBatch()
	if err := message.DecodeBatch(&pb.CommitRequest{Writes: []*pb.Write{{Space: "s", Key: []byte("k"), Value: value}}}, b); err != nil {
		t.Fatal(err)
	}
	if got := b.Writes()[0].Value; &got[0] != &value[0] || !bytes.Equal(got, value) {
		t.Error("the value was copied")
	}
}
