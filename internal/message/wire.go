package message

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The bytes that are appended here and in wire_commit.go are those that the Protobuf runtime
// writes, and what is parsed is what it reads: tests compare them, in both directions.

// GetRequest is a request of Get. Its bytes are those of the message.
type GetRequest struct{ Space, Key, Snapshot []byte }

// AppendGetRequest appends the message of a request.
func AppendGetRequest(dst []byte, space string, key, snapshot []byte) []byte {
	dst = appendString(dst, 1, space)
	dst = appendBytes(dst, 2, key)
	return appendBytes(dst, 3, snapshot)
}

// ParseGetRequest returns the request in a message.
func ParseGetRequest(b []byte) (r GetRequest, err error) {
	err = fields(b, func(number protowire.Number, f field) error {
		switch number {
		case 1:
			r.Space = f.bytes
			if !utf8.Valid(f.bytes) {
				return errors.New("the space is not valid UTF-8")
			}
			return f.want(protowire.BytesType)
		case 2:
			r.Key = f.bytes
			return f.want(protowire.BytesType)
		case 3:
			r.Snapshot = f.bytes
			return f.want(protowire.BytesType)
		}
		return nil
	})
	return r, err
}

// GetManyRequest is a request of GetMany. Its bytes are those of the message.
type GetManyRequest struct {
	Space, Snapshot []byte
	Keys            [][]byte
}

// ParseGetManyRequest returns the request in a message. Its error is a [mainstem.Error] if there
// are too many keys.
func ParseGetManyRequest(b []byte) (r GetManyRequest, err error) {
	err = fields(b, func(number protowire.Number, f field) error {
		switch number {
		case 1:
			r.Space = f.bytes
			if !utf8.Valid(f.bytes) {
				return errors.New("the space is not valid UTF-8")
			}
			return f.want(protowire.BytesType)
		case 2:
			if len(r.Keys) == mainstem.MaxGetKeys {
				return mainstem.Errorf(mainstem.KindInvalid, "get many", "the request has more than %d keys: that is the limit", mainstem.MaxGetKeys)
			}
			if r.Keys == nil {
				r.Keys = make([][]byte, 0, min(len(b)/(len(f.bytes)+2)+1, mainstem.MaxGetKeys))
			}
			r.Keys = append(r.Keys, f.bytes)
			return f.want(protowire.BytesType)
		case 3:
			r.Snapshot = f.bytes
			return f.want(protowire.BytesType)
		}
		return nil
	})
	return r, err
}

// AppendGetResponse appends the message of an answer with r.
func AppendGetResponse(dst []byte, r *mainstem.Record) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(recordSize(r))) //nolint:gosec // not negative
	return AppendRecord(dst, r)
}

// ParseGetResponse returns the record in an answer, which shares the bytes of b. Its space
// is that string if it has that name.
func ParseGetResponse(b []byte, space string) (r mainstem.Record, err error) {
	there := false
	err = fields(b, func(number protowire.Number, f field) error {
		if number != 1 {
			return nil
		}
		if there {
			return errTwice
		}
		there = true
		if err := f.want(protowire.BytesType); err != nil {
			return err
		}
		r, err = ParseRecord(f.bytes, space, nil)
		return err
	})
	if err == nil && !there {
		err = mainstem.Refusef(mainstem.KindInvalid, "decode record", "the record is missing")
	}
	return r, err
}

// AppendNext appends r to the message of a piece of a stream. The space is left out if it is
// that of the record before, which is in last.
func AppendNext(dst []byte, r *mainstem.Record, last *string) []byte {
	full := r.Space
	if full == *last {
		r.Space = ""
	}
	dst = AppendGetResponse(dst, r) // a piece has its records where an answer to Get has its one
	r.Space, *last = full, full
	return dst
}

// AppendRecord appends the message of r.
func AppendRecord(dst []byte, r *mainstem.Record) []byte {
	dst = appendString(dst, 1, r.Space)
	dst = appendBytes(dst, 2, r.Key)
	dst = appendNumber(dst, 3, uint64(r.Version))
	dst = appendNumber(dst, 4, uint64(r.Count))
	dst = appendNumber(dst, 5, uint64(r.Position))
	dst = appendTime(dst, 6, r.Time)
	dst = appendTime(dst, 7, r.Expires)
	dst = appendNumber(dst, 8, uint64(r.Tombstone))
	for i := range r.Headers {
		h := &r.Headers[i]
		dst = protowire.AppendTag(dst, 9, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(headerSize(h))) //nolint:gosec // not negative
		dst = appendHeader(dst, h)
	}
	if r.Value != nil {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 10, protowire.BytesType), r.Value)
	}
	return dst
}

