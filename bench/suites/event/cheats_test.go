package event

import (
	"context"
	"slices"
	"sync"
)

// The cheats. Each is honest but for what its method does.
type (
	appendsNothing struct{ *mapStore }
	appendsFew     struct{ *mapStore }
	appendsHalf    struct{ *mapStore }
	losesOne       struct{ *mapStore }
	dropsMetadata  struct{ *mapStore }
	neverConflicts struct{ *mapStore }
	appendsTwice   struct{ *mapStore }
	loadsReversed  struct{ *mapStore }
	loadsStale     struct {
		*mapStore
		known sync.Map
	}
	loadsCut      struct{ *mapStore }
	feedsReversed struct{ *mapStore }
	feedsHoles    struct{ *mapStore }
	infoStale     struct {
		*mapStore
		once sync.Once
		info Info
		last uint64
	}
	tellsNothing  struct{ *mapStore }
	tellsReversed struct{ *mapStore }
	tellsHoles    struct{ *mapStore }
	forgets       struct{ *mapStore }
)

func (s *appendsNothing) Append(context.Context, string, int64, []Event) (uint64, error) {
	return 1, nil
}

func (s *appendsFew) Append(ctx context.Context, stream string, expected int64, events []Event) (uint64, error) {
	if stream[len(stream)-1] == '7' {
		return 1, nil
	}
	return s.mapStore.Append(ctx, stream, expected, events)
}

func (s *appendsHalf) Append(ctx context.Context, stream string, expected int64, events []Event) (uint64, error) {
	return s.mapStore.Append(ctx, stream, expected, events[:(len(events)+1)/2])
}

// lost is a stream in the middle of a scale test, that a sample rarely has.
const lost = "bench1-17777"

func (s *losesOne) Append(ctx context.Context, stream string, expected int64, events []Event) (uint64, error) {
	if stream == lost {
		return 1, nil
	}
	return s.mapStore.Append(ctx, stream, expected, events)
}

func (s *dropsMetadata) Append(ctx context.Context, stream string, expected int64, events []Event) (uint64, error) {
	events = slices.Clone(events)
	for i := range events {
		events[i].Metadata = nil
	}
	return s.mapStore.Append(ctx, stream, expected, events)
}

func (s *neverConflicts) Append(ctx context.Context, stream string, _ int64, events []Event) (uint64, error) {
	return s.mapStore.Append(ctx, stream, AnyVersion, events)
}

func (s *appendsTwice) Append(ctx context.Context, stream string, expected int64, events []Event) (uint64, error) {
	if _, err := s.mapStore.Append(ctx, stream, expected, events); err != nil {
		return 0, err
	}
	return s.mapStore.Append(ctx, stream, AnyVersion, events)
}

func (s *loadsReversed) Load(ctx context.Context, stream string, from uint64, into []Recorded) ([]Recorded, error) {
	into, err := s.mapStore.Load(ctx, stream, from, into)
	slices.Reverse(into)
	return into, err
}

func (s *loadsStale) Load(ctx context.Context, stream string, from uint64, into []Recorded) ([]Recorded, error) {
	if v, ok := s.known.Load(len(into)); ok { // the answer to an other question
		return append(into, v.([]Recorded)...), nil
	}
	got, err := s.mapStore.Load(ctx, stream, from, into)
	s.known.Store(len(into), slices.Clone(got))
	return got, err
}

func (s *loadsCut) Load(ctx context.Context, stream string, from uint64, into []Recorded) ([]Recorded, error) {
	into, err := s.mapStore.Load(ctx, stream, from, into)
	return into[:len(into)/2], err
}

func (s *feedsReversed) Feed(ctx context.Context, after uint64, limit int, into []Recorded) ([]Recorded, error) {
	into, err := s.mapStore.Feed(ctx, after, limit, into)
	slices.Reverse(into)
	return into, err
}

func (s *feedsHoles) Feed(ctx context.Context, after uint64, limit int, into []Recorded) ([]Recorded, error) {
	into, err := s.mapStore.Feed(ctx, after, limit, into)
	return slices.DeleteFunc(into, func(e Recorded) bool { return e.Position%7 == 3 }), err
}

