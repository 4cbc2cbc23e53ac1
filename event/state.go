package event

import (
	"context"

	"github.com/mainstemdev/mainstem"
)

// State is the input from which the state of a stream is computed: the newest valid snapshot, and
// the events after it.
type State struct {
	Snapshot *Snapshot  // nil if there is no valid one
	Events   []Recorded // after the snapshot; all stored events if there is none
	// Version is the version of the state: of the last event, of the snapshot if there is no event
	// after it, of the tombstone if the stream was deleted, 0 if there is none. Without UpTo, an
	// append that expects AtVersion(Version) succeeds if nothing was appended since.
	Version mainstem.Version
	// Gap is true if events that the state depends on are missing: they were truncated, and no
	// snapshot covers them. It is also true for events written after [Store.ForgetTo].
	Gap bool
}

// StateOptions select what [Store.LoadState] returns. Nil and the zero value select the
// newest state.
type StateOptions struct {
	UpTo mainstem.Version // the state as of this version; 0 means the newest
	// SnapshotType, if not "", is the only Type of snapshots that are used; others, in other forms
	// or of other programs, are ignored.
	SnapshotType string
	NoSnapshot   bool // read no snapshot, only events
}

// LoadState returns a snapshot of stream and the events after it, up to o.UpTo, as of one moment:
// concurrent appends, snapshots, truncations and deletions have no effect on the result. A snapshot
// is used only if the stream continues it: one that was saved late, for a stream that was deleted
// since, is ignored. A stream that does not exist has the zero State.
func (s *Store) LoadState(ctx context.Context, stream string, o *StateOptions) (State, error) {
	if err := checkStream("load state", stream); err != nil {
		return State{}, err
	}
	if o == nil {
		o = &StateOptions{}
	}
	upTo := o.UpTo
	snap, record, err := s.snapshot(ctx, stream, o)
	if err != nil {
		return State{}, err
	}
	for {
		st, fits, err := s.stateSince(ctx, stream, snap, upTo)
		if err != nil || fits {
			return st, err
		}
		// The events that were read do not fit the snapshot, or have a gap. Either that is the
		// state of the stream, or the snapshot was replaced or removed between the two reads.
		was, without := record, snap == nil
		if snap, record, err = s.snapshot(ctx, stream, o); err != nil {
			return State{}, err
		}
		if record == was {
			if without {
				return st, nil
			}
			snap = nil
		}
	}
}

// stateSince reads the stream from snap on, or from its beginning if snap is nil, and reports
// whether snap fits and no event is missing.
func (s *Store) stateSince(ctx context.Context, stream string, snap *Snapshot, upTo mainstem.Version) (State, bool, error) {
	c := s.collector()
	defer s.release(c)
	r := &stateReader{collector: c, snap: snap}
	v := mainstem.Versions{To: upTo}
	if snap != nil {
		// The snapshot's last event is read too: it proves that the snapshot is of this stream and
		// not of one that was deleted.
		v.From, r.began = snap.Version, true
		r.st.Snapshot, r.st.Version = snap, snap.Version
	}
	// The sequence is called and not ranged over, because each variable of a loop would be
	// allocated.
	s.log.Read(ctx, s.spaces.events, []byte(stream), v)(r.add)
	if r.err != nil || r.other {
		return State{}, false, r.err
	}
	r.st.Events = c.flush(r.st.Events)
	if r.records == 0 && (snap != nil || upTo != 0) {
		return s.stateOfNothing(ctx, stream, r.st, upTo)
	}
	return r.st, !r.st.Gap, nil
}

// stateReader builds a state from the records of a stream.
type stateReader struct {
	collector *collector
	snap      *Snapshot
	st        State
	began     bool // the beginning of the stream, or the last event of the snapshot, was seen
	other     bool // the snapshot is of a stream that was deleted, or events after it are missing
	records   int
	err       error
}

// add handles one record, and reports whether to continue.
func (r *stateReader) add(rec mainstem.Record, err error) bool {
	if err != nil {
		if !isNotFound(err) {
			r.err = err
		}
		return false
	}
	r.records++
	switch {
	case !rec.Live():
		r.other = r.snap != nil // deleted after the snapshot
		r.began, r.st.Version = true, rec.Version
		return !r.other
	case r.snap != nil && rec.Version == r.snap.Version:
		return true
	case r.snap != nil && rec.Version != r.st.Version+1:
		r.other = true // truncated after the snapshot
		return false
	case !r.began:
		r.began, r.st.Gap = true, rec.Version > 1
	}
	if r.err = r.collector.add(&rec); r.err != nil {
		return false
	}
	r.st.Version = rec.Version
	if r.collector.full() {
		r.st.Events = r.collector.flush(r.st.Events)
	}
	return true
}

// stateOfNothing decides the result if the stream has no records from the snapshot of st, or from
// the beginning, up to upTo.
func (s *Store) stateOfNothing(ctx context.Context, stream string, st State, upTo mainstem.Version) (State, bool, error) {
	snap := st.Snapshot
	for rec, err := range s.log.Read(ctx, s.spaces.events, []byte(stream), mainstem.Versions{Limit: 1}) {
		switch {
		case isNotFound(err):
		case err != nil:
			return State{}, false, err
		case snap == nil:
			st.Gap = rec.Live() // the events up to upTo were truncated
			return st, !st.Gap, nil
		default:
			// The remaining events begin after the snapshot, or end before it. The snapshot fits if
			// its version is the one that was asked for, and the stream has not been deleted since.
			return st, rec.Live() && rec.Version > snap.Version && snap.Version == upTo, nil
		}
	}
	if snap == nil {
		return st, true, nil
	}
	// No events are left. Either all were truncated after the snapshot was saved, so that it is the
	// whole state; or all are being removed, with the snapshot.
	again, _, err := s.snapshot(ctx, stream, &StateOptions{UpTo: snap.Version, SnapshotType: snap.Type})
	return st, err == nil && again != nil && again.Version == snap.Version, err
}
