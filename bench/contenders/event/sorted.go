package event

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// sorted is what an event store can be made of: keys in order.
type sorted interface {
	// get returns a copy of the value of key, nil if there is none.
	get(key []byte) ([]byte, error)
	// scan calls each for the keys from start to before end, in order, until it
	// returns false. What it is given is lent.
	scan(start, end []byte, each func(key, value []byte) (more bool, err error)) error
	// apply writes all pairs or none. Calls do not overlap; what one wrote, the next
	// reads. Wait returns when it has the durability that the contender states.
	apply(pairs []pair) (wait func() error, err error)
	clear() error
	close() error
}

type pair struct{ key, value []byte }

// sortedStore is an event store as one writes it by hand on a storage engine: an
// event under its stream and version, an index of positions that refers to it, and
// the version of each stream. Who appends holds a lock until the engine has the
// batch, and waits for the disk without it.
//
//	s <stream> 0 <version, 8 bytes>  ->  <position, 8 bytes> <event>
//	p <position, 8 bytes>            ->  <version, 8 bytes> <stream>
//	h <stream>                       ->  <version, 8 bytes>
type sortedStore struct {
	engine sorted
	mu     sync.Mutex
	last   uint64            // position, under mu
	heads  map[string]uint64 // versions that are known, under mu
}

// newSorted reads the last position that engine holds.
func newSorted(engine sorted) (*sortedStore, error) {
	s := &sortedStore{engine: engine, heads: map[string]uint64{}}
	v, err := engine.get([]byte("last"))
	if len(v) == 8 {
		s.last = binary.BigEndian.Uint64(v)
	}
	return s, err
}

func eventKey(stream string, version uint64) []byte {
	k := append(append(append(make([]byte, 0, len(stream)+10), 's'), stream...), 0)
	return binary.BigEndian.AppendUint64(k, version)
}

func positionKey(p uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'p'}, p) }

func (s *sortedStore) Append(_ context.Context, stream string, expected int64, events []event.Event) (uint64, error) {
	version, wait, err := s.begin(stream, expected, events)
	if err != nil {
		return 0, err
	}
	return version, wait()
}

// begin gives the events their versions and positions and hands them to the engine.
func (s *sortedStore) begin(stream string, expected int64, events []event.Event) (uint64, func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, err := s.headLocked(stream)
	if err != nil {
		return 0, nil, err
	}
	if expected != event.AnyVersion && version != uint64(expected) {
		return 0, nil, event.ErrConflict
	}
	pairs := make([]pair, 0, 2*len(events)+2)
	position := s.last
	for i := range events {
		version++
		position++
		value, err := encode(position, &events[i])
		if err != nil {
			return 0, nil, err
		}
		reference := append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(stream)), version), stream...)
		pairs = append(pairs, pair{eventKey(stream, version), value}, pair{positionKey(position), reference})
	}
	pairs = append(pairs, pair{append([]byte{'h'}, stream...), binary.BigEndian.AppendUint64(nil, version)},
		pair{[]byte("last"), binary.BigEndian.AppendUint64(nil, position)})
	wait, err := s.engine.apply(pairs)
	if err != nil {
		return 0, nil, err
	}
	s.last, s.heads[stream] = position, version
	return version, wait, nil
}

func (s *sortedStore) headLocked(stream string) (uint64, error) {
	if v, ok := s.heads[stream]; ok {
		return v, nil
	}
	v, err := s.engine.get(append([]byte{'h'}, stream...))
	if len(v) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// encode makes a value: position, length of type, type, length of metadata, metadata
// as JSON, data.
func encode(position uint64, e *event.Event) ([]byte, error) {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 16+len(e.Type)+len(e.Data)), position)
	v = append(binary.AppendUvarint(v, uint64(len(e.Type))), e.Type...)
	var m []byte
	if e.Metadata != nil {
		var err error
		if m, err = json.Marshal(e.Metadata); err != nil {
			return nil, err
		}
	}
	v = append(binary.AppendUvarint(v, uint64(len(m))), m...)
	return append(v, e.Data...), nil
}

// decode reads what encode makes, and copies it.
func decode(v []byte) (r event.Recorded, err error) {
	if len(v) < 8 {
		return r, fmt.Errorf("a value of %d bytes", len(v))
	}
	r.Position = binary.BigEndian.Uint64(v)
	v = append([]byte(nil), v[8:]...)
	var typ, m []byte
	if typ, v, err = field(v); err != nil {
		return r, err
	}
	if m, v, err = field(v); err != nil {
		return r, err
	}
	r.Type, r.Data = string(typ), v
	if len(m) > 0 {
		err = json.Unmarshal(m, &r.Metadata)
	}
	return r, err
}

func field(v []byte) (value, rest []byte, err error) {
	n, used := binary.Uvarint(v)
	if used <= 0 || uint64(len(v)-used) < n {
		return nil, nil, fmt.Errorf("a field of %d bytes in %d", n, len(v))
	}
	v = v[used:]
	return v[:n], v[n:], nil
}

func (s *sortedStore) Load(_ context.Context, stream string, from uint64, into []event.Recorded) ([]event.Recorded, error) {
	end := eventKey(stream, 0)
	end = end[:len(end)-8]
	end[len(end)-1] = 1
	err := s.engine.scan(eventKey(stream, from), end, func(key, value []byte) (bool, error) {
		r, err := decode(value)
		r.Version = binary.BigEndian.Uint64(key[len(key)-8:])
		into = append(into, r)
		return true, err
	})
	return into, err
}

func (s *sortedStore) Feed(_ context.Context, after uint64, limit int, into []event.Recorded) ([]event.Recorded, error) {
	var found []event.Recorded
	err := s.engine.scan(positionKey(after+1), []byte{'p' + 1}, func(_, value []byte) (bool, error) {
		found = append(found, event.Recorded{Version: binary.BigEndian.Uint64(value), Stream: string(value[8:])})
		return len(found) < limit, nil
	})
	if err != nil {
		return into, err
	}
	for _, f := range found {
		v, err := s.engine.get(eventKey(f.Stream, f.Version))
		if err != nil {
			return into, err
		}
		r, err := decode(v)
		if err != nil {
			return into, err
		}
		r.Stream, r.Version = f.Stream, f.Version
		into = append(into, r)
	}
	return into, nil
}

func (s *sortedStore) Info(_ context.Context, stream string) (event.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.headLocked(stream)
	return event.Info{Version: v, Count: v}, err
}

func (s *sortedStore) LastPosition(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, nil
}

func (s *sortedStore) Clear(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.heads)
	return s.engine.clear()
}

func (s *sortedStore) Close() error { return s.engine.close() }

// done is the wait of an engine that has waited already.
func done() error { return nil }
