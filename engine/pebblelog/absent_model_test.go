package pebblelog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

var absentSpaces = map[string]mainstem.Policy{"all": {}, "one": {History: 1}, "three": {History: 3}}

// reopenedLog returns a log whose spaces are not new: what is absent must be looked for.
func reopenedLog(tb testing.TB, hot int) *pebblelog.Log {
	tb.Helper()
	dir := tb.TempDir()
	o := pebblelog.WithHotBytes(pebblelog.Options{Durability: mainstem.OS, KeyStateCache: 2}, hot)
	l, err := pebblelog.Open(dir, o)
	for name, p := range absentSpaces {
		if err == nil {
			err = l.CreateSpace(tb.Context(), name, p)
		}
	}
	if err == nil {
		err = l.Close()
	}
	if err == nil {
		l, err = pebblelog.Open(dir, o)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return l
}

// absentModel says which keys of the spaces are there.
type absentModel struct {
	t    *testing.T
	l    *pebblelog.Log
	rng  *rand.Rand
	live map[string]bool // by space and key
}

func (m *absentModel) commit(b *mainstem.Batch) error {
	_, err := m.l.Commit(m.t.Context(), b)
	return err
}

// look reads a key in one of three ways, and reports whether it is there.
func (m *absentModel) look(space string, key []byte) (live bool) {
	ctx := m.t.Context()
	switch m.rng.IntN(3) {
	case 0:
		_, err := m.l.Get(ctx, space, key)
		return err == nil
	case 1:
		for r, err := range m.l.Read(ctx, space, key, mainstem.Versions{Reverse: m.rng.IntN(2) == 0}) {
			if err != nil {
				m.t.Fatal(err)
			}
			live = live || r.Live()
		}
	default:
		for r, err := range m.l.GetMany(ctx, space, [][]byte{key}) {
			if err != nil {
				m.t.Fatal(err)
			}
			live = r.Version > 0
		}
	}
	return live
}

// step looks for a key, lets something happen, and commits a put of it if it is absent.
func (m *absentModel) step(step int) {
	space, n := []string{"all", "one", "three"}[m.rng.IntN(3)], m.rng.IntN(40)
	key := fmt.Appendf(nil, "key-%d", n)
	name := space + "/" + string(key)
	if got := m.look(space, key); got != m.live[name] {
		m.t.Fatalf("step %d: %s is there: %v, want %v", step, name, got, m.live[name])
	}
	m.happen(space, key, name)
	b := mainstem.NewBatch()
	b.IfAbsent(space, key)
	b.Put(space, key, make([]byte, m.rng.IntN(300)))
	err := m.commit(b)
	if errors.Is(err, mainstem.ErrConflict) != m.live[name] || err != nil && !errors.Is(err, mainstem.ErrConflict) {
		m.t.Fatalf("step %d: a put of %s, if it is absent: %v; it is there: %v", step, name, err, m.live[name])
	}
	m.live[name] = true
	if m.rng.IntN(3) > 0 {
		b := mainstem.NewBatch()
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: space, Key: key})
		if err := m.commit(b); err != nil {
			m.t.Fatal(err)
		}
		m.live[name] = false
	}
}

func (m *absentModel) happen(space string, key []byte, name string) {
	b := mainstem.NewBatch()
	switch n := m.rng.IntN(12); {
	case n < 2: // somebody else puts the key
		b.Put(space, key, []byte("other"))
		m.live[name] = true
	case n == 2: // and others, so that it leaves the hot tier
		b.Put(space, key, []byte("other"))
		m.live[name] = true
		if err := m.commit(b); err != nil {
			m.t.Fatal(err)
		}
		for i := range 20 {
			b.Reset()
			b.Put(space, fmt.Appendf(nil, "filling-%d", i), make([]byte, 700))
			if err := m.commit(b); err != nil {
				m.t.Fatal(err)
			}
		}
		return
	case n == 3: // the space begins anew
		if err := m.l.DropSpace(m.t.Context(), space); err != nil {
			m.t.Fatal(err)
		}
		b.Ensure(space, absentSpaces[space])
		b.Put(space, []byte("first"), nil)
		for other := range m.live {
			if other[:len(space)+1] == space+"/" {
				delete(m.live, other)
			}
		}
	case n == 4: // a group that goes past the hot tier
		b.Put("three", []byte("first"), nil)
		b.Put(space, key, []byte("other"))
		m.live[name] = true
	case n == 5:
		b.Truncate(space, []byte("first"), 1)
	default:
		return
	}
	if err := m.commit(b); err != nil && !errors.Is(err, mainstem.ErrInvalid) && !errors.Is(err, mainstem.ErrNotFound) {
		m.t.Fatal(err)
	}
}

// TestAbsentKeysBesideModel looks for keys, in spaces that are not new, and puts them if they are absent: in between
// they are written, written and drained, forgotten, or their spaces dropped.
func TestAbsentKeysBesideModel(t *testing.T) {
	for seed := range uint64(6) {
		m := absentModel{t: t, l: reopenedLog(t, tiny<<(2*(seed%3))), rng: rand.New(rand.NewPCG(seed, 3)), live: map[string]bool{}}
		for step := range 400 {
			m.step(step)
		}
	}
}

// TestAbsentKeysAreTakenOnce lets several goroutines look for keys and put those that they do not find.
func TestAbsentKeysAreTakenOnce(t *testing.T) {
	l := reopenedLog(t, tiny)
	const keys, workers = 300, 4
	var taken [keys]atomic.Int32
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range keys {
				key := fmt.Appendf(nil, "key-%d", i)
				if _, err := l.Get(t.Context(), "one", key); err == nil {
					continue
				}
				b := mainstem.NewBatch()
				b.IfAbsent("one", key)
				b.Put("one", key, make([]byte, 100))
				if i%7 == 0 { // by an edit
					b.Put("three", key, nil)
				}
				switch _, err := l.Commit(t.Context(), b); {
				case err == nil:
					taken[i].Add(1)
				case !errors.Is(err, mainstem.ErrConflict):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range taken {
		if n := taken[i].Load(); n != 1 {
			t.Errorf("key %d was taken %d times", i, n)
		}
	}
}

// BenchmarkReadThenNewKey gets a key that is not there, and commits it if it is absent, in a space with 200,000
// others that was there when the log was opened.
func BenchmarkReadThenNewKey(b *testing.B) {
	for _, space := range []string{"all", "one"} {
		b.Run(space, func(b *testing.B) {
			l := reopenedLog(b, pebblelog.DefaultMemTableBytes)
			fill(b, l, space, absentSpaces[space], 200_000, 1)
			batch := mainstem.NewBatch()
			b.ResetTimer()
			for i := range b.N {
				key := fmt.Appendf(nil, "new-%d", i)
				if _, err := l.Get(b.Context(), space, key); !errors.Is(err, mainstem.ErrNotFound) {
					b.Fatal(err)
				}
				batch.Reset()
				batch.IfAbsent(space, key)
				batch.Put(space, key, event61)
				if _, err := l.Commit(b.Context(), batch); err != nil && !errors.Is(err, mainstem.ErrConflict) {
					b.Fatal(err)
				}
			}
		})
	}
}
