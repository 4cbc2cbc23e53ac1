package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Topics are created because a client names them. A client that names many, by mistake
// or not, must not fill the log with topics, so three limits hold for creation that
// nobody asked for; CreateTopics has none of them:
//
//   - one request creates at most maxAutoCreatePerRequest topics;
//   - all requests together create Options.AutoCreateRate a minute: a bucket of so many
//     tokens, which is full at first and fills at that rate;
//   - none is created once there are Options.AutoCreateTopics topics.
//
// The first two are answered with LEADER_NOT_AVAILABLE, as by a broker of Kafka that is
// about to create the topic: clients ask again. The third is POLICY_VIOLATION.

// maxAutoCreatePerRequest bounds the topics that one request creates.
const maxAutoCreatePerRequest = 100

// autoCreation is the bucket of tokens, one for each topic.
type autoCreation struct {
	mu struct {
		sync.Mutex
		tokens float64   // at most the rate
		filled time.Time // when tokens was right; zero at first
		warned time.Time // when the last refusal was logged
	}
}

// take takes one token of a bucket of perMinute, and reports false if there is none.
func (a *autoCreation) take(now time.Time, perMinute int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	full := float64(perMinute)
	if a.mu.filled.IsZero() {
		a.mu.tokens = full
	} else if passed := now.Sub(a.mu.filled); passed > 0 { // a clock may have been set back
		a.mu.tokens = min(full, a.mu.tokens+passed.Minutes()*full)
	}
	a.mu.filled = now
	if a.mu.tokens < 1 {
		return false
	}
	a.mu.tokens--
	return true
}

// warn reports true at most once a minute: refusals must not fill the server's log.
func (a *autoCreation) warn(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.mu.warned.IsZero() && now.Sub(a.mu.warned) < time.Minute {
		return false
	}
	a.mu.warned = now
	return true
}

// autoCreate creates a topic because a client asked for it, unless that is not
// allowed: then it returns the error given, for a name that could be a topic's. made is
// how many the request has created, and is increased.
func (s *Server) autoCreate(ctx context.Context, name string, made *int, otherwise error) (partition.Reader, error) {
	if err := topic.ValidateName(name); err != nil {
		return nil, err
	}
	if s.o.NoAutoCreate || s.projectedFrom(name) != nil { // what is shown there may come to be
		return nil, otherwise
	}
	if err := s.mayAutoCreate(ctx, *made); err != nil {
		s.o.Metrics.NotCreated()
		if s.autoCreation.warn(s.o.Now()) {
			s.o.Logger.Warn("kafka topic not created though a client asked for it; such refusals are logged once a minute", "topic", name, "error", err)
		}
		return nil, err
	}
	*made++
	t, err := s.topics.Create(ctx, name, topic.Spec{Partitions: s.o.Partitions})
	if errors.Is(err, mainstem.ErrExists) { // created meanwhile by somebody else, however it is
		t, err = s.topics.Topic(ctx, name)
	}
	s.groups.TopicsChanged()
	if err != nil {
		return nil, err
	}
	s.o.Logger.Info("kafka topic created because a client asked for it", "topic", name, "partitions", s.o.Partitions)
	return t, nil
}

// mayAutoCreate returns nil if the limits allow another topic. The rate comes before the
// number, which costs a look at all topics.
func (s *Server) mayAutoCreate(ctx context.Context, made int) error {
	if made >= maxAutoCreatePerRequest {
		return refuse(kerr.LeaderNotAvailable, "one request creates at most %d topics: ask again for the others, or create them with CreateTopics", maxAutoCreatePerRequest)
	}
	if !s.autoCreation.take(s.o.Now(), s.o.AutoCreateRate) {
		return refuse(kerr.LeaderNotAvailable, "more than %d topics a minute that clients only name: ask again, raise kafka-auto-create-rate, or use CreateTopics", s.o.AutoCreateRate)
	}
	n := 0
	for _, err := range s.log.Spaces(ctx, topic.SpacePrefix) {
		if err != nil {
			return err
		}
		n++
	}
	if n >= s.o.AutoCreateTopics {
		return refuse(kerr.PolicyViolation, "there are %d topics, and topics that clients only name are created up to %d: raise kafka-auto-create-topics or use CreateTopics", n, s.o.AutoCreateTopics)
	}
	return nil
}
