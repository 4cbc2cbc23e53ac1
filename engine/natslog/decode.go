package natslog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// errFrame is the cause of every error of decoding.
var errFrame = errors.New("a message of the stream is not what this engine writes")

// piece is a decoded part.
type piece struct {
	frame
	part, parts uint32
	base        uint64 // position before its first record
}

// decodeHeader decodes the value of the header of a message.
func decodeHeader(value string) (piece, error) {
	meta, err := base64.RawStdEncoding.DecodeString(value)
	if err != nil {
		return piece{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	return decodePart(meta)
}

// decodePart is the inverse of [frame.encode]. Keys alias meta.
func decodePart(meta []byte) (piece, error) {
	d := decoder{p: meta}
	version := d.byte()
	if version < frameVersion || version > frameSplit {
		return piece{}, fmt.Errorf("%w: it has version %d, this engine knows %d to %d", errFrame, version, frameVersion, frameSplit)
	}
	var p piece
	p.part, p.parts = d.uint32(), d.uint32()
	p.nonce, p.time = d.fixed64(), int64(d.fixed64())
	p.head, p.nextID = d.uvarint(), d.uint32()
	p.clock = p.time
	if version >= frameClocked {
		p.clock = d.earlier(p.time)
	}
	if version >= framePassed {
		p.passed = d.later(p.clock)
	}
	p.base = d.uvarint()
	if d.bad || p.part >= p.parts {
		return piece{}, errFrame
	}
	off := uint32(0)
	var prev *fact
	for len(d.p) > 0 && !d.bad {
		p.facts = append(p.facts, fact{part: p.part})
		ft := &p.facts[len(p.facts)-1]
		d.fact(ft, prev, &p.frame, version, p.base)
		if r := ft.rec; r != nil {
			if r.off = off; math.MaxUint32-off < r.len {
				return piece{}, errFrame
			}
			off += r.len
		}
		prev = ft
	}
	if d.bad {
		return piece{}, errFrame
	}
	return p, nil
}

// fact reads one fact into ft.
func (d *decoder) fact(ft, prev *fact, f *frame, version byte, base uint64) {
	kind := d.byte()
	ft.kind, ft.erase = factKind(kind&^factErase), kind&factErase != 0
	switch ft.kind {
	case factRecord, factRestated:
		d.key(ft, prev)
		d.record(ft, f, version, base)
	case factKey:
		d.key(ft, prev)
		ft.head, ft.floor = d.uvarint(), d.uvarint()
	case factHole:
		d.key(ft, prev)
		ft.version = d.uvarint()
	case factSpace:
		ft.name = string(d.bytes())
		def, err := format.DecodeSpace(d.bytes())
		if err != nil || ft.name == "" {
			d.bad = true
		}
		ft.def, ft.space = def, def.ID
		ft.last, ft.floor, ft.updated = d.uvarint(), d.uvarint(), int64(d.fixed64())
	case factDrop:
		ft.space = d.uint32()
	case factReceipt:
		id := string(d.bytes())
		r, err := format.DecodeReceipt(d.bytes())
		if err != nil || id == "" {
			d.bad = true
		}
		ft.receipt = &receipt{id: id, first: r.First, last: r.Last, time: r.Time, versions: r.Versions}
	default:
		d.bad = true
	}
}

// record reads the fields of a record.
func (d *decoder) record(ft *fact, f *frame, version byte, base uint64) {
	r := &record{version: d.uvarint(), pos: d.uvarint(), count: d.uint32()}
	expires := d.uvarint()
	if ft.kind == factRecord {
		r.pos += base
		r.time, r.clock = f.time, f.clock
		if expires != 0 {
			expires += uint64(f.clock)
		}
		below := d.uvarint()
		ft.floor = r.version + 1 - below
		d.bad = d.bad || below > r.version+1
	}
	size, length := d.uvarint(), d.uint32()
	if ft.kind == factRestated {
		r.time = int64(d.fixed64())
		r.clock = r.time
		if version >= frameClocked {
			r.clock = d.earlier(r.time)
		}
	}
	r.expires, r.size, r.len = int64(expires), int64(size), length
	r.tomb = mainstem.Tombstone(d.byte())
	d.bad = d.bad || r.version == 0 || r.pos == 0 || r.count == 0 || uint64(r.count) > r.version ||
		r.version == math.MaxUint64 || expires > math.MaxInt64 || size > math.MaxInt64 || r.tomb > mainstem.Expired
	ft.rec = r
}

// earlier reads a lag and returns the moment that is earlier than time by that.
func (d *decoder) earlier(time int64) int64 {
	lag := d.uvarint()
	if lag > math.MaxInt64 || time < math.MinInt64+int64(lag) {
		d.bad = true
		return time
	}
	return time - int64(lag)
}

// later reads by how much a moment is later than clock, and returns it, 0 if there is none.
func (d *decoder) later(clock int64) int64 {
	lead := d.uvarint()
	if lead == 0 {
		return 0
	}
	if lead > math.MaxInt64 || clock > math.MaxInt64-int64(lead) {
		d.bad = true
		return 0
	}
	return clock + int64(lead)
}

// decoder walks bytes; whatever is malformed makes it bad.
type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.p)) {
		d.bad = true
		return nil
	}
	b := d.p[:n:n]
	d.p = d.p[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.p)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.p = d.p[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	d.bad = d.bad || v > math.MaxUint32
	return uint32(v)
}

func (d *decoder) fixed64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *decoder) key(ft, prev *fact) {
	if ft.key = d.bytes(); len(ft.key) > 0 {
		ft.space = d.uint32()
		return
	}
	if prev == nil || len(prev.key) == 0 {
		d.bad = true
		return
	}
	ft.key, ft.space = prev.key, prev.space
}
