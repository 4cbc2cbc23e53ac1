package format

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Space is the description of a space: the value of an 'S' key.
//
//	uvarint id, 8 LE created (unix ns), uvarint history, uvarint max age (ns),
//	uvarint max bytes, varint tombstone age (ns), 1 flags (1 = no feed),
//	uvarint n, n times: uvarint length, name, uvarint length, value (sorted by name)
type Space struct {
	ID      uint32
	Created int64
	Policy  mainstem.Policy
}

const flagNoFeed = 1

// AppendSpace appends s.
func AppendSpace(dst []byte, s *Space) []byte {
	p := &s.Policy
	dst = binary.AppendUvarint(dst, uint64(s.ID))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.Created))
	dst = binary.AppendUvarint(dst, uint64(p.History))
	dst = binary.AppendUvarint(dst, uint64(p.MaxAge))
	dst = binary.AppendUvarint(dst, uint64(p.MaxBytes))
	dst = binary.AppendVarint(dst, int64(p.TombstoneAge))
	var flags byte
	if p.NoFeed {
		flags |= flagNoFeed
	}
	dst = append(dst, flags)
	names := make([]string, 0, len(p.Metadata))
	for name := range p.Metadata {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, name := range names {
		dst = appendString(appendString(dst, name), p.Metadata[name])
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// DecodeSpace is the inverse of [AppendSpace].
func DecodeSpace(p []byte) (Space, error) {
	r := reader{p: p}
	id := r.uvarint()
	s := Space{ID: uint32(id), Created: int64(r.fixed64())}
	history, age, size := r.uvarint(), r.uvarint(), r.uvarint()
	tomb, n := binary.Varint(r.rest())
	if r.bad || n <= 0 || id > math.MaxUint32 || history > mainstem.MaxHistory || age > math.MaxInt64 || size > math.MaxInt64 {
		return Space{}, ErrCorrupt
	}
	r.at += n
	flags := r.bytes(1)
	count := r.uvarint()
	if r.bad || count > uint64(r.left()) {
		return Space{}, ErrCorrupt
	}
	s.Policy = mainstem.Policy{
		History: int(history), MaxAge: time.Duration(age), MaxBytes: int64(size),
		TombstoneAge: time.Duration(tomb), NoFeed: flags[0]&flagNoFeed != 0,
	}
	if count > 0 {
		s.Policy.Metadata = make(map[string]string, count)
	}
	for range count {
		name := r.bytes(r.uvarint())
		s.Policy.Metadata[string(name)] = string(r.bytes(r.uvarint()))
	}
	if r.bad || r.left() != 0 {
		return Space{}, ErrCorrupt
	}
	return s, nil
}

// Totals counts what a space holds: the value of a 'T' key, written with every
// commit that touches the space.
//
//	uvarint last position, uvarint keys, uvarint records, uvarint bytes,
//	uvarint floor, 8 LE updated (unix ns), since format 2 [8 LE clock (unix ns)]
type Totals struct {
	Last    uint64 // position of the newest record ever committed
	Keys    int64
	Records int64
	Bytes   int64
	Floor   uint64 // versions of forgotten keys are at most this: new keys begin above it
	Updated int64  // time of the last commit
	Clock   int64  // what the clock showed at the last commit; 0 stands for Updated, and is never decoded
}

// AppendTotals appends t.
func AppendTotals(dst []byte, t *Totals) []byte {
	dst = binary.AppendUvarint(dst, t.Last)
	dst = binary.AppendUvarint(dst, uint64(t.Keys))
	dst = binary.AppendUvarint(dst, uint64(t.Records))
	dst = binary.AppendUvarint(dst, uint64(t.Bytes))
	dst = binary.AppendUvarint(dst, t.Floor)
	return appendTimes(dst, t.Updated, t.Clock)
}

// appendTimes appends a time and, if it is another, what the clock showed.
func appendTimes(dst []byte, at, clock int64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(at))
	if clock == 0 || clock == at {
		return dst
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(clock))
}

// times reads what appendTimes appended: the end of r.
func (r *reader) times() (at, clock int64) {
	at = int64(r.fixed64())
	if r.left() == 0 {
		return at, at
	}
	if clock = int64(r.fixed64()); clock == 0 || clock == at {
		r.fail()
	}
	return at, clock
}

// DecodeTotals is the inverse of [AppendTotals].
func DecodeTotals(p []byte) (Totals, error) {
	r := reader{p: p}
	t := Totals{Last: r.uvarint(), Keys: int64(r.uvarint()), Records: int64(r.uvarint()), Bytes: int64(r.uvarint()), Floor: r.uvarint()}
	t.Updated, t.Clock = r.times()
	if r.bad || r.left() != 0 {
		return Totals{}, ErrCorrupt
	}
	return t, nil
}

// Counters is the value of the 'P' key: what dropping a space must not forget.
//
//	uvarint last position, uvarint next space id, 8 LE time (unix ns),
//	since format 2 [8 LE clock (unix ns)]
type Counters struct {
	Last      uint64
	NextSpace uint32
	Time      int64
	Clock     int64 // as in [Totals]
}

// AppendCounters appends c.
func AppendCounters(dst []byte, c Counters) []byte {
	dst = binary.AppendUvarint(dst, c.Last)
	dst = binary.AppendUvarint(dst, uint64(c.NextSpace))
	return appendTimes(dst, c.Time, c.Clock)
}

// DecodeCounters is the inverse of [AppendCounters].
func DecodeCounters(p []byte) (Counters, error) {
	r := reader{p: p}
	last, next := r.uvarint(), r.uvarint()
	c := Counters{Last: last, NextSpace: uint32(next)}
	c.Time, c.Clock = r.times()
	if r.bad || r.left() != 0 || next > math.MaxUint32 {
		return Counters{}, ErrCorrupt
	}
	return c, nil
}

// AppendFrameNumber appends the value of the 'n' key: the number n, as a uvarint.
func AppendFrameNumber(dst []byte, n uint64) []byte { return binary.AppendUvarint(dst, n) }

// DecodeFrameNumber is the inverse of [AppendFrameNumber].
func DecodeFrameNumber(p []byte) (uint64, error) {
	r := reader{p: p}
	n := r.uvarint()
	if r.bad || r.left() != 0 {
		return 0, ErrCorrupt
	}
	return n, nil
}

// Receipt is the value of an 'i' key.
//
//	uvarint first, uvarint last, 8 LE time (unix ns), uvarint n, n times uvarint version
type Receipt struct {
	First, Last uint64
	Time        int64
	Versions    []mainstem.Version
}

// AppendReceipt appends c.
func AppendReceipt(dst []byte, c *Receipt) []byte {
	dst = binary.AppendUvarint(dst, c.First)
	dst = binary.AppendUvarint(dst, c.Last)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Time))
	dst = binary.AppendUvarint(dst, uint64(len(c.Versions)))
	for _, v := range c.Versions {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	return dst
}

// DecodeReceipt is the inverse of [AppendReceipt].
func DecodeReceipt(p []byte) (Receipt, error) {
	r := reader{p: p}
	c := Receipt{First: r.uvarint(), Last: r.uvarint(), Time: int64(r.fixed64())}
	n := r.uvarint()
	if r.bad || n > uint64(r.left()) {
		return Receipt{}, ErrCorrupt
	}
	c.Versions = make([]mainstem.Version, n)
	for i := range c.Versions {
		c.Versions[i] = mainstem.Version(r.uvarint())
	}
	if r.bad || r.left() != 0 {
		return Receipt{}, ErrCorrupt
	}
	return c, nil
}
