package claims

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// State is the state of a subscription. It is one record, and every change is a commit on condition
// that the record has not changed since it was read. So any server may answer any request, and
// claims survive a restart.
//
//	          claim                    ack, nack skip
//	waiting ─────────▶ claimed by C ─────────────────▶ done (no entry)
//	   ▲                  │    │ nack park, or too many attempts
//	   └──────────────────┘    └─────────────────────▶ parked (a record of its own)
//	nack retry, or no answer within the message timeout
//
// Invariant: of the events up to Read that the subscription selects, those without an entry are
// done or parked; the events after Read have no entries, and no event has two. So the state is one
// position and at most Buffer entries, whatever the size of the store.
type State struct {
	Epoch   uint64            `json:"epoch"` // increased by each reset: tokens of an older epoch are stale
	Config  Config            `json:"config"`
	Read    mainstem.Position `json:"read"`              // position up to which the store was read
	Entries []Entry           `json:"entries,omitempty"` // in the order of positions
	// Consumers are the consumers that were seen within the message timeout, and when, in
	// nanoseconds since 1970.
	Consumers map[string]int64 `json:"consumers,omitempty"`
	Owner     string           `json:"owner,omitempty"`   // the consumer that gets all events; only with Single
	Stopped   string           `json:"stopped,omitempty"` // why no events are given out; "": they are
}

// Entry is an event that is neither done nor parked.
type Entry struct {
	Position mainstem.Position `json:"p"`
	Stream   string            `json:"s"`
	Version  mainstem.Version  `json:"v"`
	Attempt  int               `json:"n,omitempty"` // how often it was claimed
	Before   int               `json:"b,omitempty"` // of these, how often before it was parked and retried; they do not count for MaxRetry
	Consumer string            `json:"c,omitempty"` // that has claimed it; "": it waits
	Deadline int64             `json:"d,omitempty"` // of the claim, in nanoseconds since 1970; 0 if it waits
}

// The strategies: which consumer may claim an event.
const (
	RoundRobin = "round_robin" // any
	Pinned     = "pinned"      // one for each stream, by a hash, so the events of a stream are handled in order
	Single     = "single"      // one for all, as long as it is seen
)

// pinnedSlots is the number of slots of streams; each slot belongs to one consumer.
const pinnedSlots = 1024

// Config selects the events of a subscription, and says how they are given out. It is not checked
// here.
type Config struct {
	event.Filter
	From     mainstem.Position `json:"from,omitempty"` // a new subscription begins after this position
	Strategy string            `json:"strategy"`       // RoundRobin, Pinned or Single
	Timeout  time.Duration     `json:"timeout"`        // how long a consumer has to answer, and how long it is remembered; in JSON in nanoseconds
	MaxRetry int               `json:"max_retry"`      // how often an event is given out again before it is parked
	Buffer   int               `json:"buffer"`         // the largest number of entries
}

// Token identifies one claim of one event. An answer with the token of an older claim is refused.
type Token struct {
	Epoch    uint64
	Position mainstem.Position
	Attempt  int
}

// String returns the text of the token, for [ParseToken].
func (t Token) String() string {
	return strconv.FormatUint(t.Epoch, 10) + "-" + strconv.FormatUint(uint64(t.Position), 10) + "-" + strconv.Itoa(t.Attempt)
}

// ParseToken returns the token with a text. Another text is Invalid.
func ParseToken(text string) (t Token, err error) {
	parts := strings.Split(text, "-")
	if len(parts) == 3 {
		epoch, err1 := strconv.ParseUint(parts[0], 10, 64)
		at, err2 := strconv.ParseUint(parts[1], 10, 64)
		n, err3 := strconv.ParseUint(parts[2], 10, 31)
		if err1 == nil && err2 == nil && err3 == nil {
			return Token{epoch, mainstem.Position(at), int(n)}, nil
		}
	}
	return t, mainstem.Refusef(mainstem.KindInvalid, "", "%.60q is not a token of a claim", text)
}

// Expire takes back the events whose deadlines have passed, and forgets the consumers that were not
// seen within the timeout. It removes and returns the entries that have had too many attempts,
// which the caller must park.
func (s *State) Expire(now time.Time) (parked []Entry) {
	at := now.UnixNano()
	for name, seen := range s.Consumers {
		if at-seen > int64(s.Config.Timeout) {
			delete(s.Consumers, name)
		}
	}
	s.Entries = slices.DeleteFunc(s.Entries, func(e Entry) bool {
		if e.Consumer != "" && e.Deadline <= at && s.exhausted(&e) {
			parked = append(parked, e)
			return true
		}
		return false
	})
	for i := range s.Entries {
		if e := &s.Entries[i]; e.Consumer != "" && e.Deadline <= at {
			e.Consumer, e.Deadline = "", 0
		}
	}
	return parked
}

