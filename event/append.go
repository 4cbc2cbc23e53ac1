package event

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
)

// AppendTo adds events to the end of stream as part of b, in their order. The stream must meet the
// expectation at the batch's place in the order, before any write of the batch itself; otherwise
// nothing of the batch is written, and the error of Commit is a [*ConflictError] or [*SealedError].
// A batch may append to a stream several times: each expectation is then about the version before
// the batch.
//
// The batch borrows the events' Data, which must not change until Commit has returned; everything
// else is copied. An append that can never be written (a bad name, no events, a type missing) fails
// the batch: Commit returns that Invalid error.
//
// [Store.Result] finds the versions and positions in the receipt. To append to a single stream,
// [Store.Append] is shorter, and idempotent by event ID.
func (s *Store) AppendTo(b *mainstem.Batch, stream string, expected Expected, events []Event) {
	events = s.tagged(events)
	if err := s.checkAppend(stream, expected, events); err != nil {
		b.Fail(err)
		return
	}
	var enc encoder
	s.append(b, &enc, stream, expected, events)
}

// ExpectTo makes b depend on a stream that it need not write: nothing of the batch is written
// unless stream meets the expectation. AnyVersion adds no condition.
func (s *Store) ExpectTo(b *mainstem.Batch, stream string, expected Expected) {
	if err := s.checkStreamAnd("expect", stream, expected); err != nil {
		b.Fail(err)
		return
	}
	b.ExplainWith(s)
	expected.addCondition(b, s.spaces.events, []byte(stream))
}

