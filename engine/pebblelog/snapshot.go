package pebblelog

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
)

// Snapshot is the log at one moment. It implements [mainstem.Snapshot]. Records that expire or
// are deleted later are still in it; deleted ones keep their disk space until Close. Its methods
// may be called from many goroutines at once.
type Snapshot struct {
	l        *Log
	db       *pebble.Snapshot
	spaces   *registry
	maxAges  map[uint32]int64 // ns, by number of the space; later changes of policies have no effect
	position uint64
	at       moment
	readers  readers
	close    sync.Once
	err      error
}

// snapshots are the open snapshots: Close of the log closes them first.
type snapshots struct {
	sync.Mutex
	open map[*Snapshot]struct{}
}

// Snapshot implements [mainstem.Snapshotter]. It waits for its place in the order of commits.
// Between two commits Pebble has everything that was committed, so that a Pebble snapshot, the
// registry and the position show the same moment. The hot tier is not used.
func (l *Log) Snapshot(ctx context.Context) (mainstem.Snapshot, error) {
	var s *Snapshot
	err := l.between(ctx, "snapshot", func() {
		s = &Snapshot{l: l, db: l.db.NewSnapshot(), spaces: l.spaces.Load(), position: l.position.Load(), at: l.moment()}
		s.maxAges = s.spaces.maxAges()
		s.readers.last = make(chan struct{}, 1)
		l.snapshots.Lock()
		defer l.snapshots.Unlock()
		l.snapshots.open[s] = struct{}{}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// maxAges returns how long records live, in ns, for the spaces with a limit.
func (r *registry) maxAges() map[uint32]int64 {
	out := map[uint32]int64{}
	for _, s := range r.byName {
		if age := s.policy.Load().MaxAge; age > 0 {
			out[s.id] = int64(age)
		}
	}
	return out
}

// count returns the number of open snapshots.
func (o *snapshots) count() int {
	o.Lock()
	defer o.Unlock()
	return len(o.open)
}

// closeAll closes all open snapshots.
func (o *snapshots) closeAll() {
	o.Lock()
	all := slices.Collect(maps.Keys(o.open))
	o.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
}

func (s *Snapshot) view() view { return view{l: s.l, db: s.db, snap: s} }

func snapshotFollow(op string) error {
	return mainstem.Errorf(mainstem.KindUnsupported, op, "a snapshot does not change: Follow would wait without end")
}

// Get implements [mainstem.Reader].
func (s *Snapshot) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	return s.view().get(ctx, space, key)
}

// Scan implements [mainstem.Reader].
func (s *Snapshot) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return s.view().scan(ctx, space, r)
}

// Read implements [mainstem.Reader].
func (s *Snapshot) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return s.view().read(ctx, space, key, v)
}

// Feed implements [mainstem.Reader].
func (s *Snapshot) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return s.view().feed(ctx, f)
}

// Head implements [mainstem.Reader].
func (s *Snapshot) Head(context.Context) (mainstem.Position, error) {
	if s.readers.closed.Load() {
		return 0, &mainstem.Error{Kind: mainstem.KindClosed, Op: "head"}
	}
	return mainstem.Position(s.position), nil
}

// Close waits for the reads under way and releases the snapshot. Close of the log closes
// snapshots that are still open.
func (s *Snapshot) Close() error {
	s.close.Do(func() {
		s.readers.close()
		s.err = mapError("close snapshot", s.db.Close())
		s.l.snapshots.Lock()
		defer s.l.snapshots.Unlock()
		delete(s.l.snapshots.open, s)
	})
	return s.err
}
