package message

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// MaxEnsures is how many spaces one batch may create over the wire.
const MaxEnsures = 4096

// keepWrites is how many writes, conditions or headers a [Batch] keeps memory for.
const keepWrites = 1024

// Batch encodes batches for Commit, again and again into the same memory. The zero
// value is ready.
//
// Invariant: the messages in request point into the slabs.
type Batch struct {
	request    pb.CommitRequest
	writes     slab[pb.Write]
	conditions slab[pb.Condition]
	headers    slab[pb.Header]
}

// slab hands out messages of one type and takes them all back at once.
type slab[T any] struct {
	all  []*T
	used int
}

func (s *slab[T]) next() *T {
	if s.used == len(s.all) {
		s.all = append(s.all, new(T))
	}
	s.used++
	return s.all[s.used-1]
}

// reset takes back what was handed out, after wipe has cleared the pointers in it.
func (s *slab[T]) reset(wipe func(*T)) {
	if len(s.all) > keepWrites {
		s.all = nil
	}
	for _, m := range s.all[:min(s.used, len(s.all))] {
		wipe(m)
	}
	s.used = 0
}

// Encode makes the message of b, or returns an Invalid error for names that are not
// UTF-8. It borrows the bytes of b and stays valid until
// the next call of Encode or Reset.
func (e *Batch) Encode(b *mainstem.Batch) (*pb.CommitRequest, error) {
	e.Reset()
	e.request.Id, e.request.Durability = []byte(b.ID), int64(b.Durability)
	e.request.Time = encodeTime(b.Time, nil)
	for _, en := range b.Ensures() {
		p, err := EncodePolicy(en.Policy)
		if err != nil {
			return nil, err
		}
		e.request.Ensures = append(e.request.Ensures, &pb.Ensure{Space: en.Space, Policy: p})
	}
	for i, c := range b.Conditions() {
		if !utf8.ValidString(c.Space) {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "commit", "condition %d: %w", i, mainstem.ValidateSpaceName(c.Space))
		}
		out := e.conditions.next()
		fillCondition(out, c)
		e.request.Conditions = append(e.request.Conditions, out)
	}
	writes := b.Writes()
	for i := range writes {
		if !utf8.ValidString(writes[i].Space) {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "commit", "write %d: %w", i, mainstem.ValidateSpaceName(writes[i].Space))
		}
		e.request.Writes = append(e.request.Writes, e.encodeWrite(&writes[i]))
	}
	return &e.request, nil
}

func (e *Batch) encodeWrite(w *mainstem.Write) *pb.Write {
	out := e.writes.next()
	out.Op, out.Space, out.Key, out.Value = pb.Op(w.Op), w.Space, w.Key, w.Value
	out.Count, out.Version = w.Count, uint64(w.Version)
	out.Ttl = encodeDuration(w.TTL)
	out.Headers = out.Headers[:0]
	for _, h := range w.Headers {
		m := e.headers.next()
		fillHeader(m, h)
		out.Headers = append(out.Headers, m)
	}
	return out
}

// Reset drops the batch encoded last and keeps some memory.
func (e *Batch) Reset() {
	e.request.Id, e.request.Ensures, e.request.Time = nil, nil, nil
	e.request.Writes, e.request.Conditions = recycle(e.request.Writes), recycle(e.request.Conditions)
	e.writes.reset(func(w *pb.Write) {
		w.Space, w.Key, w.Value, w.Ttl = "", nil, nil, nil
		w.Headers = recycle(w.Headers)
	})
	e.conditions.reset(func(c *pb.Condition) { c.Space, c.Key = "", nil })
	e.headers.reset(func(h *pb.Header) { h.Name, h.RawName, h.Value = "", nil, nil })
}

// recycle empties a slice of messages, which it keeps if it is not large.
func recycle[T any](s []*T) []*T {
	if cap(s) > keepWrites {
		return nil
	}
	clear(s)
	return s[:0]
}

func encodeCondition(c mainstem.Condition) *pb.Condition {
	out := new(pb.Condition)
	fillCondition(out, c)
	return out
}

func fillCondition(out *pb.Condition, c mainstem.Condition) {
	out.Space, out.Key, out.Test, out.Version, out.Position = c.Space, c.Key, pb.Test(c.Test), uint64(c.Version), uint64(c.Position)
}

