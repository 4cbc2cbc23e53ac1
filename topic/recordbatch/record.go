package recordbatch

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Record is one record of a batch. Records of a [Decoder] are lent: see there.
type Record struct {
	Offset    int64
	Timestamp int64  // milliseconds since 1970; [NoTimestamp] if it has none
	Key       []byte // nil is null
	Value     []byte // nil is null: on a compacted topic, a tombstone
	Headers   []Header
}

// Header is one name and value of a record. Names may repeat.
type Header struct {
	Key   string
	Value []byte // nil is null
}

// Clone returns a copy of r that shares no memory with it.
func (r Record) Clone() Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	r.Headers = CloneHeaders(r.Headers)
	return r
}

// CloneHeaders returns a copy of headers that shares no memory with it.
func CloneHeaders(headers []Header) []Header {
	out := slices.Clone(headers)
	for i := range out {
		out[i].Value = bytes.Clone(out[i].Value)
	}
	return out
}

// raw is one encoded record of a batch. Its slices alias the batch.
type raw struct {
	all         []byte // with its length prefix
	tail        []byte // from the offset delta on, which does not depend on the base timestamp
	attributes  int8
	timeDelta   int64
	offsetDelta int32
	key, value  []byte
	headers     []byte // the headers after their number
	numHeaders  int32
}

var errShort = errors.New("it is shorter than it says")

// split decodes the first record of body into r and returns the rest of body. Headers are checked
// but not decoded.
func (r *raw) split(body []byte) (rest []byte, err error) {
	if rest, ok := r.splitShort(body); ok {
		return rest, nil
	}
	return r.splitAny(body)
}

// splitShort is split for records whose varints have one or two bytes each, as those below 8 KiB
// have. It returns false for all others, and for what splitAny refuses.
func (r *raw) splitShort(body []byte) (rest []byte, ok bool) {
	size, at := short(body, 0)
	end := at + size
	if size < 1 || end > len(body) {
		return nil, false
	}
	all := body[:end]
	r.all, r.attributes = all, int8(all[at])
	delta, at := short(all, at+1)
	r.timeDelta, r.tail = int64(delta), all[min(at, end):]
	delta, at = short(all, at)
	r.offsetDelta = int32(delta)
	r.key, at = shortBytes(all, at)
	r.value, at = shortBytes(all, at)
	n, at := short(all, at)
	r.numHeaders, r.headers = int32(n), all[min(at, end):]
	for ; n > 0 && at < end; n-- {
		if size, at = short(all, at); size < 0 {
			return nil, false
		}
		_, at = shortBytes(all, at+size)
	}
	return body[end:], n == 0 && at == end
}

// beyond is where the next byte is after something that short or shortBytes has not read: behind the
// end of b, for all that is read after it too.
const beyond = math.MaxInt / 2

// short returns the varint at b[at], if it has one or two bytes, and where the next byte is.
func short(b []byte, at int) (v, next int) {
	if at < len(b) {
		u := uint(b[at])
		if u < 0x80 {
			return int(u>>1) ^ -int(u&1), at + 1
		}
		if at+1 < len(b) && b[at+1] < 0x80 {
			u = u&0x7f | uint(b[at+1])<<7
			return int(u>>1) ^ -int(u&1), at + 2
		}
	}
	return 0, beyond
}

// shortBytes returns the bytes at b[at], whose length stands before them, and where the next byte is.
// A negative length means nil.
func shortBytes(b []byte, at int) (v []byte, next int) {
	n, at := short(b, at)
	if n < 0 {
		return nil, at
	}
	if at+n > len(b) {
		return nil, beyond
	}
	return b[at : at+n : at+n], at + n
}

// splitAny is split for all records.
func (r *raw) splitAny(body []byte) (rest []byte, err error) {
	length, n := kbin.Varint(body)
	if n <= 0 || length < 0 || int(length) > len(body)-n {
		return nil, errShort
	}
	r.all, rest = body[:n+int(length)], body[n+int(length):]
	in := kbin.Reader{Src: r.all[n:]}
	r.attributes = in.Int8()
	r.timeDelta = in.Varlong()
	r.tail = in.Src
	r.offsetDelta = in.Varint()
	r.key = in.VarintBytes()
	r.value = in.VarintBytes()
	r.numHeaders = in.Varint()
	r.headers = in.Src
	if !in.Ok() {
		return nil, errShort
	}
	if r.numHeaders < 0 {
		return nil, fmt.Errorf("it has %d headers", r.numHeaders)
	}
	for range r.numHeaders {
		size := in.Varint()
		if size < 0 {
			in.Span(-1)
		}
		in.Span(int(size))
		in.VarintBytes()
		if !in.Ok() {
			return nil, errShort
		}
	}
	if len(in.Src) > 0 {
		return nil, fmt.Errorf("%d bytes follow its headers", len(in.Src))
	}
	return rest, nil
}

