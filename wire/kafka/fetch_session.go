package kafka

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// A fetch session (KIP-227) keeps the partitions of a consumer, so that a fetch names only
// those that change, and its answer only those with news. A request has a session ID and an
// epoch:
//
//	epoch 0        a full fetch; ends the session named and begins a new one, whose ID is in
//	               the answer. The next epoch is 1
//	epoch -1       a full fetch that ends the session named and begins none
//	epoch n ≥ 1    an incremental fetch: adds, changes and forgets partitions. n must be the
//	               epoch after the last one; after the largest int32 comes 1
//
// A request with another session ID is answered with FETCH_SESSION_ID_NOT_FOUND, one with a wrong
// epoch with INVALID_FETCH_SESSION_EPOCH; clients then begin with a full fetch. Versions
// before 7 have no sessions. Kafka's brokers keep sessions in a cache that all connections
// share. Here a connection has at most one, which ends with it, so nothing has to be evicted.

// Epochs of a fetch session with a special meaning (KIP-227).
const (
	initialEpoch = 0
	finalEpoch   = -1
)

// maxSession bounds the partitions of a fetch session. A full fetch of more is served without
// a session; an incremental one that adds more ends it.
const maxSession = 100_000

// session is a fetch session, or the partitions of a fetch without one. It belongs to the
// goroutine of its connection.
type session struct {
	id          int32                     // 0: none
	epoch       int32                     // of the next request
	incremental bool                      // the answer has only parts with news
	parts       []*fetchPart              // in the order in which they are read, see rotate
	index       map[sessionKey]*fetchPart // of parts. Invariant: both have the same elements
}

// sessionKey names a partition as the client does: by topic name, or by topic ID.
type sessionKey struct {
	name string
	id   topic.ID
	num  int32
}

// sessions is what a connection keeps from one fetch to the next. The zero sessions
// is ready.
type sessions struct {
	current  *session                      // nil: none
	waiter   *topic.Waiter                 // nil until a fetch waits for a topic
	followed map[topic.TopicPartition]bool // the partitions of waiter
}

// resume returns the session of a fetch, with ID 0 if there is none, and the partitions to
// fetch, or an error code for the whole answer.
func (ss *sessions) resume(req *kmsg.FetchRequest) (*session, []*fetchPart, int16) {
	if req.SessionEpoch == initialEpoch || req.SessionEpoch == finalEpoch {
		if ss.current != nil && ss.current.id == req.SessionID {
			ss.current = nil
		}
		s := newSession(req)
		if req.Version >= 7 && req.SessionEpoch == initialEpoch && len(s.parts) > 0 && len(s.parts) <= maxSession {
			s.id, s.epoch = 1+rand.Int32N(math.MaxInt32-1), 1
			ss.current = s
		}
		return s, s.parts, 0
	}
	s := ss.current
	switch {
	case s == nil || s.id != req.SessionID:
		return nil, nil, kerr.FetchSessionIDNotFound.Code
	case s.epoch != req.SessionEpoch:
		return nil, nil, kerr.InvalidFetchSessionEpoch.Code
	}
	s.incremental = true
	if s.epoch++; s.epoch < 0 {
		s.epoch = 1
	}
	s.update(req)
	if len(s.parts) > maxSession {
		ss.current = nil
		return nil, nil, kerr.FetchSessionIDNotFound.Code
	}
	return s, s.parts, 0
}

func newSession(req *kmsg.FetchRequest) *session {
	s := &session{index: map[sessionKey]*fetchPart{}}
	s.update(req)
	return s
}

// update applies a request to the session: it adds and changes the partitions that the
// request names, then removes the forgotten ones.
func (s *session) update(req *kmsg.FetchRequest) {
	for _, t := range req.Topics {
		for _, in := range t.Partitions {
			k := sessionKey{t.Topic, t.TopicID, in.Partition}
			p := s.index[k]
			if p == nil {
				p = &fetchPart{name: t.Topic, id: t.TopicID, num: in.Partition}
				s.index[k] = p
				s.parts = append(s.parts, p)
			}
			p.offset, p.epoch, p.limit = in.FetchOffset, in.CurrentLeaderEpoch, int(max(in.PartitionMaxBytes, 0))
		}
	}
	if len(req.ForgottenTopics) == 0 {
		return
	}
	for _, t := range req.ForgottenTopics {
		for _, num := range t.Partitions {
			delete(s.index, sessionKey{t.Topic, t.TopicID, num})
		}
	}
	s.parts = slices.DeleteFunc(s.parts, func(p *fetchPart) bool { return s.index[p.key()] != p })
}

func (p *fetchPart) key() sessionKey { return sessionKey{p.name, p.id, p.num} }

// rotate prepares the session for the next fetch: it clears the results and moves the parts
// that had batches behind those that had none. So parts that are always large do not use up
// the bytes of every answer before the others are read.
func (s *session) rotate() {
	if s.id == 0 {
		return
	}
	slices.SortStableFunc(s.parts, func(a, b *fetchPart) int {
		return min(len(a.chunk.Data), 1) - min(len(b.chunk.Data), 1)
	})
	for _, p := range s.parts {
		p.src, p.chunk, p.aborted = nil, partition.Chunk{}, nil
	}
}

// follow adds a partition to the connection's waiter, which stays there after the fetch. known
// means that it was there already, so a read since then has missed nothing.
func (ss *sessions) follow(ctx context.Context, topics *topic.Catalog, t *topic.Topic, num int32) (known bool, err error) {
	if ss.waiter == nil {
		ss.waiter, ss.followed = topics.NewWaiter(), map[topic.TopicPartition]bool{}
	}
	k := topic.TopicPartition{Topic: t, Partition: num}
	known = ss.followed[k]
	if err := ss.waiter.Add(ctx, t, num); err != nil { // also if known: the topic may be gone since
		return false, err
	}
	ss.followed[k] = true
	return known, nil
}

// keepOnly removes all other partitions from the connection's waiter.
func (ss *sessions) keepOnly(parts []*fetchPart) {
	if len(ss.followed) == 0 {
		return
	}
	keep := make(map[topic.TopicPartition]bool, len(parts))
	for _, p := range parts {
		if t, ok := p.src.(*topic.Topic); ok {
			keep[topic.TopicPartition{Topic: t, Partition: p.num}] = true
		}
	}
	for k := range ss.followed {
		if !keep[k] {
			ss.waiter.Remove(k.Topic, k.Partition)
			delete(ss.followed, k)
		}
	}
}

// close releases the waiter. The connection has ended.
func (ss *sessions) close() {
	if ss.waiter != nil {
		ss.waiter.Close()
	}
}
