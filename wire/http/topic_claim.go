package viewhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// This file is claims of records: a group hands out the records of a topic to consumers, which
// confirm each. What the group has done in a partition is also its stored offset, so that its lag
// is seen, and it may be reset, as those of Kafka's groups.
//
// The state is the record under the name of the group in the space topic.claims/<topic>, in JSON. A
// change is one commit on condition that the state and the stored offsets are as they were read:
// any server may answer any request, and a restart keeps claims.
//
// It stays when the topic is deleted, one record for each group: a token from before must not confirm
// a record of a topic that is created anew under the name, and the count of resets is what tells them
// apart. The first claim there replaces it.

const topicClaimsPrefix = "topic.claims/"

// Limits of the claims of a group.
const (
	maxRecordClaims  = 1000    // records that are not confirmed, in all partitions
	recordClaimBytes = 1 << 20 // of the records of one claim, about; one record may be larger
)

// askingRecords is the pause of a consumer that waits for records: other consumers, on other
// servers, may give some back at any time.
var askingRecords = backoff.Policy{First: 10 * time.Millisecond, Max: 250 * time.Millisecond, Jitter: 0.2}

// groupState is what is known of the claims of a group.
type groupState struct {
	Topic topic.ID             `json:"topic"` // another topic of its name begins anew
	Epoch uint64               `json:"epoch"` // counts resets: answers from before do not count
	Parts map[int32]*partState `json:"parts"`
}

// partState is a partition of a groupState.
//
// Invariant: the records below Read without an entry are done; those from Read on were never handed out.
type partState struct {
	Read    int64         `json:"read"`
	Entries []recordClaim `json:"entries,omitempty"` // in the order of offsets
}

// recordClaim is a record that is not done.
type recordClaim struct {
	Offset   int64  `json:"o"`
	Attempt  int    `json:"n"`
	Consumer string `json:"c,omitempty"` // "": it waits
	Deadline int64  `json:"d,omitempty"` // of the consumer, in nanoseconds since 1970
}

// mark returns the offset below which everything is done: the stored offset of the group.
func (p *partState) mark() int64 {
	if len(p.Entries) > 0 {
		return min(p.Entries[0].Offset, p.Read)
	}
	return p.Read
}

// find returns the index of an offset among the entries.
func (p *partState) find(offset int64) (int, bool) {
	return slices.BinarySearchFunc(p.Entries, offset, func(e recordClaim, o int64) int {
		switch {
		case e.Offset < o:
			return -1
		case e.Offset > o:
			return 1
		}
		return 0
	})
}

// expire takes records back from consumers that have not answered in time.
func (p *partState) expire(now time.Time) {
	for i := range p.Entries {
		if e := &p.Entries[i]; e.Consumer != "" && e.Deadline <= now.UnixNano() {
			e.Consumer, e.Deadline = "", 0
		}
	}
}

// recordToken names one attempt of one record: an answer about an older one is refused.
type recordToken struct {
	epoch     uint64
	partition int32
	offset    int64
	attempt   int
}

// String returns the token as parseRecordToken reads it.
func (t recordToken) String() string {
	return fmt.Sprintf("%d-%d-%d-%d", t.epoch, t.partition, t.offset, t.attempt)
}

func parseRecordToken(text string) (t recordToken, err error) {
	parts := strings.Split(text, "-")
	if len(parts) == 4 {
		epoch, err1 := strconv.ParseUint(parts[0], 10, 64)
		num, err2 := strconv.ParseUint(parts[1], 10, 31)
		offset, err3 := strconv.ParseUint(parts[2], 10, 63)
		attempt, err4 := strconv.ParseUint(parts[3], 10, 31)
		if errors.Join(err1, err2, err3, err4) == nil {
			return recordToken{epoch, int32(num), int64(offset), int(attempt)}, nil
		}
	}
	return t, invalid("%.60q is not a token of a claimed record", text)
}

// end ends claims: the records are done, or with again they wait. Tokens of records that are done
// already count for nothing; if one is of an older attempt, or from before a reset, nothing changes.
func (s *groupState) end(tokens []recordToken, again bool) error {
	stale := func(t recordToken) error {
		return refuse(http.StatusConflict, mainstem.KindInvalid, "the token %s is of an older attempt: the record was handed out again, or the offsets of the group were reset; nothing was confirmed", t)
	}
	for _, t := range tokens {
		p := s.Parts[t.partition]
		if t.epoch != s.Epoch || p == nil || t.offset >= p.Read {
			return stale(t)
		}
		if i, there := p.find(t.offset); there && (p.Entries[i].Attempt != t.attempt || p.Entries[i].Consumer == "") {
			return stale(t)
		}
	}
	for _, t := range tokens {
		p := s.Parts[t.partition]
		switch i, there := p.find(t.offset); {
		case there && again:
			p.Entries[i].Consumer, p.Entries[i].Deadline = "", 0
		case there:
			p.Entries = slices.Delete(p.Entries, i, i+1)
		}
	}
	return nil
}

// topicGroup is a group that claims records of a topic.
type topicGroup struct {
	h     *Handler
	topic *topic.Topic
	name  string
}

