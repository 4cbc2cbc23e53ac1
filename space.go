package mainstem

import (
	"maps"
	"time"
	"unicode/utf8"
)

// Limits of names and of policies, the same on every engine.
const (
	MaxSpaceName      = 512     // bytes in a space's name
	MaxKey            = 4 << 10 // bytes in a key
	MaxHeaders        = 256     // headers of one record
	MaxHeaderName     = 256     // bytes in a header's name
	MaxHeaderBytes    = 1 << 20 // bytes in all header names and values of one record
	MaxBatchID        = 256     // bytes in a batch's ID
	MaxHistory        = 1 << 16 // largest bounded [Policy.History]
	MaxPolicyMetadata = 16 << 10
	MaxGetKeys        = 10_000  // keys of one [Reader.GetMany]
	MaxGetKeyBytes    = 1 << 20 // bytes in all keys of one [Reader.GetMany]
)

// Limits that an engine may lower or raise by its options; these are the defaults.
const (
	DefaultMaxValue       = 16 << 20 // bytes in one value
	DefaultMaxBatchBytes  = 64 << 20 // bytes in all keys, values and headers of one batch
	DefaultMaxBatchWrites = 100_000  // writes, and conditions, in one batch
)

// DefaultTombstoneAge is the time for which a tombstone stays in a space with bounded history whose
// policy sets no TombstoneAge.
const DefaultTombstoneAge = 24 * time.Hour

// Policy says which records a space keeps. The zero Policy keeps all records without end and
// includes them in feeds, as event streams need.
type Policy struct {
	// History is how many of the newest records of a key are kept: 0 keeps all,
	// 1 only the newest. Alter may not switch between 0 and a bounded history.
	History int
	// MaxAge removes records older than this; they disappear from reads at once
	// and from disk later. 0 means no limit.
	MaxAge time.Duration
	// MaxBytes bounds the bytes of keys, headers and values in the space; the
	// oldest records are removed in the background. 0 means no limit.
	MaxBytes int64
	// TombstoneAge is the time for which a tombstone is kept in a space with bounded history. 0
	// means [DefaultTombstoneAge]; negative means that it is always kept. A space that keeps all
	// history keeps its tombstones whatever the value.
	TombstoneAge time.Duration
	// NoFeed keeps the records of the space out of feeds. Reads by key are not
	// affected. It cannot be altered.
	NoFeed bool
	// Metadata belongs to the view that owns the space; at most
	// [MaxPolicyMetadata] bytes of names and values, in UTF-8.
	Metadata map[string]string
}

// Validate returns an Invalid error that names the first field out of range.
func (p Policy) Validate() error {
	switch {
	case p.History < 0 || p.History > MaxHistory:
		return Refusef(KindInvalid, "policy", "History is %d: want 0 (all) to %d", p.History, MaxHistory)
	case p.MaxAge < 0:
		return Refusef(KindInvalid, "policy", "MaxAge is %v: want 0 (no limit) or more", p.MaxAge)
	case p.MaxBytes < 0:
		return Refusef(KindInvalid, "policy", "MaxBytes is %d: want 0 (no limit) or more", p.MaxBytes)
	}
	n := 0
	for k, v := range p.Metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return Refusef(KindInvalid, "policy", "Metadata %q is not valid UTF-8", k)
		}
		n += len(k) + len(v)
	}
	if n > MaxPolicyMetadata {
		return Refusef(KindInvalid, "policy", "Metadata holds %d bytes: the limit is %d", n, MaxPolicyMetadata)
	}
	return nil
}

// Equal reports whether p and q are equal in all fields.
func (p Policy) Equal(q Policy) bool {
	return p.History == q.History && p.MaxAge == q.MaxAge && p.MaxBytes == q.MaxBytes &&
		p.TombstoneAge == q.TombstoneAge && p.NoFeed == q.NoFeed && maps.Equal(p.Metadata, q.Metadata)
}

// CanAlter returns nil if the policy of a space may change from p to q, else an Invalid error that
// names the field at fault. Engines call it.
func (p Policy) CanAlter(q Policy) error {
	if (p.History == 0) != (q.History == 0) {
		return Refusef(KindInvalid, "alter space", "History cannot change from %d to %d: a space keeps all history or a bounded one for its whole life; copy it to a new space", p.History, q.History)
	}
	if p.NoFeed != q.NoFeed {
		return Refusef(KindInvalid, "alter space", "NoFeed cannot change; copy the records to a new space")
	}
	return q.Validate()
}

// SpaceInfo describes a space and what it holds.
type SpaceInfo struct {
	Name    string
	Policy  Policy
	Created time.Time // commit time of the batch that created it; not unique among spaces created one after another under the name

	Keys    int64    // keys that hold at least one record or tombstone
	Records int64    // records held, tombstones included
	Bytes   int64    // bytes of keys, headers and values in those records, before compression
	Last    Position // position of the newest record ever committed to the space; 0 if none
	Updated time.Time
}

// ValidateSpaceName returns an Invalid error unless name is 1 to
// [MaxSpaceName] bytes of printable UTF-8 without spaces at its ends.
func ValidateSpaceName(name string) error {
	if name == "" {
		return Refusef(KindInvalid, "space name", "the name is empty")
	}
	if len(name) > MaxSpaceName {
		return Refusef(KindInvalid, "space name", "%.40q... has %d bytes: the limit is %d", name, len(name), MaxSpaceName)
	}
	if !utf8.ValidString(name) {
		return Refusef(KindInvalid, "space name", "%q is not valid UTF-8", name)
	}
	for _, r := range name {
		if r < 0x20 || r == 0x7f {
			return Refusef(KindInvalid, "space name", "%q has the control character %U", name, r)
		}
	}
	if name[0] == ' ' || name[len(name)-1] == ' ' {
		return Refusef(KindInvalid, "space name", "%q begins or ends with a blank", name)
	}
	return nil
}

// ValidateKey returns an Invalid error unless key has 1 to [MaxKey] bytes.
func ValidateKey(key []byte) error {
	if len(key) == 0 {
		return Refusef(KindInvalid, "key", "the key is empty")
	}
	if len(key) > MaxKey {
		return Refusef(KindInvalid, "key", "%.40q... has %d bytes: the limit is %d", key, len(key), MaxKey)
	}
	return nil
}
