package event

import (
	"context"

	"github.com/mainstemdev/mainstem"
)

// State is what the state of a stream is computed from: the newest snapshot
// that fits, and the events after it.
type State struct {
	Snapshot *Snapshot  // nil if there is none that fits
	Events   []Recorded // after the snapshot; all events held if there is none
	// Version is the version that the state is at: of the last event, of the
	// snapshot if nothing came after it, of the tombstone if the stream was deleted,
	// 0 if there is none. Without a version bound, AtVersion(Version) expects that
	// nothing was appended since.
	Version mainstem.Version
	// Gap is true if events that the state is made of are missing: they were
	// truncated, and no snapshot covers them. It is also true for what was written
	// after [Store.ForgetTo].
	Gap bool
}

// StateOptions select what [Store.LoadState] returns. Nil and the zero value select the
// newest state.
type StateOptions struct {
	UpTo mainstem.Version // the state as of this version; 0 means the newest
	// SnapshotType, if not "", is the only Type of snapshots that are used: those of other
	// forms of the state, or of other programs, are passed over.
	SnapshotType string
	NoSnapshot   bool // no snapshot is read: the state is made of events alone
}

// LoadState returns a snapshot of stream and the events after it, up to the version
// that o names, of one moment: concurrent appends, snapshots, truncations
// and deletions do not come between. A snapshot is used only if the stream has, or
// would have, exactly the events that follow it; one that was saved too late, about a
// life of the stream that has ended since, is not. A stream that does not exist has
// the zero State.
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
		// What was read does not fit the snapshot, or has a gap. Either that is how it
		// is, or the snapshot was replaced or removed between the two reads.
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

// stateSince reads the stream from snap on, from its beginning if that is nil, and
// reports whether snap fits and nothing is missing.
func (s *Store) stateSince(ctx context.Context, stream string, snap *Snapshot, upTo mainstem.Version) (State, bool, error) {
	c := s.collector()
	defer s.release(c)
	r := &stateReader{collector: c, snap: snap}
	v := mainstem.Versions{To: upTo}
	if snap != nil {
		// The snapshot's last event is read too: it proves that the stream is the one.
		v.From, r.began = snap.Version, true
		r.st.Snapshot, r.st.Version = snap, snap.Version
	}
	// It is called, and not ranged over: each variable of a loop would be allocated.
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

// stateReader makes a state of the records of a stream.
type stateReader struct {
	collector *collector
	snap      *Snapshot
	st        State
	began     bool // a beginning of the stream, or the snapshot, was seen
	other     bool // the stream is not the one that the snapshot is of, or events after it are missing
	records   int
	err       error
}

// add takes a record, and reports whether the next one is to come.
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

// stateOfNothing decides what it means that the stream holds nothing from the
// snapshot of st, or from the beginning, up to upTo.
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
			// What is left begins after the snapshot, or ends before it: it fits if it is
			// all that was asked for, and the stream has not been deleted since.
			return st, rec.Live() && rec.Version > snap.Version && snap.Version == upTo, nil
		}
	}
	if snap == nil {
		return st, true, nil
	}
	// Nothing is left at all: everything was truncated after the snapshot was saved,
	// which is the whole state then; or all is being removed, the snapshot too.
	again, _, err := s.snapshot(ctx, stream, &StateOptions{UpTo: snap.Version, SnapshotType: snap.Type})
	return st, err == nil && again != nil && again.Version == snap.Version, err
}
