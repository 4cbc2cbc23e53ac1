package mainstem

import (
	"bytes"
	"time"
)

// Version numbers the items of one key: 1, 2, 3 and so on. A record that carries n items (see
// [Write.Count]) advances its key by n. Versions of a key never repeat, not even after the key was
// deleted, purged or has expired. So that an engine need not store a version for every key without
// end, a space with bounded history may begin a new key above the versions of keys that were
// removed long ago.
type Version uint64

// Position is a record's place in the total order of the whole log. The first record of a log has
// position 1. Positions follow commit order and carry no other meaning: there may be gaps, because
// records may have been superseded or removed.
type Position uint64

// Header is a name and a value stored with a record. Names may repeat and keep their order.
type Header struct {
	Name  string
	Value []byte
}

// Headers is the ordered list of a record's headers.
type Headers []Header

// Get returns the value of the first header called name, and whether there is one.
func (h Headers) Get(name string) ([]byte, bool) {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value, true
		}
	}
	return nil, false
}

// Clone returns a deep copy of h.
func (h Headers) Clone() Headers {
	if h == nil {
		return nil
	}
	out := make(Headers, len(h))
	for i := range h {
		out[i] = Header{Name: h[i].Name, Value: bytes.Clone(h[i].Value)}
	}
	return out
}

// Tombstone says whether a record marks the end of its key, and why.
type Tombstone uint8

// The kinds of tombstone. The numbers are persisted and sent over the wire: add new ones only at
// the end.
const (
	Live    Tombstone = iota // the record is a value, not a tombstone
	Deleted                  // [OpDelete]
	Purged                   // [OpPurge]: older records of the key were removed too
	Expired                  // the record's time to live ran out
)

// String returns "live", "deleted", "purged" or "expired".
func (t Tombstone) String() string {
	switch t {
	case Live:
		return "live"
	case Deleted:
		return "deleted"
	case Purged:
		return "purged"
	case Expired:
		return "expired"
	}
	return "unknown"
}

// Record is one write to a key.
//
// Ownership: [Reader.Get] returns a record whose bytes belong to the caller.
// The sequences of GetMany, Scan, Read and Feed lend theirs: Key, Value and the
// header values may be overwritten as soon as the loop body returns. Call [Record.Clone]
// to keep one.
type Record struct {
	Space     string
	Key       []byte
	Version   Version   // version of the last item of the record
	Count     uint32    // items carried, at least 1; the first has version Version-Count+1
	Position  Position  // place in the order of the whole log
	Time      time.Time // commit time by the engine's clock; never decreases with Position
	Expires   time.Time // time on the engine's clock at which the record expires; may be before Time if the clock was set back; zero: never
	Tombstone Tombstone
	Headers   Headers
	Value     []byte // nil and empty are distinct
}

// First returns the version of the record's first item.
func (r Record) First() Version { return r.Version - Version(r.Count) + 1 }

// Live reports whether the record is a value rather than a tombstone.
func (r Record) Live() bool { return r.Tombstone == Live }

// Clone returns a copy of r that shares no memory with it.
func (r Record) Clone() Record {
	r.Key = bytes.Clone(r.Key)
	r.Value = bytes.Clone(r.Value)
	r.Headers = r.Headers.Clone()
	return r
}
