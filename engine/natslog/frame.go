package natslog

import (
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// A message of the stream is one part of a frame; nearly every frame has one part. A part
// ends before a fact with which its headers would pass what a server takes, maxHeaders.
// The header "Mainstem" holds what every process must know, in base64:
//
//	+--------+---------+---------+-------+---------+---------+------------+----------
//	| 1 to 4 | part    | parts   | nonce | time    | head    | next space | facts ...
//	| fixed  | uvarint | uvarint | 8 LE  | 8 LE ns | uvarint | uvarint    |
//	+--------+---------+---------+-------+---------+---------+------------+----------
//
// The payload holds the bodies of the records among the facts, one after the other,
// as package format writes them. A fact begins with one byte:
//
//	1 record    key ref, uvarint version, position-head', count, expires-time (0: never), version+1-floor, size, body length, 1 tombstone
//	2 restated  key ref, uvarint version, position, count, expires, size, body length, 8 LE time, 1 tombstone
//	3 key       key ref, uvarint head, floor
//	4 hole      key ref, uvarint version
//	5 space     uvarint length, name; uvarint length, format.Space; uvarint last, floor; 8 LE updated
//	6 drop      uvarint space
//	7 receipt   uvarint length, batch ID; uvarint length, format.Receipt
//
// head' is the position before the first record of the part: one more uvarint between
// next space and facts. A key ref is uvarint length of the key, the
// key, uvarint space; length 0 stands for the key of the fact before. The bit 0x80 of
// the first byte says that what the fact supersedes is to be overwritten on disk.
//
// Version 2 is for frames with records that were written while the clock was behind their
// time: by how much, the lag, is a uvarint between next space and head' for the records of
// kind 1, and one after the 8 LE time of those of kind 2. Expiries of kind 1 count from
// the clock. Older programs, which know version 1 alone, cannot read them.
//
// Version 3 is version 2 for frames that were written after the clock had passed an earlier
// reading and was set back again, with no frame in between: by how much that reading is
// later than the clock is a uvarint after the lag. Programs from before it cannot read them.
//
// Version 4 is version 3, with 0 if there was no such reading, for frames with a receipt that
// has more versions than one fact holds: facts of kind 7 with the same ID follow each other,
// each with some of the versions, in their order. They may lie in several parts. Programs from
// before it refuse them.
const (
	frameVersion = 1
	frameClocked = 2
	framePassed  = 3
	frameSplit   = 4
)

// header is the name of the message header that holds the facts.
const header = "Mainstem"

type factKind uint8

const (
	factRecord   factKind = 1
	factRestated factKind = 2 // a record that moved or was rewritten
	factKey      factKind = 3
	factHole     factKind = 4 // a record was removed
	factSpace    factKind = 5
	factDrop     factKind = 6
	factReceipt  factKind = 7

	factErase = 0x80
)

// fact is one thing that the log states.
type fact struct {
	kind    factKind
	erase   bool
	part    uint32
	space   uint32
	key     []byte
	version uint64 // factHole
	head    uint64 // factKey
	floor   uint64 // factKey, factRecord, factSpace

	rec     *record
	value   []byte           // of rec, to be encoded
	headers mainstem.Headers // of rec, to be encoded
	body    []byte           // of rec, encoded before

	name    string // factSpace
	def     format.Space
	last    uint64
	updated int64

	receipt *receipt
}

// continues reports whether ft has further versions of the receipt in prev, the fact before it.
func (ft *fact) continues(prev *fact) bool {
	return ft.receipt != nil && prev.receipt != nil && ft.receipt.id == prev.receipt.id
}

// frame is the content of one publish.
type frame struct {
	nonce  uint64
	time   int64  // of the newest record: that of its own records, if it has any
	clock  int64  // what the clock showed when its records were written
	passed int64  // the reading, later than clock, that the clock had passed before it was set back; 0: none
	head   uint64 // position of the newest record
	nextID uint32
	facts  []fact
}

// part is one message of a frame, encoded.
type part struct {
	meta    []byte
	payload []byte
}

// encodedLen is how many bytes of a message n bytes of facts take.
func encodedLen(n int) int { return base64.RawStdEncoding.EncodedLen(n) }

// envelope is what a message needs beside facts and bodies: the names and values of headers.
const envelope = 512

// factRoom bounds the bytes of a fact beside its key.
const factRoom = 128

// maxHeaders bounds the bytes of the headers of a message: no server takes more.
const maxHeaders = 1<<16 - 1

// fits reports whether a message may have that many bytes of facts and of bodies.
func fits(facts, bodies, limit int) bool {
	headers := encodedLen(facts+factRoom) + envelope
	return headers <= maxHeaders && headers+bodies <= limit
}

// encode makes the messages of f, none of which is larger than limit. It sets the
// parts of the facts and the offsets of their records.
func (f *frame) encode(limit int, before uint64) []part {
	version := f.version()
	cur := &building{version: version, base: before, clock: f.clock}
	all := []*building{cur}
	var prev *fact
	for i := range f.facts {
		ft := &f.facts[i]
		n, m := len(cur.facts), len(cur.payload)
		cur.append(ft, prev)
		if n+m > 0 && !fits(len(cur.facts), len(cur.payload), limit) {
			cur.facts, cur.payload = cur.facts[:n], cur.payload[:m]
			cur = &building{version: version, base: before, clock: f.clock}
			all = append(all, cur)
			cur.append(ft, nil)
		}
		ft.part = uint32(len(all) - 1)
		if ft.kind == factRecord {
			before = ft.rec.pos
		}
		prev = ft
	}
	parts := make([]part, len(all))
	for i, b := range all {
		meta := make([]byte, 0, len(b.facts)+64)
		meta = append(meta, version)
		meta = binary.AppendUvarint(meta, uint64(i))
		meta = binary.AppendUvarint(meta, uint64(len(all)))
		meta = binary.LittleEndian.AppendUint64(meta, f.nonce)
		meta = binary.LittleEndian.AppendUint64(meta, uint64(f.time))
		meta = binary.AppendUvarint(meta, f.head)
		meta = binary.AppendUvarint(meta, uint64(f.nextID))
		if version >= frameClocked {
			meta = binary.AppendUvarint(meta, uint64(f.time-f.clock))
		}
		if version >= framePassed {
			lead := uint64(0)
			if f.passed != 0 {
				lead = uint64(f.passed - f.clock)
			}
			meta = binary.AppendUvarint(meta, lead)
		}
		meta = binary.AppendUvarint(meta, b.base)
		parts[i] = part{meta: append(meta, b.facts...), payload: b.payload}
	}
	return parts
}

// version returns the oldest version that can say what is in f.
func (f *frame) version() byte {
	for i := 1; i < len(f.facts); i++ {
		if f.facts[i].continues(&f.facts[i-1]) {
			return frameSplit
		}
	}
	if f.passed != 0 {
		return framePassed
	}
	lags := func(ft fact) bool { return ft.rec != nil && ft.rec.clock != ft.rec.time }
	if f.clock != f.time || slices.ContainsFunc(f.facts, lags) {
		return frameClocked
	}
	return frameVersion
}

// building is a part in the making.
type building struct {
	version        byte
	facts, payload []byte
	base           uint64 // position before its first record
	clock          int64  // of the frame
}

// append adds ft, which follows prev in the same part.
func (b *building) append(ft, prev *fact) {
	kind := byte(ft.kind)
	if ft.erase {
		kind |= factErase
	}
	p := append(b.facts, kind)
	switch ft.kind {
	case factRecord, factRestated:
		p = appendKey(p, ft, prev)
		p = b.appendRecord(p, ft)
	case factKey:
		p = appendKey(p, ft, prev)
		p = binary.AppendUvarint(p, ft.head)
		p = binary.AppendUvarint(p, ft.floor)
	case factHole:
		p = appendKey(p, ft, prev)
		p = binary.AppendUvarint(p, ft.version)
	case factSpace:
		p = appendBytes(p, []byte(ft.name))
		p = appendBytes(p, format.AppendSpace(nil, &ft.def))
		p = binary.AppendUvarint(p, ft.last)
		p = binary.AppendUvarint(p, ft.floor)
		p = binary.LittleEndian.AppendUint64(p, uint64(ft.updated))
	case factDrop:
		p = binary.AppendUvarint(p, uint64(ft.space))
	case factReceipt:
		r := ft.receipt
		p = appendBytes(p, []byte(r.id))
		p = appendBytes(p, format.AppendReceipt(nil, &format.Receipt{First: r.first, Last: r.last, Time: r.time, Versions: r.versions}))
	}
	b.facts = p
}

// appendRecord adds the fields of a record to p and its body to the payload.
func (b *building) appendRecord(p []byte, ft *fact) []byte {
	r := ft.rec
	r.off = uint32(len(b.payload))
	if ft.body != nil {
		b.payload = append(b.payload, ft.body...)
	} else {
		body := format.Body{Version: r.version, Position: r.pos, Time: r.time, Expires: r.expires, Count: r.count, Tombstone: r.tomb, Value: ft.value}
		b.payload = format.AppendBody(b.payload, &body, ft.headers)
	}
	r.len = uint32(len(b.payload)) - r.off
	p = binary.AppendUvarint(p, r.version)
	if ft.kind == factRecord {
		p = binary.AppendUvarint(p, r.pos-b.base)
	} else {
		p = binary.AppendUvarint(p, r.pos)
	}
	p = binary.AppendUvarint(p, uint64(r.count))
	if ft.kind == factRecord {
		left := uint64(0)
		if r.expires != 0 {
			left = uint64(r.expires - b.clock)
		}
		p = binary.AppendUvarint(p, left)
		p = binary.AppendUvarint(p, r.version+1-ft.floor)
	} else {
		p = binary.AppendUvarint(p, uint64(r.expires))
	}
	p = binary.AppendUvarint(p, uint64(r.size))
	p = binary.AppendUvarint(p, uint64(r.len))
	if ft.kind == factRestated {
		p = binary.LittleEndian.AppendUint64(p, uint64(r.time))
		if b.version >= frameClocked {
			p = binary.AppendUvarint(p, uint64(r.time-r.clock))
		}
	}
	return append(p, byte(r.tomb))
}

func appendBytes(p, b []byte) []byte {
	return append(binary.AppendUvarint(p, uint64(len(b))), b...)
}

func appendKey(p []byte, ft, prev *fact) []byte {
	if prev != nil && len(prev.key) > 0 && prev.space == ft.space && string(prev.key) == string(ft.key) {
		return append(p, 0)
	}
	return binary.AppendUvarint(appendBytes(p, ft.key), uint64(ft.space))
}
