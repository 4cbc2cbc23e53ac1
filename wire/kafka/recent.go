package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/topic"
)

// recentAge is how long a topic that was found is taken to be there still. Looking
// for it costs a request as much as storing a small batch. A topic that is gone
// meanwhile refuses what is done with it, and clients then ask for the metadata.
const recentAge = 50 * time.Millisecond

// maxRecent is how many topics are remembered, so that those which are gone do not
// pile up.
const maxRecent = 10_000

// recent remembers the topics that were found a moment ago. The zero recent is ready.
type recent struct {
	sync.RWMutex
	of map[recentKey]recentSource
}

type recentKey struct {
	name string
	id   topic.ID
}

type recentSource struct {
	src topic.Reader
	at  time.Time
}

// get returns a topic that was found a moment ago.
func (r *recent) get(k recentKey) (topic.Reader, bool) {
	r.RLock()
	defer r.RUnlock()
	e, ok := r.of[k]
	return e.src, ok && time.Since(e.at) < recentAge
}

func (r *recent) set(k recentKey, src topic.Reader) {
	r.Lock()
	defer r.Unlock()
	if r.of == nil || len(r.of) >= maxRecent {
		r.of = map[recentKey]recentSource{}
	}
	r.of[k] = recentSource{src, time.Now()}
}

// recently is [Server.source] for what is asked for again and again, and does not
// mind that a topic was deleted a moment ago.
func (s *Server) recently(ctx context.Context, name string, id topic.ID) (topic.Reader, error) {
	k := recentKey{name, id}
	if src, ok := s.recent.get(k); ok {
		return src, nil
	}
	src, err := s.source(ctx, name, id)
	if err == nil {
		s.recent.set(k, src)
	}
	return src, err
}