// appendHeaders appends the headers of r to dst.
func (r *raw) appendHeaders(dst []Header) []Header {
	in := kbin.Reader{Src: r.headers}
	for range r.numHeaders {
		dst = append(dst, Header{Key: in.VarintString(), Value: in.VarintBytes()})
	}
	return dst
}

// Decoder yields the records of batches. The zero Decoder is ready. It keeps its buffers for the
// next batch, until Reset.
type Decoder struct {
	// Room is called before the decoder allocates: n is the bytes that its buffers for decompressed
	// records will have in all. If Room returns an error, that is the error of the call, as it is.
	// nil allows all, up to about [MaxUncompressed]. n also has the bytes for the headers of a
	// record, if they take more than 64 KiB.
	Room func(n int) error
	// SkipHeaders leaves Record.Headers empty. They are checked all the same.
	SkipHeaders bool

	buf     []byte
	headers []Header // of the record that is lent, if they take at most freeHeaders bytes
}

// headerSize is the memory of a Header, in bytes, without what it refers to. An encoded header may
// have 2 bytes.
const headerSize = 40

// freeHeaders is how many bytes the headers of a record may take without a call of Room.
const freeHeaders = 64 << 10

// Records yields the records of the one batch in data, in order. Their offsets begin at base. It
// checks the CRC. A record is lent until the loop body returns. An error ends the sequence: that of
// Room, or an [*Error] of reason Corrupt, OldFormat, UnknownCodec or BadRecord.
func (d *Decoder) Records(data []byte, base int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		b, body, err := d.open(data)
		if err != nil {
			yield(Record{}, err)
			return
		}
		b.FirstOffset = base
		for r, err := range b.raws(body) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			rec := b.record(r)
			if r.numHeaders > 0 && !d.SkipHeaders {
				if rec.Headers, err = d.decodeHeaders(r); err != nil {
					yield(Record{}, err)
					return
				}
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// raws yields the records of b, which are encoded in body. Their offset deltas must rise and be at
// most the last offset delta of b. A record is lent until the loop body returns. An error ends the
// sequence.
func (b *Batch) raws(body []byte) iter.Seq2[*raw, error] {
	return func(yield func(*raw, error) bool) {
		var r raw
		var err error
		last := int32(-1)
		for i := range b.NumRecords {
			if body, err = r.split(body); err == nil && (r.offsetDelta <= last || r.offsetDelta > b.LastOffsetDelta) {
				err = fmt.Errorf("offset delta %d after %d, at most %d", r.offsetDelta, last, b.LastOffsetDelta)
			}
			if err != nil {
				yield(nil, errorf(BadRecord, "record %d of %d: %v", i, b.NumRecords, err))
				return
			}
			last = r.offsetDelta
			if !yield(&r, nil) {
				return
			}
		}
		if len(body) > 0 {
			yield(nil, errorf(BadRecord, "%d bytes follow the last of %d records", len(body), b.NumRecords))
		}
	}
}

// decodeHeaders returns the headers of r, in d.headers unless they are large.
func (d *Decoder) decodeHeaders(r *raw) ([]Header, error) {
	n := int(r.numHeaders)
	size := n*headerSize + len(r.headers) // names are copied
	if size <= freeHeaders {
		d.headers = r.appendHeaders(d.headers[:0])
		return d.headers, nil
	}
	if d.Room != nil {
		if err := d.Room(cap(d.buf) + size); err != nil {
			return nil, err
		}
	}
	return r.appendHeaders(make([]Header, 0, n)), nil
}

// record returns r with its offset and timestamp, without headers.
func (b *Batch) record(r *raw) Record {
	return Record{
		Offset:    b.FirstOffset + int64(r.offsetDelta),
		Timestamp: b.timestamp(r.timeDelta),
		Key:       r.key,
		Value:     r.value,
	}
}

// timestamp returns the timestamp of the record with the given timestamp delta.
func (b *Batch) timestamp(delta int64) int64 {
	if b.LogAppendTime() {
		return b.MaxTimestamp
	}
	if b.FirstTimestamp == NoTimestamp {
		return NoTimestamp
	}
	return b.FirstTimestamp + delta
}

// open checks the header and the CRC of data, and returns its header and its decompressed records.
func (d *Decoder) open(data []byte) (Batch, []byte, error) {
	b, err := Parse(data)
	if err != nil {
		return b, nil, err
	}
	if !Intact(data) {
		return b, nil, errorf(Corrupt, "CRC-32C is %08x, the batch says %08x", Checksum(data), uint32(b.CRC))
	}
	if b.Codec() == None {
		return b, b.Records, nil
	}
	if b.Codec() > Zstd {
		return b, nil, errorf(UnknownCodec, "codec %d", b.Codec())
	}
	body, err := decompress(d.buf[:0], b.Records, b.Codec(), MaxUncompressed, d.Room)
	if err != nil {
		d.buf = nil
		return b, nil, undecodable(b.Codec(), err)
	}
	d.buf = body
	return b, body, nil
}

// Reset drops the buffers of the decoder. Room is not called.
func (d *Decoder) Reset() { d.buf, d.headers = nil, nil }