// recordSize returns the size of what AppendRecord appends.
func recordSize(r *mainstem.Record) int {
	n := sizeBytes(len(r.Space)) + sizeBytes(len(r.Key)) + sizeNumber(uint64(r.Version)) + sizeNumber(uint64(r.Count)) +
		sizeNumber(uint64(r.Position)) + sizeTime(r.Time) + sizeTime(r.Expires) + sizeNumber(uint64(r.Tombstone))
	for i := range r.Headers {
		n += 1 + protowire.SizeBytes(headerSize(&r.Headers[i]))
	}
	if r.Value != nil {
		n += 1 + protowire.SizeBytes(len(r.Value))
	}
	return n
}

func appendHeader(dst []byte, h *mainstem.Header) []byte {
	name := protowire.Number(1)
	if !utf8.ValidString(h.Name) {
		name = 3
	} else {
		dst = appendString(dst, 1, h.Name)
	}
	if h.Value != nil {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 2, protowire.BytesType), h.Value)
	}
	if name == 3 {
		dst = protowire.AppendString(protowire.AppendTag(dst, 3, protowire.BytesType), h.Name)
	}
	return dst
}

func headerSize(h *mainstem.Header) int {
	n := sizeBytes(len(h.Name))
	if h.Value != nil {
		n += 1 + protowire.SizeBytes(len(h.Value))
	}
	return n
}

func appendBytes(dst []byte, number protowire.Number, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

func appendString(dst []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), s)
}

func appendNumber(dst []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}

func appendTime(dst []byte, number protowire.Number, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	seconds, nanos := timeParts(t)
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeNumber(seconds)+sizeNumber(nanos))) //nolint:gosec // not negative
	return appendNumber(appendNumber(dst, 1, seconds), 2, nanos)
}

func timeParts(t time.Time) (seconds, nanos uint64) {
	return uint64(t.Unix()), uint64(t.Nanosecond()) //nolint:gosec // two's complement is what the wire has
}

// The sizes of fields whose numbers are below 16.

func sizeBytes(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(n)
}

func sizeNumber(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func sizeTime(t time.Time) int {
	if t.IsZero() {
		return 0
	}
	seconds, nanos := timeParts(t)
	return 1 + protowire.SizeBytes(sizeNumber(seconds)+sizeNumber(nanos))
}

// ParseRecord returns the record in a message, as [DecodeRecord] does: it shares the bytes
// of b, and scratch is memory for its headers. An empty space is space, and one of the same
// name is that string.
func ParseRecord(b []byte, space string, scratch mainstem.Headers) (r mainstem.Record, err error) {
	r.Space, r.Count = space, 1
	scratch = scratch[:0]
	met := seen(0)
	err = fields(b, func(number protowire.Number, f field) error {
		if number != 9 { // there may be many headers
			if err := met.add(number, 10); err != nil {
				return err
			}
		}
		switch number {
		case 1:
			if !utf8.Valid(f.bytes) {
				return errors.New("the space is not valid UTF-8")
			}
			if len(f.bytes) > 0 && string(f.bytes) != r.Space {
				r.Space = string(f.bytes)
			}
			return f.want(protowire.BytesType)
		case 2:
			r.Key = f.bytes
			return f.want(protowire.BytesType)
		case 3:
			r.Version = mainstem.Version(f.number)
			return f.want(protowire.VarintType)
		case 4:
			r.Count = max(uint32(f.number), 1) //nolint:gosec // what the wire cuts off, too
			return f.want(protowire.VarintType)
		case 5:
			r.Position = mainstem.Position(f.number)
			return f.want(protowire.VarintType)
		case 6:
			return parseTime(&r.Time, "time", f)
		case 7:
			return parseTime(&r.Expires, "expires", f)
		case 8:
			if int32(f.number) < 0 || int32(f.number) > int32(pb.Tombstone_TOMBSTONE_EXPIRED) { //nolint:gosec // an enum
				return fmt.Errorf("tombstone %d is not one that this version knows", int32(f.number)) //nolint:gosec // an enum
			}
			r.Tombstone = mainstem.Tombstone(f.number) //nolint:gosec // checked
			return f.want(protowire.VarintType)
		case 9:
			h, err := parseHeader(f)
			scratch = append(scratch, h)
			r.Headers = scratch
			return err
		case 10:
			r.Value = f.bytes
			return f.want(protowire.BytesType)
		}
		return nil
	})
	if err != nil {
		return mainstem.Record{}, mainstem.Refusef(mainstem.KindInvalid, "decode record", "%w", err)
	}
	return r, nil
}

func parseHeader(f field) (h mainstem.Header, err error) {
	if err := f.want(protowire.BytesType); err != nil {
		return h, err
	}
	var raw []byte
	err = fields(f.bytes, func(number protowire.Number, f field) error {
		switch number {
		case 1:
			if !utf8.Valid(f.bytes) {
				return errors.New("the name of a header is not valid UTF-8")
			}
			h.Name = string(f.bytes)
			return f.want(protowire.BytesType)
		case 2:
			h.Value = f.bytes
			return f.want(protowire.BytesType)
		case 3:
			raw = f.bytes
			return f.want(protowire.BytesType)
		}
		return nil
	})
	if len(raw) > 0 {
		h.Name = string(raw)
	}
	return h, err
}

// The seconds of 0001 and 9999: what a Timestamp may hold.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300799
)

