package topic

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
)

// The spaces of this view.
const (
	// SpacePrefix begins the name of every topic's space.
	SpacePrefix = "topic/"
	// IndexSpace holds what is known about the partitions of all topics: where each
	// begins, and summaries of its batches. It is not in feeds.
	IndexSpace = "topic.index"
)

// Space returns the name of the space that holds the topic called name.
func Space(name string) string { return SpacePrefix + name }

// Keys of a topic's space. All numbers are big-endian.
//
//	00-7f …    4 bytes: the partition; its records are record batches
//	ff meta    the topic's description, in JSON; every version of it is kept
//	ff id ID   no value; exists as long as this topic, and no other of its name, does
//
// The first byte of a partition is at most 7f, because partitions are not
// negative: below the end of this range are exactly the partitions.
var (
	partitionsEnd = []byte{0x80}
	metaKey       = []byte("\xffmeta")
)

func idKey(id ID) []byte { return append([]byte("\xffid"), id[:]...) }

// partitionOf is the inverse of [partition.Key]; false for any other key.
func partitionOf(key []byte) (int32, bool) {
	if len(key) != 4 || key[0] >= partitionsEnd[0] {
		return 0, false
	}
	return int32(binary.BigEndian.Uint32(key)), true
}

// meta is the value of the meta key.
type meta struct {
	Format     int       `json:"format"` // metaFormat
	ID         ID        `json:"id"`
	Partitions int32     `json:"partitions"`
	Config     Config    `json:"config,omitempty"`
	Created    time.Time `json:"created"`
}

const metaFormat = 1

func (m *meta) encode() []byte {
	m.Format = metaFormat
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers and a time of this century always encode
	}
	return b
}

func decodeMeta(b []byte) (meta, error) {
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("the topic's description: %w", err)
	}
	if m.Format != metaFormat {
		return m, fmt.Errorf("the topic's description has format %d: this version reads %d", m.Format, metaFormat)
	}
	if m.Partitions < 1 || m.Partitions > MaxPartitions {
		return m, fmt.Errorf("the topic's description has %d partitions", m.Partitions)
	}
	return m, nil
}

// Keys of the index space.
//
//	topic ID (16)  partition (4)             the partition's state
//	topic ID (16)  partition (4)  base (8)   the extent that begins at offset base
var indexPolicy = mainstem.Policy{History: 1, NoFeed: true}

func stateKey(id ID, partition int32) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 28), id[:]...), uint32(partition))
}

func extentKey(state []byte, base int64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 28), state...), uint64(base))
}

// extentBase returns the base offset in the key of an extent; prefix is the
// length of the key of a state.
func extentBase(key []byte, prefix int) (int64, error) {
	if len(key) != prefix+8 {
		return 0, fmt.Errorf("a key of %d bytes belongs to no state and to no extent", len(key))
	}
	return int64(binary.BigEndian.Uint64(key[prefix:])), nil
}

const indexFormat = 1

// state is what is known about a partition beyond its batches.
//
//	1 byte format, 8 bytes each: start, cleaned, horizon
type state struct {
	start   int64 // first offset that may be read
	cleaned int64 // below it, compaction has left at most one record of a key
	horizon int64 // ms: the earliest time at which compaction may remove a tombstone; noHorizon if none
}

const noHorizon = math.MaxInt64

const stateSize = 1 + 3*8

func (s state) encode() []byte {
	b := append(make([]byte, 0, stateSize), indexFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(s.start))
	b = binary.BigEndian.AppendUint64(b, uint64(s.cleaned))
	return binary.BigEndian.AppendUint64(b, uint64(s.horizon))
}

func decodeState(b []byte) (state, error) {
	if len(b) != stateSize || b[0] != indexFormat {
		return state{}, fmt.Errorf("the state of a partition is %d bytes: want %d of format %d", len(b), stateSize, indexFormat)
	}
	s := state{
		start:   int64(binary.BigEndian.Uint64(b[1:])),
		cleaned: int64(binary.BigEndian.Uint64(b[9:])),
		horizon: int64(binary.BigEndian.Uint64(b[17:])),
	}
	if s.start < 0 || s.cleaned < 0 {
		return state{}, fmt.Errorf("the state of a partition has the start %d and is compacted up to %d", s.start, s.cleaned)
	}
	return s, nil
}

// extent summarises the batches in a run of offsets.
//
//	1 byte format, 8 bytes each: next, bytes, batches, newest, stamp, stamped
type extent struct {
	base, next int64 // the offsets from base on, below next
	bytes      int64 // of the batches
	batches    int64
	newest     int64 // ms: the newest batch time, see batchTime
	stamp      int64 // ms: the newest timestamp of a record, or NoTimestamp
	stamped    int64 // base offset of the first batch with that timestamp

	saved bool // it is in the index space as it is here
}

const extentSize = 1 + 6*8

func (e *extent) encode() []byte {
	b := append(make([]byte, 0, extentSize), indexFormat)
	for _, n := range [...]int64{e.next, e.bytes, e.batches, e.newest, e.stamp, e.stamped} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func decodeExtent(base int64, b []byte) (extent, error) {
	if len(b) != extentSize || b[0] != indexFormat {
		return extent{}, fmt.Errorf("the extent at offset %d is %d bytes: want %d of format %d", base, len(b), extentSize, indexFormat)
	}
	e := extent{base: base, saved: true}
	for i, n := range [...]*int64{&e.next, &e.bytes, &e.batches, &e.newest, &e.stamp, &e.stamped} {
		*n = int64(binary.BigEndian.Uint64(b[1+8*i:]))
	}
	if base < 0 || e.next <= base || e.bytes < 0 || e.batches < 0 {
		return extent{}, fmt.Errorf("the extent at offset %d ends at %d with %d batches of %d bytes", base, e.next, e.batches, e.bytes)
	}
	return e, nil
}
