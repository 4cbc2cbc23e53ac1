package shard

import (
	"hash/fnv"
	"strconv"
)

// shardOf returns the shard of a key, from 0. All nodes must agree, also those of other versions, so
// this function must not change.
func shardOf(key string, shards int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(shards))
}

// winner returns the node that is to own a shard by rendezvous hashing: the one with the highest hash
// of node, region and shard, whatever the order of nodes. It is "" if there are none. Like shardOf it
// must not change.
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

// mix spreads the bits of a hash, as the finalizer of MurmurHash3 (fmix64) does: FNV hashes of texts
// that differ only in the last byte differ little.
func mix(v uint64) uint64 {
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	v *= 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}
