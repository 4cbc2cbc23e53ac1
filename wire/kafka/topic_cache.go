package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// cacheAge is how long the handle of a topic is used after it was found, without another
// lookup. A lookup costs a Produce request about as much as storing a small batch. The handle of
// a topic that was deleted meanwhile returns errors, upon which clients ask for the metadata.
const cacheAge = 50 * time.Millisecond

// maxCached bounds the handles in the cache. When it is full, all are dropped, since no other
// step removes those that are too old.
const maxCached = 10_000

// topicCache has the handles of topics by name or ID, as Produce and Fetch requests name
// them. It may be used by many goroutines. The zero topicCache is ready.
type topicCache struct {
	sync.RWMutex
	of map[cacheKey]cachedSource
}

// cacheKey is how a request names a topic: id is zero if it gives the name, name is empty if
// it gives the ID.
type cacheKey struct {
	name string
	id   topic.ID
}

type cachedSource struct {
	src partition.Reader
	at  time.Time
}

// get returns a topic that was set less than cacheAge ago.
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

// recently is [Server.source] with a cache, for frequent requests: it may return a topic that
// was deleted up to cacheAge ago. Only topics that exist are cached.
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
