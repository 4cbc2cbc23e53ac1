package lease

import (
	"strings"
	"time"
)

// The keys of the bucket begin with what they say.
const (
	memberPrefix = "member/"
	beatPrefix   = "beat/"
	leasePrefix  = "lease/"
)

// record is the value of every key of the bucket, as JSON. The names are persisted:
// members of different versions read each other's.
type record struct {
	// ID is drawn anew for each write of a member or lease: a caller that lost the answer to a
	// write recognises it by that.
	ID string `json:"id,omitempty"`

	// Of members.
	Start   uint64 `json:"start,omitempty"`
	Address string `json:"address,omitempty"`
	TTL     int64  `json:"ttl_ms,omitempty"`

	// Of beats, the epoch that is renewed; of leases, that of their owner's session.
	Session uint64 `json:"session,omitempty"`

	// Of leases.
	Node  string `json:"node,omitempty"`
	Value string `json:"value,omitempty"`
}

// ttl returns how long the member may be silent. What another wrote is not trusted
// to be in range.
func (r *record) ttl() time.Duration {
	ms := min(max(r.TTL, int64(MinTTL/time.Millisecond)), int64(MaxTTL/time.Millisecond))
	return time.Duration(ms) * time.Millisecond
}

// split returns what a key of the bucket says and of which member; kind is "" for a key that
// this version does not know.
func split(key string) (kind, name string) {
	for _, kind := range []string{memberPrefix, beatPrefix, leasePrefix} {
		if name, ok := strings.CutPrefix(key, kind); ok && name != "" {
			return kind, name
		}
	}
	return "", ""
}