func parseTime(t *time.Time, name string, f field) error {
	if err := f.want(protowire.BytesType); err != nil {
		return err
	}
	var seconds int64
	var nanos int32
	err := fields(f.bytes, func(number protowire.Number, f field) error {
		switch number {
		case 1:
			seconds = int64(f.number) //nolint:gosec // two's complement
			return f.want(protowire.VarintType)
		case 2:
			nanos = int32(f.number) //nolint:gosec // two's complement
			return f.want(protowire.VarintType)
		}
		return nil
	})
	if err == nil && (seconds < minSeconds || seconds > maxSeconds || nanos < 0 || nanos >= 1e9) {
		err = fmt.Errorf("%s: %d seconds and %d nanoseconds are out of range", name, seconds, nanos)
	}
	*t = time.Unix(seconds, int64(nanos)).UTC()
	return err
}

// errTwice is of what Protobuf would merge, and no encoder writes.
var errTwice = errors.New("a field is there twice")

// seen is the set of fields that a message has had, by their numbers below 16.
type seen uint16

// add returns errTwice for a field that is in the set. Fields above last are of later versions,
// and may be there many times.
func (s *seen) add(number, last protowire.Number) error {
	if number > last {
		return nil
	}
	bit := seen(1) << number
	if *s&bit != 0 {
		return errTwice
	}
	*s |= bit
	return nil
}

// errStop ends the fields of a message early.
var errStop = errors.New("stop")

// field is the value of a field as it is on the wire.
type field struct {
	kind   protowire.Type
	number uint64 // of VarintType
	bytes  []byte // of BytesType; never nil then, and without room behind it
}

func (f field) want(kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("a field has the wire type %d: want %d", f.kind, kind)
	}
	return nil
}

// fields calls each with every field of a message, in their order.
func fields(b []byte, each func(protowire.Number, field) error) error {
	for len(b) > 0 {
		number, kind, n := consumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number > protowire.MaxValidNumber {
			return errors.New("a field has a number that Protobuf does not know")
		}
		b = b[n:]
		f := field{kind: kind}
		switch kind {
		case protowire.VarintType:
			f.number, n = consumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = consumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := each(number, f); err != nil {
			return err
		}
	}
	return nil
}

// What most fields have, tags, numbers and lengths of one byte, costs no call here.

func consumeTag(b []byte) (protowire.Number, protowire.Type, int) {
	if c := b[0]; c < 0x80 && c >= 1<<3 {
		return protowire.Number(c >> 3), protowire.Type(c & 7), 1
	}
	return protowire.ConsumeTag(b)
}

func consumeVarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

func consumeBytes(b []byte) ([]byte, int) {
	if len(b) > 0 && b[0] < 0x80 && int(b[0]) < len(b) {
		n := 1 + int(b[0])
		return b[1:n:n], n
	}
	p, n := protowire.ConsumeBytes(b)
	return p[:len(p):len(p)], n
}

// ParseRecords calls each with every record of a piece of a stream, whose bytes it shares,
// until that returns false. The space of one without is that of the record before, at first
// space. Following is what the message says of it, nil if nothing. Scratch is memory for the
// headers of one record.
func ParseRecords(b []byte, space string, scratch mainstem.Headers, each func(mainstem.Record) bool) (following *pb.Following, last string, err error) {
	last = space
	err = fields(b, func(number protowire.Number, f field) error {
		switch number {
		case 1:
			if err := f.want(protowire.BytesType); err != nil {
				return err
			}
			r, err := ParseRecord(f.bytes, last, scratch)
			if err != nil {
				return err
			}
			last = r.Space
			if !each(r) {
				return errStop
			}
		case 2:
			if following != nil {
				return errTwice
			}
			following = new(pb.Following)
			return proto.Unmarshal(f.bytes, following)
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return following, last, err
}
