package kv

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// The cheats. Each is honest but for what its method does.
type (
	writesNothing struct{ *mapStore }
	writesFew     struct{ *mapStore }
	readsStale    struct {
		*mapStore
		cache sync.Map
	}
	readsCut   struct{ *mapStore }
	listsStale struct {
		*mapStore
		cache sync.Map
	}
	pagesUnordered struct{ *mapStore }
	deletesNothing struct{ *mapStore }
	swapsAlways    struct{ *mapStore }
	swapsBlindly   struct{ *mapStore }
	mixesUp        struct{ *mapStore }
	tellsNothing   struct{ *mapStore }
	tellsWrong     struct{ *mapStore }
	setsHalf       struct{ *mapStore }
	losesOne       struct{ *mapStore }
)

func (s *writesNothing) Set(ctx context.Context, table, key string, value []byte) error {
	if key == first {
		return s.mapStore.Set(ctx, table, key, value)
	}
	return nil
}

func (s *writesFew) Set(ctx context.Context, table, key string, value []byte) error {
	if strings.HasSuffix(key, "7") {
		return nil
	}
	return s.mapStore.Set(ctx, table, key, value)
}

func (s *readsStale) Get(ctx context.Context, table, key string) ([]byte, error) {
	if v, ok := s.cache.Load(key); ok {
		return v.([]byte), nil
	}
	v, err := s.mapStore.Get(ctx, table, key)
	if err == nil {
		s.cache.Store(key, v)
	}
	return v, err
}

func (s *readsStale) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, k := range keys {
		values[i], _ = s.Get(ctx, table, k)
	}
	return values, nil
}

func (s *readsCut) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.mapStore.Get(ctx, table, key)
	return v[:len(v)/2], err
}

func (s *listsStale) Keys(ctx context.Context, table string) ([]string, error) {
	if v, ok := s.cache.Load(table); ok {
		return v.([]string), nil
	}
	v, err := s.mapStore.Keys(ctx, table)
	s.cache.Store(table, v)
	return v, err
}

func (s *pagesUnordered) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	keys, err := s.mapStore.Page(ctx, table, offset, limit)
	slices.Reverse(keys)
	return keys, err
}

func (s *deletesNothing) Delete(context.Context, string, string) error { return nil }

func (s *swapsAlways) Swap(ctx context.Context, table, key string, _ Version, value []byte) (Version, error) {
	return Version{Value: value}, s.Set(ctx, table, key, value)
}

func (s *swapsBlindly) Swap(context.Context, string, string, Version, []byte) (Version, error) {
	return Version{}, nil
}

func (s *mixesUp) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	values, err := s.mapStore.GetMany(ctx, table, keys)
	slices.Reverse(values)
	return values, err
}

func (s *tellsNothing) Watch(ctx context.Context, _ string, ready func(), _ func(string, []byte)) error {
	ready()
	<-ctx.Done()
	return ctx.Err()
}

func (s *tellsWrong) Watch(ctx context.Context, table string, ready func(), each func(string, []byte)) error {
	return s.mapStore.Watch(ctx, table, ready, func(key string, _ []byte) { each(key, []byte("something")) })
}

func (s *setsHalf) SetMany(ctx context.Context, table string, pairs []Pair) error {
	return s.mapStore.SetMany(ctx, table, pairs[:(len(pairs)+1)/2])
}

// lost is a key in the middle of a scale test, that a sample rarely has.
const lost = "key-7777"

func (s *losesOne) Set(ctx context.Context, table, key string, value []byte) error {
	if key == lost {
		return nil
	}
	return s.mapStore.Set(ctx, table, key, value)
}

func (s *losesOne) SetMany(ctx context.Context, table string, pairs []Pair) error {
	return s.mapStore.SetMany(ctx, table, slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return p.Key == lost }))
}

// cheats says in which cases each cheat must be caught.
var cheats = []struct {
	name  string
	open  func() Store
	cases []string
}{
	{"writes nothing", func() Store { return &writesNothing{newMapStore()} }, []string{"set", "set/8-clients", "set-get", "get", "set-large", "set-get-large", "get-large", "compare-and-set", "watch"}},
	{"leaves out writes", func() Store { return &writesFew{newMapStore()} }, []string{"set", "set/32-clients", "set-get", "set-large"}},
	{"reads what was", func() Store { return &readsStale{mapStore: newMapStore()} }, []string{"set-get", "get", "get-large", "get-many/100"}},
	{"reads a part", func() Store { return &readsCut{newMapStore()} }, []string{"set", "set-get", "get", "get/spread", "get-large", "set-get-large"}},
	{"lists what was", func() Store { return &listsStale{mapStore: newMapStore()} }, []string{"list"}},
	{"pages without order", func() Store { return &pagesUnordered{newMapStore()} }, []string{"page"}},
	{"deletes nothing", func() Store { return &deletesNothing{newMapStore()} }, []string{"delete", "delete-large"}},
	{"swaps whatever is there", func() Store { return &swapsAlways{newMapStore()} }, []string{"compare-and-set"}},
	{"swaps nothing", func() Store { return &swapsBlindly{newMapStore()} }, []string{"compare-and-set", "compare-and-set/8-clients"}},
	{"mixes values up", func() Store { return &mixesUp{newMapStore()} }, []string{"get-many/100"}},
	{"tells of nothing", func() Store { return &tellsNothing{newMapStore()} }, []string{"watch"}},
	{"tells of something else", func() Store { return &tellsWrong{newMapStore()} }, []string{"watch"}},
	{"writes half of many", func() Store { return &setsHalf{newMapStore()} }, []string{"set-many/100", "scale/set-many"}},
}
