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

// State is the state of a subscription: it hands out the events of a store to consumers, which
// confirm each. It is one record, and every change is a commit on condition that the record is as it was read: any
// server may answer any request, and a restart keeps all claims.
//
//	          claim                    ack, nack skip
//	waiting ─────────▶ claimed by C ─────────────────▶ done (no entry)
//	   ▲                  │    │ nack park, or too many attempts
//	   └──────────────────┘    └─────────────────────▶ parked (a record of its own)
//	nack retry, or no answer within the message timeout
//
// Invariant: of the events that the subscription selects up to Read, those without an entry are
// done or parked; those after Read were never handed out. So the state is one position and at
// most Buffer entries, however long the store is.
type State struct {
	Epoch   uint64            `json:"epoch"` // counts resets: answers from before do not count
	Config  Config            `json:"config"`
	Read    mainstem.Position `json:"read"`
	Entries []Entry           `json:"entries,omitempty"` // in the order of positions
	// Consumers are those that were seen within the message timeout, with the time in
	// nanoseconds since 1970.
	Consumers map[string]int64 `json:"consumers,omitempty"`
	Owner     string           `json:"owner,omitempty"`   // with the strategy single
	Stopped   string           `json:"stopped,omitempty"` // why nothing is handed out any more
}

// Entry is an event that is not done.
type Entry struct {
	Position mainstem.Position `json:"p"`
	Stream   string            `json:"s"`
	Version  mainstem.Version  `json:"v"`
	Attempt  int               `json:"n,omitempty"` // how often it was handed out
	Before   int               `json:"b,omitempty"` // of these, how often before it was parked and retried
	Consumer string            `json:"c,omitempty"` // "": it waits
	Deadline int64             `json:"d,omitempty"` // of the consumer, in nanoseconds since 1970
}

// The strategies: which consumer gets an event.
const (
	RoundRobin = "round_robin" // any
	Pinned     = "pinned"      // by the hash of its stream, so that the events of a stream keep their order
	Single     = "single"      // all go to one consumer, as long as it is seen
)

// pinnedSlots is how many slots streams are divided into; each belongs to one consumer.
const pinnedSlots = 1024

// Config says which events a subscription hands out, and how.
type Config struct {
	event.Filter
	From     mainstem.Position `json:"from,omitempty"`
	Strategy string            `json:"strategy"`
	Timeout  time.Duration     `json:"timeout"` // nanoseconds
	MaxRetry int               `json:"max_retry"`
	Buffer   int               `json:"buffer"`
}

// Token names one attempt of one event: an answer about an older one is refused.
type Token struct {
	Epoch    uint64
	Position mainstem.Position
	Attempt  int
}

// String returns the token as [ParseToken] reads it.
func (t Token) String() string {
	return strconv.FormatUint(t.Epoch, 10) + "-" + strconv.FormatUint(uint64(t.Position), 10) + "-" + strconv.Itoa(t.Attempt)
}

// ParseToken reads what [Token.String] returns. Anything else is Invalid.
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

// Expire takes events back from consumers that have not answered in time, and forgets consumers
// that were not seen. It returns the entries that have had too many attempts: they have left.
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

// exhausted reports whether an event was handed out once, and came again as often as it may.
func (s *State) exhausted(e *Entry) bool { return e.Attempt-e.Before > s.Config.MaxRetry }

// see notes that a consumer asks.
func (s *State) see(consumer string, now time.Time) {
	if s.Consumers == nil {
		s.Consumers = map[string]int64{}
	}
	s.Consumers[consumer] = now.UnixNano()
	if _, alive := s.Consumers[s.Owner]; !alive {
		s.Owner = consumer
	}
}

// offer returns the indexes of at most limit entries that a consumer may have, in the order of
// positions.
func (s *State) offer(consumer string, limit int) []int {
	if s.Config.Strategy == Single && s.Owner != consumer {
		return nil
	}
	var out []int
	blocked := map[string]bool{} // streams of which an earlier event is with another consumer
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

// ownerOf returns the consumer of a stream: of those that were seen, the one with the highest
// hash together with the slot of the stream. So when a consumer comes or goes, only its own
// slots move.
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

// hashOf mixes FNV, whose last bytes alone change little above them.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // a hash takes everything
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// Resolve ends claims, and returns their entries. Tokens of events that are done already count
// for nothing; if one is of an older attempt, or from before a reset, nothing is changed and
// they are returned as stale.
func (s *State) Resolve(tokens []Token) (ended []Entry, stale []Token) {
	drop := map[mainstem.Position]bool{}
	for _, t := range tokens {
		i, found := slices.BinarySearchFunc(s.Entries, t.Position, func(e Entry, p mainstem.Position) int {
			return compare(e.Position, p)
		})
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

func compare(a, b mainstem.Position) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// PutBack makes entries wait again; those that had too many attempts are returned.
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

// Mark returns the position up to which everything is done or parked.
func (s *State) Mark() mainstem.Position {
	if len(s.Entries) == 0 {
		return s.Read
	}
	return min(s.Read, s.Entries[0].Position-1)
}

// Counts returns how many entries are with consumers, and how many wait.
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
