package message

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Encoder encodes requests of Commit. It remembers the space that was ensured last, for a view
// ensures the same one with every batch. The zero value is ready, for one goroutine at a time.
type Encoder struct {
	last    mainstem.Ensure // of encoded, with a map of its own
	encoded []byte          // the message of last; empty: there is none
}

// AppendBatch appends the message of b, with that ID instead of its own if id is not empty.
// Names that are not UTF-8 are Invalid, and then dst is returned as it was.
func (e *Encoder) AppendBatch(dst []byte, b *mainstem.Batch, id []byte) ([]byte, error) {
	out := dst
	if len(id) == 0 {
		out = appendString(out, 1, b.ID)
	}
	out = appendBytes(out, 1, id)
	out = appendNumber(out, 2, protowire.EncodeZigZag(int64(b.Durability)))
	for _, en := range b.Ensures() {
		p, err := e.ensure(en)
		if err != nil {
			return dst, err
		}
		out = protowire.AppendBytes(protowire.AppendTag(out, 3, protowire.BytesType), p)
	}
	for i, c := range b.Conditions() {
		if !utf8.ValidString(c.Space) {
			return dst, mainstem.Refusef(mainstem.KindInvalid, "commit", "condition %d: %w", i, mainstem.ValidateSpaceName(c.Space))
		}
		out = protowire.AppendTag(out, 4, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(conditionSize(&c))) //nolint:gosec // not negative
		out = appendCondition(out, &c)
	}
	writes := b.Writes()
	for i := range writes {
		w := &writes[i]
		if !utf8.ValidString(w.Space) {
			return dst, mainstem.Refusef(mainstem.KindInvalid, "commit", "write %d: %w", i, mainstem.ValidateSpaceName(w.Space))
		}
		out = protowire.AppendTag(out, 5, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(writeSize(w))) //nolint:gosec // not negative
		out = appendWrite(out, w)
	}
	return appendTime(out, 6, b.Time), nil
}

// ensure returns the message of en, until the next call.
func (e *Encoder) ensure(en mainstem.Ensure) ([]byte, error) {
	if len(e.encoded) > 0 && e.last.Space == en.Space && e.last.Policy.Equal(en.Policy) {
		return e.encoded, nil
	}
	p, err := EncodePolicy(en.Policy)
	if err != nil {
		return nil, err
	}
	e.encoded, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(e.encoded[:0], &pb.Ensure{Space: en.Space, Policy: p})
	if err != nil {
		e.encoded = e.encoded[:0]
		return nil, mainstem.Refusef(mainstem.KindInvalid, "commit", "%w", err)
	}
	e.last = en
	e.last.Policy.Metadata = maps.Clone(en.Policy.Metadata)
	return e.encoded, nil
}

func appendCondition(dst []byte, c *mainstem.Condition) []byte {
	dst = appendString(dst, 1, c.Space)
	dst = appendBytes(dst, 2, c.Key)
	dst = appendNumber(dst, 3, uint64(c.Test))
	dst = appendNumber(dst, 4, uint64(c.Version))
	return appendNumber(dst, 5, uint64(c.Position))
}

func conditionSize(c *mainstem.Condition) int {
	return sizeBytes(len(c.Space)) + sizeBytes(len(c.Key)) + sizeNumber(uint64(c.Test)) + sizeNumber(uint64(c.Version)) +
		sizeNumber(uint64(c.Position))
}

func appendWrite(dst []byte, w *mainstem.Write) []byte {
	dst = appendNumber(dst, 1, uint64(w.Op))
	dst = appendString(dst, 2, w.Space)
	dst = appendBytes(dst, 3, w.Key)
	if w.Value != nil {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 4, protowire.BytesType), w.Value)
	}
	for i := range w.Headers {
		h := &w.Headers[i]
		dst = protowire.AppendTag(dst, 5, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(headerSize(h))) //nolint:gosec // not negative
		dst = appendHeader(dst, h)
	}
	dst = appendNumber(dst, 6, uint64(w.Count))
	if w.TTL != 0 {
		seconds, nanos := durationParts(w.TTL)
		dst = protowire.AppendTag(dst, 7, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(sizeNumber(seconds)+sizeNumber(nanos))) //nolint:gosec // not negative
		dst = appendNumber(appendNumber(dst, 1, seconds), 2, nanos)
	}
	return appendNumber(dst, 8, uint64(w.Version))
}