func (s *infoStale) fill(ctx context.Context, stream string) {
	s.once.Do(func() {
		s.info, _ = s.mapStore.Info(ctx, stream)
		s.last, _ = s.mapStore.LastPosition(ctx)
	})
}

func (s *infoStale) Info(ctx context.Context, stream string) (Info, error) {
	s.fill(ctx, stream)
	return s.info, nil
}

func (s *infoStale) LastPosition(ctx context.Context) (uint64, error) {
	s.fill(ctx, "")
	return s.last, nil
}

func (s *tellsNothing) Subscribe(ctx context.Context, _ uint64, _ func(*Recorded)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *tellsReversed) Subscribe(ctx context.Context, after uint64, each func(*Recorded)) error {
	page, err := s.Feed(ctx, after, 1<<30, nil)
	slices.Reverse(page)
	for i := range page {
		each(&page[i])
	}
	<-ctx.Done()
	return err
}

func (s *tellsHoles) Subscribe(ctx context.Context, after uint64, each func(*Recorded)) error {
	return s.mapStore.Subscribe(ctx, after, func(e *Recorded) {
		if e.Position%7 != 3 {
			each(e)
		}
	})
}

// Append leaves the file as it is: what was appended is not in it.
func (s *forgets) Append(ctx context.Context, stream string, expected int64, events []Event) (uint64, error) {
	s.mu.Lock()
	s.file = ""
	s.mu.Unlock()
	return s.mapStore.Append(ctx, stream, expected, events)
}

// cheats says in which cases each cheat must be caught.
var cheats = []struct {
	name  string
	open  func() Store
	cases []string
}{
	{"appends nothing", func() Store { return &appendsNothing{newMapStore()} }, []string{"append/single", "append/batch-10", "append/8-workers", "append/same-stream", "append/expected", "mixed/write-80", "contention/any", "scale/sequential", "scale/many-streams", "scale/one-stream"}},
	{"leaves out appends", func() Store { return &appendsFew{newMapStore()} }, []string{"append/single", "append/batch-100", "append/32-workers", "mixed/write-80"}},
	{"appends half a batch", func() Store { return &appendsHalf{newMapStore()} }, []string{"append/batch-5", "append/batch-100", "load/1000", "scale/batch-100"}},
	{"drops metadata", func() Store { return &dropsMetadata{newMapStore()} }, []string{"append/metadata"}},
	{"expects nothing", func() Store { return &neverConflicts{newMapStore()} }, []string{"append/expected", "contention/exact"}},
	{"appends twice", func() Store { return &appendsTwice{newMapStore()} }, []string{"append/single", "append/batch-10", "append/same-stream", "contention/exact"}},
	{"loads backwards", func() Store { return &loadsReversed{newMapStore()} }, []string{"load/10", "load/10000", "load/1000-from-501", "mixed/read-80", "append/batch-10"}},
	{"loads what was", func() Store { return &loadsStale{mapStore: newMapStore()} }, []string{"mixed/load-while-writing", "append/expected"}},
	{"loads a part", func() Store { return &loadsCut{newMapStore()} }, []string{"load/10", "load/100", "load/1000-from-501", "mixed/read-80", "scale/load"}},
	{"feeds backwards", func() Store { return &feedsReversed{newMapStore()} }, []string{"append/single", "feed/page"}},
	{"feeds with holes", func() Store { return &feedsHoles{newMapStore()} }, []string{"append/single", "append/8-workers", "feed/page"}},
	{"tells with holes", func() Store { return &tellsHoles{newMapStore()} }, []string{"subscribe", "feed/catch-up"}},
	{"knows the past only", func() Store { return &infoStale{mapStore: newMapStore()} }, []string{"info/stream", "info/last-position"}},
	{"tells of nothing", func() Store { return &tellsNothing{newMapStore()} }, []string{"subscribe", "feed/catch-up"}},
	{"tells backwards", func() Store { return &tellsReversed{newMapStore()} }, []string{"feed/catch-up"}},
}
