package topic

import (
	"encoding/binary"
	"math/rand/v2"
)

// Partitioner chooses the partition, 0 to n-1, of a produced record, or [AnyPartition]. A producer
// calls it with its lock held, for one record at a time: it must not keep r nor call the producer.
type Partitioner func(r *Record, n int32) int32

// ByKey returns Kafka's default partitioner: a record with a key goes to the partition of the key's
// murmur2 hash, see [KeyPartition], so clients in all languages agree. Records without a key go to
// [AnyPartition].
func ByKey() Partitioner {
	return func(r *Record, n int32) int32 {
		if r.Key == nil {
			return AnyPartition
		}
		return KeyPartition(r.Key, n)
	}
}

// ByPartition returns a partitioner that uses [Record].Partition.
func ByPartition() Partitioner {
	return func(r *Record, n int32) int32 { return r.Partition }
}

// RoundRobin returns a partitioner that takes the partitions in turns, whatever the key. It has
// state: give each producer its own.
func RoundRobin() Partitioner {
	next := rand.Uint32()
	return func(_ *Record, n int32) int32 {
		next++
		return int32(next % uint32(n))
	}
}

// AnyPartition leaves the choice to the producer, which fills one batch of one partition before it
// chooses another partition at random.
const AnyPartition = -1

// KeyPartition returns the partition, of n, to which Kafka's default partitioner sends a key. n
// must be at least 1.
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