// exhausted reports whether an event has had all of its 1 + MaxRetry attempts.
func (s *State) exhausted(e *Entry) bool { return e.Attempt-e.Before > s.Config.MaxRetry }

// see records that a consumer has asked for events. It becomes the owner if there is none.
func (s *State) see(consumer string, now time.Time) {
	if s.Consumers == nil {
		s.Consumers = map[string]int64{}
	}
	s.Consumers[consumer] = now.UnixNano()
	if _, alive := s.Consumers[s.Owner]; !alive {
		s.Owner = consumer
	}
}

// offer returns the indexes of at most limit entries that a consumer may claim, in the order of
// positions. With Pinned, an event waits while an earlier one of its stream is claimed by another
// consumer, or waits for one.
func (s *State) offer(consumer string, limit int) []int {
	if s.Config.Strategy == Single && s.Owner != consumer {
		return nil
	}
	var out []int
	blocked := map[string]bool{} // streams with an earlier event for another consumer
	for i := range s.Entries {
		e := &s.Entries[i]
		switch {
		case len(out) == limit:
			return out
		case s.Config.Strategy != Pinned:
			if e.Consumer == "" {
				out = append(out, i)
			}
		case blocked[e.Stream]:
		case e.Consumer == "" && s.ownerOf(e.Stream) == consumer:
			out = append(out, i)
		case e.Consumer != consumer:
			blocked[e.Stream] = true
		}
	}
	return out
}

// ownerOf returns the consumer of a stream by rendezvous hashing: of the consumers that were seen,
// the one with the highest hash together with the slot of the stream. So when a consumer comes or
// goes, only its own slots move.
func (s *State) ownerOf(stream string) string {
	slot := hashOf(stream) % pinnedSlots
	best, highest := "", uint64(0)
	for name := range s.Consumers {
		if h := hashOf(name + "\x00" + strconv.FormatUint(slot, 10)); best == "" || h > highest || h == highest && name < best {
			best, highest = name, h
		}
	}
	return best
}

// hashOf is FNV-1a with a final mix: in FNV alone, the last bytes change few of the high bits.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // a hash takes everything
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// Resolve ends the claims of tokens: it removes their entries and returns them. Tokens of events
// that are done or parked are ignored. If a token is of an older claim or an older epoch, nothing
// is changed, and all such tokens are returned as stale.
func (s *State) Resolve(tokens []Token) (ended []Entry, stale []Token) {
	drop := map[mainstem.Position]bool{}
	for _, t := range tokens {
		i, found := s.find(t.Position)
		switch {
		case t.Epoch != s.Epoch || t.Position > s.Read && !found:
			stale = append(stale, t)
		case !found || drop[t.Position]:
		case s.Entries[i].Attempt != t.Attempt || s.Entries[i].Consumer == "":
			stale = append(stale, t)
		default:
			drop[t.Position] = true
			ended = append(ended, s.Entries[i])
		}
	}
	if len(stale) > 0 {
		return nil, stale
	}
	s.Entries = slices.DeleteFunc(s.Entries, func(e Entry) bool { return drop[e.Position] })
	return ended, nil
}

// find returns the index of the entry at a position, and whether there is one.
func (s *State) find(at mainstem.Position) (int, bool) {
	return slices.BinarySearchFunc(s.Entries, at, func(e Entry, p mainstem.Position) int {
		return compare(e.Position, p)
	})
}

func compare(a, b mainstem.Position) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// PutBack makes entries wait again. Entries that have had too many attempts are not put back but
// returned, and the caller must park them.
func (s *State) PutBack(entries []Entry) (parked []Entry) {
	for _, e := range entries {
		if s.exhausted(&e) {
			parked = append(parked, e)
			continue
		}
		e.Consumer, e.Deadline = "", 0
		s.Entries = append(s.Entries, e)
	}
	slices.SortFunc(s.Entries, func(a, b Entry) int { return compare(a.Position, b.Position) })
	return parked
}

// Mark returns the position up to which all events are done or parked.
func (s *State) Mark() mainstem.Position {
	if len(s.Entries) == 0 {
		return s.Read
	}
	return min(s.Read, s.Entries[0].Position-1)
}

// Counts returns how many entries are claimed, and how many wait.
func (s *State) Counts() (claimed, waiting int) {
	for i := range s.Entries {
		if s.Entries[i].Consumer != "" {
			claimed++
		} else {
			waiting++
		}
	}
	return claimed, waiting
}
