package event

import "github.com/mainstemdev/mainstem"

// MaxPartitions is the largest number of partitions of the streams of a store.
const MaxPartitions = 256

// PartitionOf returns the number of the partition of a stream, from 0 to n-1, for n partitions. It
// is the same in every process and every version, because it determines which checkpoint applies to
// the stream's events.
func PartitionOf(stream string, n int) int { return partitionOf(stream, n) }

// partitionOf hashes with 64-bit FNV-1a. The low bits of that hash are weak, which matters for
// remainders of powers of two, so the finalizer of MurmurHash3 mixes them.
func partitionOf[S string | []byte](stream S, n int) int {
	if n <= 1 {
		return 0
	}
	h := uint64(14695981039346656037)
	for i := range len(stream) {
		h = (h ^ uint64(stream[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int((h ^ h>>33) % uint64(n))
}

func (f *Filter) checkPartition() error {
	if f.Partitions < 0 || f.Partitions > MaxPartitions || f.Partition < 0 || f.Partition >= max(f.Partitions, 1) {
		return mainstem.Refusef(mainstem.KindInvalid, "feed", "partition %d of %d: want 0 to n-1 of at most %d", f.Partition, f.Partitions, MaxPartitions)
	}
	return nil
}