func (g *topicGroup) space() string { return topicClaimsPrefix + g.topic.Name() }

// change commits what edit makes of the state, again and again if somebody else was faster. The
// offsets of the group go with it. edit returns errUnchanged if there is nothing to commit.
func (g *topicGroup) change(ctx context.Context, edit func(s *groupState) error) error {
	for n := 1; ; n++ {
		b := mainstem.NewBatch()
		s, stored, err := g.load(ctx, b)
		if err != nil {
			return err
		}
		if err := edit(s); err != nil {
			return ignoreUnchanged(err)
		}
		offsets := g.topic.Offsets(g.name)
		for num, p := range s.Parts {
			if was, ok := stored[num]; !ok || was != p.mark() {
				offsets.CommitTo(b, num, p.mark())
			}
		}
		value, err := json.Marshal(s)
		if err != nil {
			return mainstem.Refusef(mainstem.KindInternal, "claim", "encode the state: %w", err)
		}
		b.Put(g.space(), []byte(g.name), value)
		_, err = g.h.log.Commit(ctx, b)
		if !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
		if !contention.Wait(ctx, n) {
			return mainstem.Ended(ctx, "claim", time.Time{}, "other consumers").WithOutcome(mainstem.NotWritten)
		}
	}
}

// errUnchanged says that there is nothing to commit.
var errUnchanged = errors.New("nothing to change")

func ignoreUnchanged(err error) error {
	if err == errUnchanged {
		return nil
	}
	return err
}

// load returns the state, and the stored offsets by partition, and puts into b the conditions that
// both are as they were read. A partition whose stored offset somebody else has moved begins anew there.
func (g *topicGroup) load(ctx context.Context, b *mainstem.Batch) (*groupState, map[int32]int64, error) {
	s, version, err := g.state(ctx)
	for err == nil {
		b.Reset()
		var stored map[int32]int64
		if stored, err = g.stored(ctx, b, s.Topic); err != nil {
			break
		}
		// Both are of one moment if the state has not changed meanwhile: else an answer would be
		// refused that is right.
		before := version
		if s, version, err = g.state(ctx); err != nil || version != before {
			continue
		}
		if version > 0 {
			b.IfVersion(g.space(), []byte(g.name), version)
		} else {
			b.Ensure(g.space(), mainstem.Policy{History: 1, NoFeed: true})
			b.IfAbsent(g.space(), []byte(g.name))
		}
		return s, stored, g.follow(ctx, s, stored)
	}
	return nil, nil, err
}

// state returns the state as it is stored, and its version, 0 for none.
func (g *topicGroup) state(ctx context.Context) (*groupState, mainstem.Version, error) {
	s := &groupState{Topic: g.topic.ID()}
	rec, err := g.h.log.Get(ctx, g.space(), []byte(g.name))
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		return s, 0, nil
	case err != nil:
		return nil, 0, err
	}
	if err := json.Unmarshal(rec.Value, s); err != nil {
		return nil, 0, mainstem.Errorf(mainstem.KindCorrupt, "claim", "%w", err).At(g.space(), rec.Key)
	}
	if s.Topic != g.topic.ID() {
		s = &groupState{Topic: g.topic.ID(), Epoch: s.Epoch + 1}
	}
	return s, rec.Version, nil
}

// stored returns the offsets of the group in a topic, by partition, and puts into b that they do not change.
func (g *topicGroup) stored(ctx context.Context, b *mainstem.Batch, id topic.ID) (map[int32]int64, error) {
	stored, seen := map[int32]int64{}, map[int32]bool{}
	for off, err := range partition.StoredOffsets(ctx, g.h.log, g.name) {
		if err != nil {
			return nil, err
		}
		if off.Topic != g.topic.Name() || off.Partition >= g.topic.Partitions() {
			continue
		}
		off.UnchangedTo(b)
		seen[off.Partition] = true
		if off.ID == id { // else it is of a topic of this name that was deleted
			stored[off.Partition] = off.Next
		}
	}
	offsets := partition.NewOffsets(g.h.log, g.name, g.topic.Name(), id)
	for num := range g.topic.Partitions() {
		if !seen[num] {
			offsets.AbsentTo(b, num)
		}
	}
	return stored, nil
}

// follow makes the state begin in each partition where the stored offset is, if that is not its own,
// and not before the partition does.
func (g *topicGroup) follow(ctx context.Context, s *groupState, stored map[int32]int64) error {
	if s.Parts == nil {
		s.Parts = map[int32]*partState{}
	}
	moved := false
	for num := range g.topic.Partitions() {
		start, err := g.topic.Start(ctx, num)
		if err != nil {
			return err
		}
		p, next := s.Parts[num], stored[num]
		if _, ok := stored[num]; p == nil || !ok || p.mark() != next {
			moved = moved || p != nil
			p = &partState{Read: next}
			s.Parts[num] = p
		}
		p.Read = max(p.Read, start)
		p.Entries = slices.DeleteFunc(p.Entries, func(e recordClaim) bool { return e.Offset < start })
	}
	if moved {
		s.Epoch++
	}
	return nil
}
