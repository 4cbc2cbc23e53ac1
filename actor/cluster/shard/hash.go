package shard

import (
	"hash/fnv"
	"strconv"
)

// shardOf returns the shard of a key. All nodes must agree: it does not change.
func shardOf(key string, shards int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(shards))
}

// winner returns which of nodes is to own a shard: the one with the highest hash.
// It is "" if there are none.
func winner(nodes []string, name string, shard int) string {
	best, top := "", uint64(0)
	for _, n := range nodes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(n + "/" + name + "/" + strconv.Itoa(shard)))
		if v := mix(h.Sum64()); best == "" || v > top || v == top && n < best {
			best, top = n, v
		}
	}
	return best
}

// winners returns the winner of each shard.
func winners(nodes []string, name string, shards int) []string {
	all := make([]string, shards)
	for i := range all {
		all[i] = winner(nodes, name, i)
	}
	return all
}

// mix spreads the bits of a hash: those of FNV differ little for texts that differ
// in the last byte.
func mix(v uint64) uint64 {
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	v *= 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}
