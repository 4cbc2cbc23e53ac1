package message

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// EncodeRecord makes a message of r that borrows its bytes.
func EncodeRecord(r mainstem.Record) *pb.Record {
	out := new(pb.Record)
	fillRecord(out, r)
	out.Headers = encodeHeaders(r.Headers)
	return out
}

// fillRecord sets every field of out but the headers.
func fillRecord(out *pb.Record, r mainstem.Record) {
	out.Space, out.Key, out.Value = r.Space, r.Key, r.Value
	out.Version, out.Position = uint64(r.Version), uint64(r.Position)
	out.Count = r.Count
	out.Time, out.Expires = encodeTime(r.Time, out.Time), encodeTime(r.Expires, out.Expires)
	out.Tombstone = pb.Tombstone(r.Tombstone)
}

// DecodeRecord returns the record in a message, whose bytes it shares. Its headers
// are in the memory of scratch if that is large enough; nil is none. An empty space
// in a stream is left to the caller, who knows the record before.
func DecodeRecord(in *pb.Record, scratch mainstem.Headers) (mainstem.Record, error) {
	if in == nil {
		return mainstem.Record{}, mainstem.Refusef(mainstem.KindInvalid, "decode record", "the record is missing")
	}
	if in.Tombstone < 0 || in.Tombstone > pb.Tombstone_TOMBSTONE_EXPIRED {
		return mainstem.Record{}, mainstem.Refusef(mainstem.KindInvalid, "decode record", "tombstone %d is not one that this version knows", in.Tombstone)
	}
	t, err := decodeTime("time", in.Time)
	if err != nil {
		return mainstem.Record{}, mainstem.Refusef(mainstem.KindInvalid, "decode record", "%w", err)
	}
	expires, err := decodeTime("expires", in.Expires)
	if err != nil {
		return mainstem.Record{}, mainstem.Refusef(mainstem.KindInvalid, "decode record", "%w", err)
	}
	return mainstem.Record{
		Space:     in.Space,
		Key:       in.Key,
		Version:   mainstem.Version(in.Version),
		Count:     max(in.Count, 1),
		Position:  mainstem.Position(in.Position),
		Time:      t,
		Expires:   expires,
		Tombstone: mainstem.Tombstone(in.Tombstone),
		Headers:   decodeHeaders(in.Headers, scratch[:0]),
		Value:     in.Value,
	}, nil
}

func encodeHeaders(h mainstem.Headers) []*pb.Header {
	if len(h) == 0 {
		return nil
	}
	slab := make([]pb.Header, len(h))
	out := make([]*pb.Header, len(h))
	for i := range h {
		out[i] = &slab[i]
		fillHeader(out[i], h[i])
	}
	return out
}

func fillHeader(out *pb.Header, h mainstem.Header) {
	out.Name, out.RawName, out.Value = h.Name, nil, h.Value
	if !utf8.ValidString(h.Name) {
		out.Name, out.RawName = "", []byte(h.Name)
	}
}

// decodeHeaders appends the headers of in to into; no headers are nil.
func decodeHeaders(in []*pb.Header, into mainstem.Headers) mainstem.Headers {
	if len(in) == 0 {
		return nil
	}
	for _, h := range in {
		name := h.GetName()
		if raw := h.GetRawName(); len(raw) > 0 {
			name = string(raw)
		}
		into = append(into, mainstem.Header{Name: name, Value: h.GetValue()})
	}
	return into
}

// encodeTime returns t as a message, nil for the zero time, using the memory of old.
func encodeTime(t time.Time, old *timestamppb.Timestamp) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	if old == nil {
		old = new(timestamppb.Timestamp)
	}
	old.Seconds, old.Nanos = t.Unix(), int32(t.Nanosecond())
	return old
}

// decodeTime is the inverse of encodeTime.
func decodeTime(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", field, err)
	}
	return t.AsTime(), nil
}
