package topic

import (
	"encoding/binary"
	"math/rand/v2"
)

// Partitioner chooses the partition, 0 to n-1, of a record that is produced, or
// [AnyPartition]. A producer calls it with one record at a time.
type Partitioner func(r *Record, n int32) int32

// ByKey returns Kafka's default partitioner: a record with a key goes where the
// murmur2 hash of the key says, so that all clients in all languages agree; records
// without one go together to a partition that changes at random from batch to batch
// (see [Producer]).
func ByKey() Partitioner {
	return func(r *Record, n int32) int32 {
		if r.Key == nil {
			return AnyPartition
		}
		return KeyPartition(r.Key, n)
	}
}

// ByPartition returns a partitioner that sends records where their Partition says.
func ByPartition() Partitioner {
	return func(r *Record, n int32) int32 { return r.Partition }
}

// RoundRobin returns a partitioner that takes turns, whatever the key.
func RoundRobin() Partitioner {
	next := rand.Uint32()
	return func(_ *Record, n int32) int32 {
		next++
		return int32(next % uint32(n))
	}
}

// AnyPartition leaves the choice to the producer, which fills one batch of one
// partition before it goes to another.
const AnyPartition = -1

// KeyPartition returns the partition, of n, to which Kafka's default partitioner
// sends a key.
func KeyPartition(key []byte, n int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % n
}

// murmur2 is MurmurHash2 with the seed of Kafka's clients.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	for i := len(b) - 1; i >= 0; i-- {
		h ^= uint32(b[i]) << (8 * i)
	}
	if len(b) > 0 {
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
