package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// cacheAge is how long a topic that was found is taken to be there still. Looking
// for it costs a request as much as storing a small batch. A topic that is gone
// meanwhile refuses what is done with it, and clients then ask for the metadata.
const cacheAge = 50 * time.Millisecond

// maxCached is how many topics are remembered, so that those which are gone do not
// pile up.
const maxCached = 10_000

// topicCache remembers the topics that were found a moment ago. The zero topicCache is ready.
type topicCache struct {
	sync.RWMutex
	of map[cacheKey]cachedSource
}

type cacheKey struct {
	name string
	id   topic.ID
}

type cachedSource struct {
	src partition.Reader
	at  time.Time
}

// get returns a topic that was found a moment ago.
func (r *topicCache) get(k cacheKey) (partition.Reader, bool) {
	r.RLock()
	defer r.RUnlock()
	e, ok := r.of[k]
	return e.src, ok && time.Since(e.at) < cacheAge
}

func (r *topicCache) set(k cacheKey, src partition.Reader) {
	r.Lock()
	defer r.Unlock()
	if r.of == nil || len(r.of) >= maxCached {
		r.of = map[cacheKey]cachedSource{}
	}
	r.of[k] = cachedSource{src, time.Now()}
}

// recently is [Server.source] for what is asked for again and again, and does not
// mind that a topic was deleted a moment ago.
func (s *Server) recently(ctx context.Context, name string, id topic.ID) (partition.Reader, error) {
	k := cacheKey{name, id}
	if src, ok := s.topicCache.get(k); ok {
		return src, nil
	}
	src, err := s.source(ctx, name, id)
	if err == nil {
		s.topicCache.set(k, src)
	}
	return src, err
}