// writeSize returns the size of what appendWrite appends.
func writeSize(w *mainstem.Write) int {
	n := sizeNumber(uint64(w.Op)) + sizeBytes(len(w.Space)) + sizeBytes(len(w.Key)) + sizeNumber(uint64(w.Count)) + sizeNumber(uint64(w.Version))
	if w.Value != nil {
		n += 1 + protowire.SizeBytes(len(w.Value))
	}
	for i := range w.Headers {
		n += 1 + protowire.SizeBytes(headerSize(&w.Headers[i]))
	}
	if w.TTL != 0 {
		seconds, nanos := durationParts(w.TTL)
		n += 1 + protowire.SizeBytes(sizeNumber(seconds)+sizeNumber(nanos))
	}
	return n
}

// Ensured remembers the space that a batch ensured last, as a view does with every batch. The
// zero value is ready, for any number of goroutines.
type Ensured struct{ last atomic.Pointer[ensured] }

type ensured struct {
	message string
	space   mainstem.Ensure
}

// keepEnsure is the size up to which the message of a space is remembered.
const keepEnsure = 4 << 10

// parse returns the space in a message. Its metadata must not be changed.
func (e *Ensured) parse(b []byte) (mainstem.Ensure, error) {
	if last := e.last.Load(); last != nil && last.message == string(b) {
		return last.space, nil
	}
	var m pb.Ensure
	if err := proto.Unmarshal(b, &m); err != nil {
		return mainstem.Ensure{}, err
	}
	p, err := DecodePolicy(m.Policy)
	if err != nil {
		return mainstem.Ensure{}, semantic{err}
	}
	space := mainstem.Ensure{Space: m.Space, Policy: p}
	if len(b) <= keepEnsure {
		e.last.Store(&ensured{string(b), space})
	}
	return space, nil
}

// semantic is an error of what a message means, and not of its bytes.
type semantic struct{ error }

// ParseBatch adds what is in the message of a request to the empty batch b, which then shares
// the bytes of data. Name returns the name of a space as a string. An error that is no
// [mainstem.Error] says why data is no such message.
func ParseBatch(data []byte, b *mainstem.Batch, name func([]byte) string, known *Ensured) error {
	p := batchParser{batch: b, name: name, known: known}
	err := fields(data, p.field)
	if s := (semantic{}); errors.As(err, &s) {
		return mainstem.Refusef(mainstem.KindInvalid, "commit", "%w", s.error)
	}
	return err
}

type batchParser struct {
	batch   *mainstem.Batch
	name    func([]byte) string
	known   *Ensured
	seen    seen // fields of which there is one
	ensures int
}

func (p *batchParser) field(number protowire.Number, f field) error {
	if number == 1 || number == 2 || number == 6 {
		if err := p.seen.add(number, 6); err != nil {
			return err
		}
	}
	want := protowire.BytesType
	if number == 2 {
		want = protowire.VarintType
	}
	if number <= 6 {
		if err := f.want(want); err != nil {
			return err
		}
	}
	switch number {
	case 1:
		p.batch.ID = string(f.bytes)
	case 2:
		p.batch.Durability = mainstem.Durability(protowire.DecodeZigZag(f.number))
	case 3:
		return p.ensure(f.bytes)
	case 4:
		return p.condition(f.bytes)
	case 5:
		return p.write(f.bytes)
	case 6:
		return parseTime(&p.batch.Time, "time", f)
	}
	return nil
}

func (p *batchParser) ensure(b []byte) error {
	if p.ensures++; p.ensures > MaxEnsures {
		return semantic{fmt.Errorf("the batch ensures more spaces than the limit of %d; split it", MaxEnsures)}
	}
	e, err := p.known.parse(b)
	if s := (semantic{}); errors.As(err, &s) {
		return semantic{fmt.Errorf("space %d to ensure: %w", p.ensures-1, s.error)}
	}
	if err == nil {
		p.batch.Ensure(e.Space, e.Policy)
	}
	return err
}

func (p *batchParser) condition(b []byte) error {
	var c mainstem.Condition
	met := seen(0)
	err := fields(b, func(number protowire.Number, f field) (err error) {
		if err := met.add(number, 5); err != nil {
			return err
		}
		switch number {
		case 1:
			c.Space, err = p.space(f)
			return err
		case 2:
			c.Key = f.bytes
			return f.want(protowire.BytesType)
		case 3:
			if test := int32(f.number); test < 0 || test > int32(pb.Test_TEST_NOT_AFTER) { //nolint:gosec // an enum
				return semantic{fmt.Errorf("condition %d: test %d is not one that this version knows", len(p.batch.Conditions()), test)}
			}
			c.Test = mainstem.Test(f.number) //nolint:gosec // checked
			return f.want(protowire.VarintType)
		case 4:
			c.Version = mainstem.Version(f.number)
			return f.want(protowire.VarintType)
		case 5:
			c.Position = mainstem.Position(f.number)
			return f.want(protowire.VarintType)
		}
		return nil
	})
	if err == nil {
		p.batch.If(c)
	}
	return err
}

