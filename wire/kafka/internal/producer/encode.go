package producer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mainstemdev/mainstem/topic"
)

// format is the first byte of every value.
const format = 1

// encodeOffset returns the value of a partition's head, or of the first producer id that is not
// reserved:
//
//	format (1) offset or id (8)
func encodeOffset(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{format}, uint64(n))
}

func decodeOffset(b []byte) (int64, error) {
	d := newDecoder(b)
	n := d.int64()
	if d.end(); n < 0 {
		d.fail(fmt.Errorf("the number is %d", n))
	}
	return n, d.err
}

// vagueFlag is the flag of a producer of which only a marker is known.
const vagueFlag = 1

// encode returns the value of a producer of a partition:
//
//	format (1) flags (1) epoch (2) last offset (8) first offset of the open transaction or -1 (8)
//	time in ms (8) count (1), then for each batch, oldest first:
//	last sequence (4) offsets less one (4) base offset (8) log append time or -1 (8)
func (e *producer) encode() []byte {
	b := append(make([]byte, 0, 29+24*e.n), format, 0)
	if e.vague {
		b[1] = vagueFlag
	}
	b = binary.BigEndian.AppendUint16(b, uint16(e.epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(e.last))
	b = binary.BigEndian.AppendUint64(b, uint64(e.first))
	b = binary.BigEndian.AppendUint64(b, uint64(e.time))
	b = append(b, byte(e.n))
	for _, s := range e.window[:e.n] {
		b = binary.BigEndian.AppendUint32(b, uint32(s.lastSeq))
		b = binary.BigEndian.AppendUint32(b, uint32(s.delta))
		b = binary.BigEndian.AppendUint64(b, uint64(s.base))
		b = binary.BigEndian.AppendUint64(b, uint64(s.stamp))
	}
	return b
}

func decodeProducer(pid int64, b []byte) (*producer, error) {
	d := newDecoder(b)
	e := newProducer(pid)
	flags := d.byte()
	e.vague = flags&vagueFlag != 0
	e.epoch, e.last, e.first, e.time = d.int16(), d.int64(), d.int64(), d.int64()
	n := int(d.byte())
	if n > len(e.window) || flags > vagueFlag || e.epoch < 0 || e.last < -1 || e.first < -1 || pid < 0 {
		d.fail(fmt.Errorf("flags %#x, epoch %d, %d batches up to offset %d, a transaction from %d", flags, e.epoch, n, e.last, e.first))
		n = 0
	}
	for e.n = 0; e.n < n; e.n++ {
		e.window[e.n] = sent{lastSeq: d.int32(), delta: d.int32(), base: d.int64(), stamp: d.int64()}
		if s := e.window[e.n]; s.lastSeq < 0 || s.delta < 0 || s.base < 0 {
			d.fail(fmt.Errorf("a batch at offset %d with the last sequence %d and %d offsets", s.base, s.lastSeq, int64(s.delta)+1))
		}
	}
	d.end()
	return e, d.err
}

// encodeAborted returns the value of a run of aborted transactions:
//
//	format (1), then for each: producer id (8) first offset (8) offset of the marker (8)
func encodeAborted(run []Aborted) []byte {
	b := append(make([]byte, 0, 1+24*len(run)), format)
	for _, a := range run {
		b = binary.BigEndian.AppendUint64(b, uint64(a.ProducerID))
		b = binary.BigEndian.AppendUint64(b, uint64(a.First))
		b = binary.BigEndian.AppendUint64(b, uint64(a.Last))
	}
	return b
}

func decodeAborted(b []byte) ([]Aborted, error) {
	d := newDecoder(b)
	if d.err == nil && len(d.rest)%24 != 0 {
		d.fail(fmt.Errorf("%d bytes of aborted transactions of 24 bytes each", len(d.rest)))
	}
	var run []Aborted
	for d.err == nil && len(d.rest) > 0 {
		a := Aborted{ProducerID: d.int64(), First: d.int64(), Last: d.int64()}
		if a.ProducerID < 0 || a.First < 0 || a.Last < a.First {
			d.fail(fmt.Errorf("an aborted transaction of producer %d from %d to %d", a.ProducerID, a.First, a.Last))
		}
		run = append(run, a)
	}
	return run, d.err
}

// implicitFlag is the flag of txnState.implicit.
const implicitFlag = 1

// encode returns the value of a transactional id:
//
//	format (1) status (1) flags (1) producer id (8) epoch (2) last producer id (8) last epoch (2)
//	timeout in ms (4) transactions begun (8) started in ms (8) changed in ms (8)
//	number of topics (4), then for each: ID (16) name (2 + …) number of partitions (4) partitions (4 each)
//	number of groups (4), then for each: name (2 + …)
func (s *txnState) encode() []byte {
	b := []byte{format, byte(s.status), 0}
	if s.implicit {
		b[2] = implicitFlag
	}
	b = binary.BigEndian.AppendUint64(b, uint64(s.pid))
	b = binary.BigEndian.AppendUint16(b, uint16(s.epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(s.lastPID))
	b = binary.BigEndian.AppendUint16(b, uint16(s.lastEpoch))
	b = binary.BigEndian.AppendUint32(b, uint32(s.timeout))
	b = binary.BigEndian.AppendUint64(b, uint64(s.serial))
	b = binary.BigEndian.AppendUint64(b, uint64(s.started))
	b = binary.BigEndian.AppendUint64(b, uint64(s.changed))
	b = s.appendTopics(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.groups)))
	for _, g := range slices.Sorted(maps.Keys(s.groups)) {
		b = appendText(b, g)
	}
	return b
}