func (s *Store) checkAppend(stream string, expected Expected, events []Event) error {
	if err := s.checkStreamAnd("append", stream, expected); err != nil {
		return err
	}
	if len(events) == 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "append", "stream %.60q: no events; use Expect to demand a version without writing", stream)
	}
	for i := range events {
		if err := events[i].check("append", i, s.opts.MaxEventBytes); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkStreamAnd(op, stream string, expected Expected) error {
	if err := checkStream(op, stream); err != nil {
		return err
	}
	return expected.check(op)
}

// append adds conditions and writes to b, with all their memory from enc, and reports whether every
// event had an ID already.
func (s *Store) append(b *mainstem.Batch, enc *encoder, stream string, expected Expected, events []Event) (identified bool) {
	return s.appendIndexed(b, enc, s.expectAppend(b), stream, expected, events)
}

// appendIndexed is append without the condition on the control record. The caller gives the index
// of that record, or nil.
func (s *Store) appendIndexed(b *mainstem.Batch, enc *encoder, x *index, stream string, expected Expected, events []Event) (identified bool) {
	extra := len(stream)
	if x != nil {
		if err := x.checkIndexed("append", events); err != nil {
			b.Fail(err)
			return false
		}
		b.Ensure(s.spaces.tags, tagsPolicy)
		extra += x.indexSize(events, len(stream))
	}
	enc.reserve(events, extra)
	key := enc.keep(stream)
	b.Ensure(s.spaces.events, mainstem.Policy{})
	b.ExplainWith(s)
	b.IfAbsent(s.spaces.seals, key)
	expected.addCondition(b, s.spaces.events, key)
	identified = true
	var now int64
	for i := range events {
		id := events[i].ID
		if id.IsZero() {
			identified = false
			if s.opts.NewID != nil {
				id = s.opts.NewID()
			} else {
				if now == 0 {
					now = time.Now().UnixMilli()
				}
				id = newIDAt(now)
			}
		}
		if x != nil {
			s.addIndex(b, enc, x, key, &events[i])
		}
		b.Add(mainstem.Write{Space: s.spaces.events, Key: key, Value: events[i].Data, Headers: enc.event(&events[i], id)})
	}
	return identified
}

// Appended is the result of an append: the versions, positions and time of its events.
type Appended struct {
	Stream string
	// First and Last are the versions of the first and last event. The versions of the others are
	// between them, without gaps.
	First, Last mainstem.Version
	// FirstPosition and LastPosition are the positions of the first and last event. The positions
	// of the others are between them, in order.
	FirstPosition, LastPosition mainstem.Position
	// Time is the commit time of the events.
	Time time.Time
	// Duplicate is true if the events had been appended before. The other fields are then those of
	// the first append, and nothing was written.
	Duplicate bool
}

// Result returns the versions and positions of the events that b appended to stream, given the
// receipt of its Commit; false if b appended none. If b appended several times, the result spans
// all of them. On an engine that leaves gaps between the positions of one batch, the positions are
// known only for batches of a single write, and 0 otherwise.
func (s *Store) Result(b *mainstem.Batch, r mainstem.Receipt, stream string) (Appended, bool) {
	a := Appended{Stream: stream, Time: r.Time, Duplicate: r.Duplicate}
	writes := b.Writes()
	if len(writes) != len(r.Versions) {
		return Appended{}, false // the receipt is that of another batch
	}
	var records, first, last mainstem.Position // numbers within the batch
	for i := range writes {
		if r.Versions[i] == 0 {
			continue
		}
		w := &writes[i]
		if w.Op == mainstem.OpPut && w.Space == s.spaces.events && string(w.Key) == stream {
			if a.First == 0 {
				a.First, first = r.Versions[i], records
			}
			a.Last, last = r.Versions[i], records
		}
		records++
	}
	if a.First == 0 {
		return Appended{}, false
	}
	s.learn(b, r)
	if r.Last-r.First+1 == records {
		a.FirstPosition, a.LastPosition = r.First+first, r.First+last
	}
	return a, true
}

// writer holds the batch and buffers of an Append. Writers are pooled, so that an Append allocates
// no more than the log's Commit.
type writer struct {
	batch   mainstem.Batch
	enc     encoder
	scratch []byte // used by batchID
}

// maxPooledBytes is the largest header memory, in bytes, that a pooled writer keeps.
const maxPooledBytes = 1 << 20

func (s *Store) put(w *writer) {
	w.batch.Reset()
	clear(w.enc.headers)
	if cap(w.enc.bytes)+cap(w.scratch) <= maxPooledBytes {
		s.writers.Put(w)
	}
}

// Append appends events to stream and returns their versions and positions. When it returns, the
// events have the durability of [Options.Durability]. The errors are [*ConflictError] and
// [*SealedError], NotFound if [StreamExists] did not hold, Invalid for an append that can never be
// written, and those of Commit.
//
// Append is idempotent by event ID, if every event has one: appending the same IDs in the same
// order to the same stream again writes nothing and returns the result of the first Append, with
// Duplicate set. Precisely:
//
//   - With an exact version or [NoStream] expected, and the same expectation as the first time,
//     this holds as long as the stream still has the events, also between concurrent calls and
//     after a restart. An expectation that the first write did not meet is a conflict.
//   - Within the time for which the log keeps batch IDs (24 hours by default in engine/pebblelog),
//     it holds with any expectation that the first write met, even if the events were truncated or
//     deleted since: a late retry never restores them.
//   - [AnyVersion] and [StreamExists] rely on the batch IDs kept by the log alone.
//
// Only the IDs are compared, not type, data or metadata. Appends by [Store.AppendTo] are recognised
// by the first rule only. Without IDs, an Append whose outcome is unknown cannot be repeated
// safely.
func (s *Store) Append(ctx context.Context, stream string, expected Expected, events []Event) (Appended, error) {
	events = s.tagged(events)
	if err := s.checkAppend(stream, expected, events); err != nil {
		return Appended{}, err
	}
	for try := 1; ; try++ {
		a, err := s.appendOnce(ctx, stream, expected, events)
		if try == staleTries || !isStale(err) {
			return a, err
		}
	}
}

// appendOnce is one attempt of Append. It fails with a [*StaleIndexError] if the index differs from
// the one that the handle has read.
func (s *Store) appendOnce(ctx context.Context, stream string, expected Expected, events []Event) (Appended, error) {
	w := s.writers.Get().(*writer)
	defer s.put(w)
	b := &w.batch
	b.Durability = s.opts.Durability
	identified := s.append(b, &w.enc, stream, expected, events)
	if identified {
		b.ID = s.batchID(&w.scratch, stream, events)
	}
	r, err := s.log.Commit(ctx, b)
	switch {
	case err != nil && identified && !isStale(err):
		return s.recover(ctx, stream, expected, events, err)
	case err != nil:
		return Appended{}, s.Explain(ctx, err)
	}
	s.learn(b, r)
	if r.Duplicate {
		return s.appendedEarlier(ctx, r, stream, expected, len(events))
	}
	last := r.Versions[len(r.Versions)-1] // the last event is the last write
	a := Appended{
		Stream: stream, First: last - mainstem.Version(len(events)) + 1, Last: last,
		FirstPosition: r.First, LastPosition: r.Last, Time: r.Time,
	}
	if b.Len() > len(events) { // records of the index come before the first event
		done, _ := s.Result(b, r, stream)
		a.FirstPosition = done.FirstPosition
	}
	return a, nil
}

// appendedEarlier returns the result of an Append whose batch ID is that of an earlier batch, which
// may have written records of an index and of inline projections too.
func (s *Store) appendedEarlier(ctx context.Context, r mainstem.Receipt, stream string, expected Expected, n int) (Appended, error) {
	a, err := s.resultOfEarlier(ctx, r, stream, n)
	if err != nil {
		return Appended{}, err
	}
	if a.First == 0 { // gone: the last event is the last write, unless there were inline projections
		a.Last = r.Versions[len(r.Versions)-1]
		a.First = a.Last - mainstem.Version(n) + 1
	}
	if err := s.checkRetry(ctx, a, expected); err != nil {
		return Appended{}, err
	}
	return a, nil
}