func (p *batchParser) write(b []byte) error {
	var w mainstem.Write
	met := seen(0)
	err := fields(b, func(number protowire.Number, f field) (err error) {
		if number != 5 { // there may be many headers
			if err := met.add(number, 8); err != nil {
				return err
			}
		}
		switch number {
		case 1:
			if op := int32(f.number); op < 0 || op > int32(pb.Op_OP_REMOVE) { //nolint:gosec // an enum
				return semantic{fmt.Errorf("write %d: operation %d is not one that this version knows", p.batch.Len(), op)}
			}
			w.Op = mainstem.Op(f.number) //nolint:gosec // checked
			return f.want(protowire.VarintType)
		case 2:
			w.Space, err = p.space(f)
			return err
		case 3:
			w.Key = f.bytes
			return f.want(protowire.BytesType)
		case 4:
			w.Value = f.bytes
			return f.want(protowire.BytesType)
		case 5:
			h, err := parseHeader(f)
			w.Headers = append(w.Headers, h)
			return err
		case 6:
			w.Count = uint32(f.number) //nolint:gosec // what the wire cuts off, too
			return f.want(protowire.VarintType)
		case 7:
			return p.ttl(&w, f)
		case 8:
			w.Version = mainstem.Version(f.number)
			return f.want(protowire.VarintType)
		}
		return nil
	})
	if err == nil {
		p.batch.Add(w)
	}
	return err
}

func (p *batchParser) ttl(w *mainstem.Write, f field) (err error) {
	if err := f.want(protowire.BytesType); err != nil {
		return err
	}
	var d durationpb.Duration
	if err := proto.Unmarshal(f.bytes, &d); err != nil {
		return err
	}
	if w.TTL, err = decodeDuration("ttl", &d); err != nil {
		return semantic{fmt.Errorf("write %d: %w", p.batch.Len(), err)}
	}
	return nil
}

func (p *batchParser) space(f field) (string, error) {
	if !utf8.Valid(f.bytes) {
		return "", errors.New("the space is not valid UTF-8")
	}
	return p.name(f.bytes), f.want(protowire.BytesType)
}

// AppendReceipt appends the message of an answer with r.
func AppendReceipt(dst []byte, r *mainstem.Receipt) []byte {
	dst = appendNumber(dst, 1, uint64(r.First))
	dst = appendNumber(dst, 2, uint64(r.Last))
	dst = appendTime(dst, 3, r.Time)
	if len(r.Versions) > 0 {
		size := 0
		for _, v := range r.Versions {
			size += protowire.SizeVarint(uint64(v))
		}
		dst = protowire.AppendTag(dst, 4, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(size)) //nolint:gosec // not negative
		for _, v := range r.Versions {
			dst = protowire.AppendVarint(dst, uint64(v))
		}
	}
	return appendNumber(dst, 5, protowire.EncodeBool(r.Duplicate))
}

// ParseReceipt returns the receipt in an answer.
func ParseReceipt(b []byte) (r mainstem.Receipt, err error) {
	met := seen(0)
	err = fields(b, func(number protowire.Number, f field) error {
		if err := met.add(number, 5); err != nil {
			return err
		}
		switch number {
		case 1:
			r.First = mainstem.Position(f.number)
			return f.want(protowire.VarintType)
		case 2:
			r.Last = mainstem.Position(f.number)
			return f.want(protowire.VarintType)
		case 3:
			return parseTime(&r.Time, "time", f)
		case 4:
			if err := f.want(protowire.BytesType); err != nil {
				return err
			}
			r.Versions, err = parseVersions(f.bytes)
			return err
		case 5:
			r.Duplicate = protowire.DecodeBool(f.number)
			return f.want(protowire.VarintType)
		}
		return nil
	})
	if err != nil {
		return mainstem.Receipt{}, mainstem.Refusef(mainstem.KindInvalid, "commit", "%w", err)
	}
	return r, nil
}

// parseVersions returns the numbers that are packed in b.
func parseVersions(b []byte) (versions []mainstem.Version, err error) {
	ends := 0 // bytes that end a number
	for _, c := range b {
		if c < 0x80 {
			ends++
		}
	}
	if ends > 0 {
		versions = make([]mainstem.Version, 0, ends)
	}
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		versions, b = append(versions, mainstem.Version(v)), b[n:]
	}
	return versions, nil
}

// durationParts returns the fields of the message of d, as durationpb.New has them.
func durationParts(d time.Duration) (seconds, nanos uint64) {
	return uint64(d / time.Second), uint64(d % time.Second) //nolint:gosec // two's complement is what the wire has
}