func decodeCondition(in *pb.Condition) (mainstem.Condition, error) {
	test := in.GetTest()
	if test < 0 || test > pb.Test_TEST_NOT_AFTER {
		return mainstem.Condition{}, fmt.Errorf("test %d is not one that this version knows", test)
	}
	return mainstem.Condition{
		Space: in.GetSpace(), Key: in.GetKey(), Test: mainstem.Test(test), Version: mainstem.Version(in.GetVersion()),
		Position: mainstem.Position(in.GetPosition()),
	}, nil
}

// DecodeBatch adds what is in a message to the empty batch b.
func DecodeBatch(in *pb.CommitRequest, b *mainstem.Batch) error {
	b.ID, b.Durability = string(in.GetId()), mainstem.Durability(in.GetDurability())
	t, err := decodeTime("time", in.GetTime())
	if err != nil {
		return mainstem.Refusef(mainstem.KindInvalid, "commit", "%w", err)
	}
	b.Time = t
	if n := len(in.GetEnsures()); n > MaxEnsures {
		return mainstem.Refusef(mainstem.KindInvalid, "commit", "the batch ensures %d spaces: the limit is %d; split it", n, MaxEnsures)
	}
	for i, e := range in.GetEnsures() {
		p, err := DecodePolicy(e.GetPolicy())
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "commit", "space %d to ensure: %w", i, err)
		}
		b.Ensure(e.GetSpace(), p)
	}
	for i, c := range in.GetConditions() {
		condition, err := decodeCondition(c)
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "commit", "condition %d: %w", i, err)
		}
		b.If(condition)
	}
	for i, w := range in.GetWrites() {
		write, err := decodeWrite(w)
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "commit", "write %d: %w", i, err)
		}
		b.Add(write)
	}
	return nil
}

func decodeWrite(in *pb.Write) (mainstem.Write, error) {
	op := in.GetOp()
	if op < 0 || op > pb.Op_OP_REMOVE {
		return mainstem.Write{}, fmt.Errorf("operation %d is not one that this version knows", op)
	}
	ttl, err := decodeDuration("ttl", in.GetTtl())
	if err != nil {
		return mainstem.Write{}, err
	}
	return mainstem.Write{
		Op: mainstem.Op(op), Space: in.GetSpace(), Key: in.GetKey(), Value: in.GetValue(),
		Headers: decodeHeaders(in.GetHeaders(), nil), Count: in.GetCount(), TTL: ttl,
		Version: mainstem.Version(in.GetVersion()),
	}, nil
}

// EncodeReceipt makes a message of r.
func EncodeReceipt(r mainstem.Receipt) *pb.CommitResponse {
	out := &pb.CommitResponse{
		First: uint64(r.First), Last: uint64(r.Last), Time: encodeTime(r.Time, nil), Duplicate: r.Duplicate,
	}
	if len(r.Versions) > 0 {
		out.Versions = make([]uint64, len(r.Versions))
		for i, v := range r.Versions {
			out.Versions[i] = uint64(v)
		}
	}
	return out
}

// DecodeReceipt returns the receipt in a message.
func DecodeReceipt(in *pb.CommitResponse) (mainstem.Receipt, error) {
	t, err := decodeTime("time", in.GetTime())
	if err != nil {
		return mainstem.Receipt{}, mainstem.Refusef(mainstem.KindInvalid, "commit", "%w", err)
	}
	out := mainstem.Receipt{
		First: mainstem.Position(in.GetFirst()), Last: mainstem.Position(in.GetLast()), Time: t, Duplicate: in.GetDuplicate(),
	}
	if len(in.GetVersions()) > 0 {
		out.Versions = make([]mainstem.Version, len(in.Versions))
		for i, v := range in.Versions {
			out.Versions[i] = mainstem.Version(v)
		}
	}
	return out, nil
}

func encodeDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// decodeDuration refuses durations beyond Go's, about 292 years.
func decodeDuration(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fmt.Errorf("%s: %w", field, err)
	}
	out := d.AsDuration()
	if back := durationpb.New(out); back.Seconds != d.Seconds || back.Nanos != d.Nanos {
		return 0, fmt.Errorf("%s is %ds: the limit is about 292 years", field, d.Seconds)
	}
	return out, nil
}
