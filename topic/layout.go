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
	// IndexSpace holds where each partition of each topic starts, and summaries of its batches. It
	// is not in feeds.
	IndexSpace = "topic.index"
)

// Space returns the name of the space that holds the topic called name.
func Space(name string) string { return SpacePrefix + name }

// Keys of a topic's space. All numbers are big-endian.
//
//	00-7f …    4 bytes: the partition; its records are record batches
//	ff meta    the topic's description, in JSON; every version of it is kept
//	ff id ID   no value; exists as long as the topic with this ID
//
// Partitions are not negative, so the first byte of their keys is at most 7f, and the keys below
// partitionsEnd are exactly those of partitions.
var (
	partitionsEnd = []byte{0x80}
	metaKey       = []byte("\xffmeta")
)

func idKey(id ID) []byte { return append([]byte("\xffid"), id[:]...) }

// partitionOf is the inverse of [partition.Key]. It returns false for the keys of no partition.
func partitionOf(key []byte) (int32, bool) {
	if len(key) != 4 || key[0] >= partitionsEnd[0] {
		return 0, false
	}
	return int32(binary.BigEndian.Uint32(key)), true
}

// meta is the description of a topic: the value of metaKey.
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

// Keys of the index space. All numbers are big-endian.
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

// extentBase returns the base offset in the key of an extent. prefix is the length of a state's
// key.
func extentBase(key []byte, prefix int) (int64, error) {
	if len(key) != prefix+8 {
		return 0, fmt.Errorf("a key of %d bytes belongs to no state and to no extent", len(key))
	}
	return int64(binary.BigEndian.Uint64(key[prefix:])), nil
}

const indexFormat = 1

// state is the stored state of a partition that does not follow from its batches. All numbers are
// big-endian.
//
//	1 byte format, 8 bytes each: start, cleaned, horizon
//
// Invariant: start and cleaned never decrease.
type state struct {
	start   int64 // first offset that may be read; older records may still be stored, see setStart
	cleaned int64 // compaction is done below this offset, see cleaning
	horizon int64 // ms since 1970: the earliest delete horizon below cleaned; noHorizon if there is none
}

// noHorizon is the horizon of a partition without a tombstone that waits to be removed.
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

// extent summarizes the batches of a run of offsets. All numbers are big-endian.
//
//	1 byte format, 8 bytes each: next, bytes, batches, newest, stamp, stamped
//
// base is in the key. Offsets of an extent may be missing where compaction removed batches.
type extent struct {
	base, next int64 // it has the offsets from base up to next-1
	bytes      int64 // of the batches, as stored
	batches    int64
	newest     int64 // ms since 1970: the newest time of a batch, see glance
	stamp      int64 // ms since 1970: the newest timestamp of a record, or NoTimestamp
	stamped    int64 // base offset of the first batch with that timestamp; stored, not used

	saved bool // the index space has it as it is here
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
