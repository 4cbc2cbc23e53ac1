package eventcmd

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// maxKnown bounds how many event IDs an import remembers: 16 bytes each, and
// about as much again for the map. Streams that are needed again are read again.
const maxKnown = 4 << 20

// knownEvents are the streams of an import with IDs: what they hold, and at which
// version that was true.
type knownEvents struct {
	streams map[string]*knownStream
	ids     int // in all streams
}

type knownStream struct {
	version event.Expected // what the next append expects
	ids     map[event.ID]struct{}
}

func newKnownEvents() *knownEvents {
	return &knownEvents{streams: make(map[string]*knownStream)}
}

// stream returns what is known of a stream, reading it the first time.
func (k *knownEvents) stream(ctx context.Context, s *event.Store, name string) (*knownStream, error) {
	if known, ok := k.streams[name]; ok {
		return known, nil
	}
	known := &knownStream{version: event.NoStream, ids: make(map[event.ID]struct{})}
	for e, err := range s.Events(ctx, name, nil) {
		if err != nil {
			return nil, err
		}
		known.ids[e.ID] = struct{}{}
		known.version = event.AtVersion(e.Version)
	}
	k.streams[name] = known
	k.ids += len(known.ids)
	return known, nil
}

// trim forgets everything if it has become too much. It is called between batches.
func (k *knownEvents) trim() {
	if k.ids > maxKnown {
		*k = *newKnownEvents()
	}
}

// forget makes the streams of items be read again.
func (k *knownEvents) forget(items []eventRow) {
	for i := range items {
		if known, ok := k.streams[items[i].stream]; ok {
			k.ids -= len(known.ids)
			delete(k.streams, items[i].stream)
		}
	}
}

// conflictRetries is how often a batch is put together anew because somebody
// else wrote to one of its streams, or the index of the store changed.
const conflictRetries = 20

// doubtful is a batch whose outcome is unknown.
type doubtful struct {
	batch   *mainstem.Batch
	written int // events, if it is written
}

// commitNew appends the events of items that their streams do not hold yet. It
// expects each stream to be as it was read, so that what two imports append at
// the same time is there once. A batch whose outcome was unknown is committed again
// as it was, by its ID: its events are not taken for those of somebody else.
func (t *eventRows) commitNew(ctx context.Context, id string, items []eventRow) (written int, err error) {
	t.known.trim()
	if d := t.doubt; d != nil && d.batch.ID == id {
		_, err := t.log.Commit(ctx, d.batch)
		if err == nil {
			t.doubt = nil
			return d.written, nil
		}
		if err = t.store.Explain(ctx, err); !isOutdated(err) {
			return 0, err
		}
		t.doubt = nil // it was not written, and never will be
	}
	for range conflictRetries {
		written, err = t.tryNew(ctx, id, items)
		if err == nil {
			return written, nil
		}
		t.known.forget(items)
		if !isOutdated(err) {
			return 0, err
		}
	}
	return 0, err
}

// isOutdated reports whether a batch was made for streams or an index that have
// changed since.
func isOutdated(err error) bool {
	var conflict *event.ConflictError
	return errors.As(err, &conflict) || isStale(err)
}

func (t *eventRows) tryNew(ctx context.Context, id string, items []eventRow) (int, error) {
	b := mainstem.NewBatch()
	touched, written := make(map[string]bool), 0
	for i := range items {
		known, err := t.known.stream(ctx, t.store, items[i].stream)
		if err != nil {
			return 0, err
		}
		e := &items[i].event
		if _, there := known.ids[e.ID]; there {
			continue
		}
		known.ids[e.ID] = struct{}{}
		t.known.ids++
		touched[items[i].stream] = true
		t.store.AppendTo(b, items[i].stream, known.version, []event.Event{*e})
		written++
	}
	if written == 0 {
		return 0, nil
	}
	b.ID = id
	r, err := t.log.Commit(ctx, b)
	if errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.doubt = &doubtful{b, written}
	}
	if err != nil {
		return 0, t.store.Explain(ctx, err)
	}
	for stream := range touched {
		if a, ok := t.store.Result(b, r, stream); ok {
			t.known.streams[stream].version = event.AtVersion(a.Last)
		}
	}
	return written, nil
}
