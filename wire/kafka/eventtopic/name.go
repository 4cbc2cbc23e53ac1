package eventtopic

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/topic"
)

// Prefix is the beginning of the name of every event topic.
const Prefix = "event."

// spacePrefix is the beginning of the name of the space of every event store.
const spacePrefix = "event/"

// nameOf returns the name of the topic of a store, or of one of its categories.
func nameOf(store, category string) string {
	if category == "" {
		return Prefix + store
	}
	return Prefix + store + "." + category
}

// readings yields the store and category that the name of a topic may mean, the store with
// the longest name first: event.a.b is the store a.b, or category b of the store a. It yields
// nothing for a name that is not of an event topic.
func readings(name string) iter.Seq2[string, string] {
	return func(yield func(store, category string) bool) {
		rest, ok := strings.CutPrefix(name, Prefix)
		if !ok || rest == "" || topic.ValidateName(name) != nil {
			return
		}
		if !yield(rest, "") {
			return
		}
		for i := len(rest) - 1; i > 0; i-- {
			if rest[i] != '.' {
				continue
			}
			category := rest[i+1:]
			if category == "" {
				continue
			}
			if strings.Contains(category, "-") {
				return // a category has no hyphen, and all that follow contain this one
			}
			if !yield(rest[:i], category) {
				return
			}
		}
	}
}

// idOf computes the ID of a topic. It must never change, because clients and stored offsets
// have IDs. It is the first 16 bytes, made an ID by [feedtopic.ComputedID], of the SHA-256 of
//
//	"mainstem event topic"  0 (1)  store  0 (1)  category  0 (1)
//	time of creation of the space in nanoseconds since 1970 (8)
func idOf(store string, created time.Time, category string) topic.ID {
	b := append([]byte("mainstem event topic\x00"), store...)
	b = append(b, 0)
	b = append(b, category...)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(created.UnixNano()))
	sum := sha256.Sum256(b)
	return feedtopic.ComputedID([16]byte(sum[:16]))
}
