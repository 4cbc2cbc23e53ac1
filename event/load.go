package event

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
)

// LoadOptions select events of one stream. Nil and the zero value select all of them, oldest first.
// Bounds are inclusive; an event must meet all of them.
type LoadOptions struct {
	From     mainstem.Version // only versions >= From. The cursor after version v is From: v+1
	To       mainstem.Version // only versions <= To; 0 means to the newest
	Backward bool             // newest first
	Limit    int              // at most this many events; 0 means no limit

	// UpTo and Until select the stream as it was at a position of the log, or at a time, as far as
	// its events are still stored. Zero means now.
	UpTo  mainstem.Position
	Until time.Time

	// Follow makes [Store.Events] wait for new events, also of a stream that does not exist yet. It
	// excludes Backward, To, UpTo and Until, and [Store.Load] refuses it.
	Follow bool

	// Into is what [Store.Load] appends the events to; nil means a new slice. A caller who loads
	// again and again can reuse the slice of an earlier result, cut to length 0: its events are
	// overwritten, but their Data, names and metadata are not, so copies of them stay valid.
	Into []Recorded
}

func (o *LoadOptions) check() error {
	switch {
	case o.Limit < 0:
		return mainstem.Errorf(mainstem.KindInvalid, "load", "Limit is %d: want 0 (none) or more", o.Limit)
	case o.Follow && (o.Backward || o.To != 0 || o.UpTo != 0 || !o.Until.IsZero()):
		return mainstem.Errorf(mainstem.KindInvalid, "load", "Follow excludes Backward, To, UpTo and Until")
	}
	return nil
}

// after reports whether rec is later than UpTo or Until.
func (o *LoadOptions) after(rec *mainstem.Record) bool {
	return o.UpTo != 0 && rec.Position > o.UpTo || !o.Until.IsZero() && rec.Time.After(o.Until)
}

// Load returns events of stream. For a stream that does not exist, or was deleted, it returns none
// and no error. The events belong to the caller; those of one Load share blocks of memory, so use
// [Recorded.Clone] to keep a single event for long. With o.Into the result begins with the events
// of that slice; after an error it is nil, and the memory beyond o.Into may have changed.
func (s *Store) Load(ctx context.Context, stream string, o *LoadOptions) ([]Recorded, error) {
	if o == nil {
		o = &LoadOptions{}
	}
	if o.Follow {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "load", "Follow never ends: use Events")
	}
	c := s.collector()
	defer s.release(c)
	out := o.Into
	err := s.read(ctx, stream, o, func(rec mainstem.Record) (bool, error) {
		if err := c.add(&rec); err != nil {
			return false, err
		}
		if c.full() {
			out = c.flush(out)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return c.flush(out), nil
}

// Events yields the events that [Store.Load] returns, one by one, for streams that do not fit in
// memory. Data is lent until the loop body returns; use [Recorded.Clone] to keep an event. The
// sequence ends after the first error.
func (s *Store) Events(ctx context.Context, stream string, o *LoadOptions) iter.Seq2[Recorded, error] {
	if o == nil {
		o = &LoadOptions{}
	}
	return func(yield func(Recorded, error) bool) {
		dec := s.decoders.Get().(*decoder)
		defer s.decoders.Put(dec)
		err := s.read(ctx, stream, o, func(rec mainstem.Record) (bool, error) {
			r, err := dec.recorded(&rec, stream)
			return err == nil && yield(r, nil), err
		})
		if err != nil {
			yield(Recorded{}, err)
		}
	}
}

// read calls do for the record of each event that o selects, with Follow also for those appended
// later, until do returns false or an error.
func (s *Store) read(ctx context.Context, stream string, o *LoadOptions, do func(mainstem.Record) (bool, error)) error {
	if err := checkStream("load", stream); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	key := []byte(stream)
	n := 0
	for {
		for rec, err := range s.log.Read(ctx, s.spaces.events, key, o.versions()) {
			if isNotFound(err) {
				break // the store has no space yet
			}
			if err != nil {
				return err
			}
			if o.after(&rec) {
				if o.Backward {
					continue
				}
				return nil
			}
			if !rec.Live() {
				continue
			}
			if more, err := do(rec); !more {
				return err
			}
			if n++; n == o.Limit {
				return nil
			}
		}
		if !o.Follow {
			return nil
		}
		// Unlike Read, Feed can wait for a space that does not exist.
		for _, err := range s.log.Feed(ctx, mainstem.Filter{Spaces: []string{s.spaces.events}, KeyPrefix: key, Follow: true}) {
			if err != nil {
				return err
			}
			break
		}
	}
}

// versions returns the selection for the log. A stream that was deleted begins with a tombstone,
// which forwards is one record more than the limit; backwards it is the last record. With UpTo or
// Until backwards the number of records to skip is unknown, so the log gets no limit.
func (o *LoadOptions) versions() mainstem.Versions {
	v := mainstem.Versions{From: o.From, To: o.To, Reverse: o.Backward, Follow: o.Follow}
	if o.Limit > 0 && !o.Follow && !(o.Backward && (o.UpTo != 0 || !o.Until.IsZero())) {
		v.Limit = o.Limit
		if !o.Backward && v.Limit < math.MaxInt {
			v.Limit++
		}
	}
	return v
}
