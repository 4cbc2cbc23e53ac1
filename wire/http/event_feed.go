package viewhttp

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// feedQuery reads which events of a store are asked for.
func (c *call) feedQuery() (o event.FeedOptions, err error) {
	after, err := c.number("after")
	if err != nil {
		return o, err
	}
	o.After, o.Category, o.Types = mainstem.Position(after), c.query.Get("category"), c.query["type"]
	err = c.flags(map[string]*bool{"archived": &o.Archived, "deletions": &o.Deletions})
	if err == nil && c.query.Has("tag") && (o.Category != "" || o.Archived || o.Deletions) {
		err = invalid("the parameter tag does not go with category, archived and deletions: tags select events whatever their streams are")
	}
	return o, err
}

// events reads the events of a store that the query selects, in the order of the log.
type events func(ctx context.Context, o *event.FeedOptions) iter.Seq2[event.Recorded, error]

// feedOf returns how events are read: those that have all tags of the query by the index of the
// store, if it has one.
func (c *call) feedOf(s *event.Store) events {
	tags := c.query["tag"]
	if len(tags) == 0 {
		return s.Feed
	}
	return func(ctx context.Context, o *event.FeedOptions) iter.Seq2[event.Recorded, error] {
		q := event.Query{{Types: o.Types, Tags: tags}}
		return s.Query(ctx, q, &event.QueryOptions{After: o.After, Limit: o.Limit, Follow: o.Follow})
	}
}

func getFeed(c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	o, err := c.feedQuery()
	if err != nil {
		return err
	}
	from := c.feedOf(s)
	if c.accepts(mediaEvents) {
		return followFeed(c, s, from, o)
	}
	if c.accepts(mediaLines) {
		limit, err := c.number("limit")
		if err != nil {
			return err
		}
		return c.stream(mediaLines, feedSource(from, o, int(limit)))
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	p := page{c: c, limit: limit}
	o.Limit = limit + 1
	last, full := o.After, false
	for r, err := range from(c.ctx, &o) {
		if err != nil {
			return err
		}
		more, err := p.add(recordedOf(&r), sizeOfEvent(&r))
		if err != nil {
			return err
		}
		if !more {
			full = true
			break
		}
		last = r.Position
	}
	// Also of the last page: the next events come after it.
	return p.send("events", map[string]any{"next": position(last), "more": full})
}

// followFeed follows all events of a store that the query selects.
func followFeed(c *call, s *event.Store, from events, o event.FeedOptions) error {
	if c.query.Has("limit") {
		return invalid("a follower does not take the parameter limit")
	}
	after, given, err := c.lastEvent()
	if err != nil {
		return err
	}
	if given {
		o.After = after
	}
	if err := c.resumable(s.Space(), o.After); err != nil {
		return err
	}
	o.Follow = true
	return c.stream(mediaEvents, feedSource(from, o, 0))
}

// feedSource sends events in the order of the log, at most left of them if that is not 0.
func feedSource(from events, o event.FeedOptions, left int) source {
	return func(ctx context.Context, send func(frame) error) error {
		o.Limit = left
		for r, err := range from(ctx, &o) {
			if err != nil {
				return err
			}
			if err := send(frame{id: idOf(r.Position), event: "event", data: recordedOf(&r), size: sizeOfEvent(&r)}); err != nil {
				return err
			}
			o.After = r.Position
			if left--; left == 0 {
				return nil
			}
		}
		return nil
	}
}

// streamEntry is a stream of a list, in JSON.
type streamEntry struct {
	Stream   string    `json:"stream"`
	Version  uint64    `json:"version"`
	Position position  `json:"position"`
	Updated  time.Time `json:"updated"`
	Archived bool      `json:"archived,omitempty"`
	Deleted  bool      `json:"deleted,omitempty"`
}

func getStreams(c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	o := event.ListOptions{Prefix: c.query.Get("prefix"), Category: c.query.Get("category"), After: c.query.Get("after"), Limit: limit + 1}
	if err := c.flags(map[string]*bool{"reverse": &o.Reverse, "archived": &o.Archived, "deleted": &o.Deleted}); err != nil {
		return err
	}
	p := page{c: c, limit: limit}
	var next map[string]any
	last := ""
	for e, err := range s.Streams(c.ctx, &o) {
		if err != nil {
			return err
		}
		more, err := p.add(streamEntry{e.Stream, uint64(e.Version), position(e.Position), e.Updated.UTC(), e.Archived, e.Deleted}, len(e.Stream)+64)
		if err != nil {
			return err
		}
		if !more {
			next = map[string]any{"next": last}
			break
		}
		last = e.Stream
	}
	return p.send("streams", next)
}

func getStores(c *call) error {
	names := []string{}
	for name, err := range event.Stores(c.ctx, c.h.log) {
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	return c.answer(http.StatusOK, map[string][]string{"stores": names})
}

// storeStats describes a store in JSON.
type storeStats struct {
	Name     string    `json:"name"`
	Streams  int64     `json:"streams"`
	Events   counter   `json:"events"`
	Bytes    counter   `json:"bytes"`
	Position position  `json:"position"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

func getStore(c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	v, err := s.Stats(c.ctx)
	if err != nil {
		return err
	}
	if v.Created.IsZero() {
		return refuse(http.StatusNotFound, mainstem.KindNotFound, "there is no event store %.60q", s.Name())
	}
	return c.answer(http.StatusOK, storeStats{s.Name(), v.Streams, counter(v.Events), counter(v.Bytes), position(v.Last), v.Created.UTC(), v.Updated.UTC()})
}
