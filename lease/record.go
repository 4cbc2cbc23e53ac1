package lease

import (
	"strings"
	"time"
)

// Prefixes of the keys of the bucket.
const (
	memberPrefix = "member/"
	beatPrefix   = "beat/"
	leasePrefix  = "lease/"
)

// record is the value of every entry of the bucket, encoded in JSON. The names of the fields must
// not change: members of different versions read each other's entries.
type record struct {
	// ID is random: one for each join, which writes it to member and beat, and one for each attempt
	// to acquire a lease. A node that has not got the answer to a write recognizes its own entry by
	// it.
	ID string `json:"id,omitempty"`

	// Only in members. TTL is in milliseconds.
	Start   uint64 `json:"start,omitempty"`
	Address string `json:"address,omitempty"`
	TTL     int64  `json:"ttl_ms,omitempty"`

	// In beats, the epoch of the session that is renewed; in leases, that of the owner's session.
	Session uint64 `json:"session,omitempty"`

	// Only in leases: the name of the owner, and the value given to Acquire.
	Node  string `json:"node,omitempty"`
	Value string `json:"value,omitempty"`
}

// ttl returns the TTL of a member, limited to the valid range: another version may have written it.
func (r *record) ttl() time.Duration {
	ms := min(max(r.TTL, int64(MinTTL/time.Millisecond)), int64(MaxTTL/time.Millisecond))
	return time.Duration(ms) * time.Millisecond
}

// split returns the prefix of a key and the rest, which is a name or the key of a lease. kind is ""
// for a key that this version does not define.
func split(key string) (kind, name string) {
	for _, kind := range []string{memberPrefix, beatPrefix, leasePrefix} {
		if name, ok := strings.CutPrefix(key, kind); ok && name != "" {
			return kind, name
		}
	}
	return "", ""
}