func (s *txnState) appendTopics(b []byte) []byte {
	places := s.places()
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.names)))
	for len(places) > 0 {
		n := 1
		for n < len(places) && places[n].id == places[0].id {
			n++
		}
		b = append(b, places[0].id[:]...)
		b = appendText(b, s.names[places[0].id])
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		for _, p := range places[:n] {
			b = binary.BigEndian.AppendUint32(b, uint32(p.num))
		}
		places = places[n:]
	}
	return b
}

func decodeTransaction(b []byte) (*txnState, error) {
	d := newDecoder(b)
	s := &txnState{status: status(d.byte())}
	flags := d.byte()
	s.implicit = flags&implicitFlag != 0
	s.pid, s.epoch, s.lastPID, s.lastEpoch = d.int64(), d.int16(), d.int64(), d.int16()
	s.timeout, s.serial, s.started, s.changed = d.int32(), d.int64(), d.int64(), d.int64()
	if int(s.status) >= len(statusNames) || flags > implicitFlag || s.pid < 0 || s.epoch < 0 || s.timeout < 0 {
		d.fail(fmt.Errorf("status %d, flags %#x, producer id %d, epoch %d, timeout %d", s.status, flags, s.pid, s.epoch, s.timeout))
	}
	for n := d.count(16 + 2 + 4); n > 0 && d.err == nil; n-- {
		id, name := topic.ID(d.bytes(16)), d.text()
		parts := d.count(4)
		if parts == 0 {
			d.fail(errors.New("a topic without partitions"))
		}
		for ; parts > 0 && d.err == nil; parts-- {
			num := d.int32()
			if num < 0 || s.has(place{id, num}) {
				d.fail(fmt.Errorf("partition %d, twice or negative", num))
			}
			s.add(place{id, num}, name)
		}
	}
	for n := d.count(2); n > 0 && d.err == nil; n-- {
		s.addGroup(d.text())
	}
	d.end()
	return s, d.err
}

// encodeOffsets returns the value of the offsets of a group in a transaction:
//
//	format (1) number of the transaction (8), then for each:
//	topic ID (16) topic (2 + …) partition (4) offset (8) leader epoch (4) metadata (2 + …)
//
// The number is txnState.serial: offsets with another are of a transaction that has ended. The
// offset is noOffset if the transaction removes that of the group.
func encodeOffsets(serial int64, offsets map[place]txnOffset) []byte {
	b := binary.BigEndian.AppendUint64([]byte{format}, uint64(serial))
	for _, p := range slices.SortedFunc(maps.Keys(offsets), place.compare) {
		o := offsets[p]
		b = appendText(append(b, p.id[:]...), o.name)
		b = binary.BigEndian.AppendUint32(b, uint32(p.num))
		b = binary.BigEndian.AppendUint64(b, uint64(o.Next))
		b = binary.BigEndian.AppendUint32(b, uint32(o.LeaderEpoch))
		b = appendText(b, o.Metadata)
	}
	return b
}

func decodeOffsets(b []byte) (serial int64, _ map[place]txnOffset, _ error) {
	d := newDecoder(b)
	serial = d.int64()
	offsets := map[place]txnOffset{}
	for d.err == nil && len(d.rest) > 0 {
		p := place{id: topic.ID(d.bytes(16))}
		var o txnOffset
		o.name, p.num = d.text(), d.int32()
		o.Next, o.LeaderEpoch, o.Metadata = d.int64(), d.int32(), d.text()
		if _, twice := offsets[p]; twice || p.num < 0 || o.Next < noOffset {
			d.fail(fmt.Errorf("offset %d of partition %d, twice or out of range", o.Next, p.num))
		}
		offsets[p] = o
	}
	return serial, offsets, d.err
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// decoder decodes a value. After the first error it returns zeros.
type decoder struct {
	rest []byte // not decoded yet
	err  error  // the first error
}

func newDecoder(b []byte) *decoder {
	d := &decoder{rest: b}
	if f := d.byte(); d.err == nil && f != format {
		d.fail(fmt.Errorf("format %d: this version reads %d", f, format))
	}
	return d
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

var noBytes [16]byte

// bytes returns the next n bytes, which share the memory of the value; after an error at most 16
// zeros.
func (d *decoder) bytes(n int) []byte {
	if len(d.rest) < n {
		d.fail(fmt.Errorf("%d bytes are left where %d are wanted", len(d.rest), n))
	}
	if d.err != nil {
		return noBytes[:min(n, len(noBytes))]
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) byte() byte   { return d.bytes(1)[0] }
func (d *decoder) int16() int16 { return int16(binary.BigEndian.Uint16(d.bytes(2))) }
func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.bytes(4))) }
func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.bytes(8))) }

func (d *decoder) text() string {
	n := int(binary.BigEndian.Uint16(d.bytes(2)))
	if d.err != nil {
		return ""
	}
	s := d.bytes(n)
	if d.err != nil {
		return ""
	}
	return string(s)
}

// count decodes the number of elements of at least size bytes each. It fails if so many do not fit
// into the rest.
func (d *decoder) count(size int) int {
	n := int64(uint32(d.int32()))
	if n*int64(size) > int64(len(d.rest)) {
		d.fail(fmt.Errorf("%d things of %d bytes in %d bytes", n, size, len(d.rest)))
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// end fails if bytes are left.
func (d *decoder) end() {
	if len(d.rest) > 0 {
		d.fail(fmt.Errorf("%d bytes are left over", len(d.rest)))
	}
}
