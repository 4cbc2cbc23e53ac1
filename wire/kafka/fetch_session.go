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

// Epochs of a fetch session with a meaning of their own (KIP-227).
const (
	initialEpoch = 0
	finalEpoch   = -1
)

// maxSession bounds the partitions of a fetch session: a fetch of more is served, but
// in full each time.
const maxSession = 100_000

// session is what a client need not repeat from one fetch to the next: KIP-227. It
// belongs to its connection, so it costs nobody anything once that is gone; a client
// that comes back on another one begins a new session.
type session struct {
	id          int32 // 0: none
	epoch       int32 // expected next
	incremental bool  // the answer holds only partitions that have changed
	parts       []*fetchPart
	index       map[sessionKey]*fetchPart
}

type sessionKey struct {
	name string
	id   topic.ID
	num  int32
}

// sessions is what a connection keeps from one fetch to the next. The zero sessions
// is ready.
type sessions struct {
	current  *session
	waiter   *topic.Waiter
	followed map[topic.TopicPartition]bool
}

// resume returns the session of a fetch, of ID 0 if there is to be none, and the
// partitions to fetch.
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

// update takes over what a request adds, changes and forgets.
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

// rotate drops what was found and moves the partitions that had something behind
// those that had nothing, so that none starves.
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

// follow makes the connection's waiter wake when a partition grows; known says that
// it did so already.
func (ss *sessions) follow(ctx context.Context, topics *topic.Catalog, t *topic.Topic, num int32) (known bool, err error) {
	if ss.waiter == nil {
		ss.waiter, ss.followed = topics.NewWaiter(), map[topic.TopicPartition]bool{}
	}
	k := topic.TopicPartition{Topic: t, Partition: num}
	known = ss.followed[k]
	if err := ss.waiter.Add(ctx, t, num); err != nil { // also if known: what it follows may have ended
		return false, err
	}
	ss.followed[k] = true
	return known, nil
}

// keepOnly forgets the partitions that the connection no longer fetches.
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

func (ss *sessions) close() {
	if ss.waiter != nil {
		ss.waiter.Close()
	}
}
