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

// A Metadata request creates the topics that it names and that do not exist, unless the
// client or Options.NoAutoCreate forbids it. A client that names many, by mistake or not, must
// not fill the log with topics. So this creation has three limits, which CreateTopics has not:
//
//   - One request creates at most maxAutoCreatePerRequest topics.
//   - All requests together create Options.AutoCreateRate topics a minute. This is a token
//     bucket: it has one token for each topic, is full at first, holds as many tokens as the
//     rate, and is filled at the rate.
//   - None is created while the log has Options.AutoCreateTopics topics or more, however
//     they were created.
//
// The first two limits are answered with LEADER_NOT_AVAILABLE, as by a broker of Kafka that
// is about to create the topic: clients ask again. The third is answered with
// POLICY_VIOLATION.

// maxAutoCreatePerRequest bounds the topics that one request creates.
const maxAutoCreatePerRequest = 100

// autoCreation is the token bucket. The zero autoCreation is full.
type autoCreation struct {
	mu struct {
		sync.Mutex
		tokens float64   // topics that may be created; from 0 to the rate
		filled time.Time // the time for which tokens was computed; zero at first
		warned time.Time // of the last refusal that was logged
	}
}

// take takes one token of a bucket of perMinute tokens. It returns false if there is none.
func (a *autoCreation) take(now time.Time, perMinute int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	full := float64(perMinute)
	if a.mu.filled.IsZero() {
		a.mu.tokens = full
	} else if passed := now.Sub(a.mu.filled); passed > 0 { // not if the clock was set back
		a.mu.tokens = min(full, a.mu.tokens+passed.Minutes()*full)
	}
	a.mu.filled = now
	if a.mu.tokens < 1 {
		return false
	}
	a.mu.tokens--
	return true
}

// warn returns whether a refusal may be logged: at most one a minute, so that refusals do not
// fill the log of the server.
func (a *autoCreation) warn(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.mu.warned.IsZero() && now.Sub(a.mu.warned) < time.Minute {
		return false
	}
	a.mu.warned = now
	return true
}

// autoCreate creates a topic with default configurations because a client named it, and
// returns it. made counts the topics that the request has created. An invalid name is Invalid.
// If automatic creation is off, or the name is reserved by a source, the error is otherwise.
// If a limit is reached, it is a refusal with the code for the client.
func (s *Server) autoCreate(ctx context.Context, name string, made *int, otherwise error) (partition.Reader, error) {
	if err := topic.ValidateName(name); err != nil {
		return nil, err
	}
	if s.o.NoAutoCreate || s.projectedFrom(name) != nil { // a source may show something under the name later
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
	if errors.Is(err, mainstem.ErrExists) { // created meanwhile by another client, perhaps with another configuration
		t, err = s.topics.Topic(ctx, name)
	}
	s.groups.TopicsChanged()
	if err != nil {
		return nil, err
	}
	s.o.Logger.Info("kafka topic created because a client asked for it", "topic", name, "partitions", s.o.Partitions)
	return t, nil
}

// mayAutoCreate returns nil if the limits allow another topic, of which made counts those of
// the request. The rate is checked before the number of topics, which costs a listing of all
// of them.
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
