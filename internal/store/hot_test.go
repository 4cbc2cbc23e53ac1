package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/store"
)

func apply(t testing.TB, h *store.Hot, g *group) {
	t.Helper()
	if err := h.Apply(g.effects()); err != nil {
		t.Fatal(err)
	}
}

// ignore is a cold tier that nobody reads.
func ignore([]store.Change) error { return nil }

func TestRecordsDoNotChange(t *testing.T) {
	h := store.NewHot(64 << 10)
	var held []store.Records
	for i := range 500 {
		var g group
		g.appendEvents(1, "stream", uint64(i)+1, uint64(i)+1, 1, fmt.Sprintf("%0100d", i))
		apply(t, h, &g)
		held = append(held, h.Records(prefix(1, "stream")))
		if i%10 == 0 {
			if err := h.Drain(1<<20, ignore); err != nil {
				t.Fatal(err)
			}
		}
	}
	var gone group
	gone.delete(versionKey(1, "stream", 500))
	if err := errors.Join(h.Drain(1<<20, ignore), h.Invalidate(gone.effects())); err != nil {
		t.Fatal(err)
	}
	for i, r := range held {
		for j := range r.Len() {
			version := i + 1 - (r.Len() - 1 - j)
			want := body(uint64(version), uint64(version), fmt.Sprintf("%0100d", version-1))
			if !bytes.Equal(r.At(j), want) {
				t.Fatalf("read after %d: record %d of %d is %q, want %q", i+1, j, r.Len(), r.At(j), want)
			}
		}
	}
	if r := h.Records(prefix(1, "stream")); r.Len() != 0 {
		t.Errorf("%d records after the key was changed elsewhere", r.Len())
	}
}

// A tier keeps about as much as it may, unless the cold one falls behind; and it never
// forgets what is not cold.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20
	h := store.NewHot(limit)
	highest := 0
	for i := range 20_000 {
		var g group
		g.appendEvents(1, fmt.Sprintf("stream-%d", i), 1, uint64(i)+1, 1, fmt.Sprintf("%0100d", i))
		apply(t, h, &g)
		if h.Stats().Pending > limit/4 {
			if err := h.Drain(1<<20, ignore); err != nil {
				t.Fatal(err)
			}
		}
		highest = max(highest, h.Stats().Bytes)
	}
	if highest > limit*3/2 {
		t.Errorf("a tier of %d bytes took %d", limit, highest)
	}
	if highest < limit/2 {
		t.Errorf("a tier of %d bytes took no more than %d", limit, highest)
	}
	for i := range 20_000 { // nothing is cold from here on
		var g group
		g.appendEvents(2, fmt.Sprintf("stream-%d", i), 1, 20_000+uint64(i)+1, 1, fmt.Sprintf("%0100d", i))
		apply(t, h, &g)
	}
	for i := range 20_000 {
		if _, ok := h.Get(prefix(2, fmt.Sprintf("stream-%d", i))); !ok {
			t.Fatalf("stream %d is in neither tier", i)
		}
	}
}

// The feed blocks of many commits become few, and entries of slots that were superseded
// are never written.
func TestPiecesAreSmallerThanTheirGroups(t *testing.T) {
	h := store.NewHot(8 << 20)
	const n = 1000
	for i := range uint64(n) {
		var g group
		g.appendEvents(1, fmt.Sprintf("stream-%d", i), 1, 2*i+1, 1, fmt.Sprintf("%0100d", i))
		b := body(i+1, 2*i+2, "value")
		if i > 0 {
			g.delete(feedKey(3, 2*i))
		}
		g.set(slotKey(3, "key"), b)
		g.set(feedKey(3, 2*i+2), format.AppendFeedEntry(nil, []byte("key"), b))
		g.set([]byte{format.TagFrame}, format.AppendFrameNumber(nil, i+1))
		apply(t, h, &g)
	}
	count := map[byte]int{}
	err := h.Drain(1<<30, func(changes []store.Change) error {
		for _, c := range changes {
			count[c.Key[0]]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A feed block for each group, and the one of the slot.
	if count['v'] != n || count['k'] != 1 || count['f'] != n+1 || count['T'] != 1 || count['n'] != 1 {
		t.Errorf("%d v, %d k, %d f, %d T, %d n keys from %d groups", count['v'], count['k'], count['f'], count['T'], count['n'], n)
	}
}

func TestApplyRefusesChangesOfTheColdTier(t *testing.T) {
	h := store.NewHot(1 << 20)
	for name, change := range map[string]func(*group){
		"a range":             func(g *group) { g.deleteRange([]byte("k"), []byte("l")) },
		"a slot that goes":    func(g *group) { g.delete(slotKey(3, "key")) },
		"a receipt that goes": func(g *group) { g.delete(format.AppendReceiptKey(nil, "id")) },
		"an empty key":        func(g *group) { g.set(nil, nil) },
		"a wrong count":       func(g *group) { g.n++ },
		"half a change":       func(g *group) { g.changes = append(g.changes, 1) },
	} {
		var g group
		g.appendEvents(1, "stream", 1, 1, 1, "value")
		change(&g)
		if err := h.Apply(g.effects()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if s := h.Stats(); s.Groups != 0 || s.Pending != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, ok := h.Get(prefix(1, "stream")); ok {
		t.Error("a record of a group that was refused is there")
	}
	var g group
	g.appendEvents(1, "stream", 1, 1, 1, "value")
	apply(t, h, &g)
	if got, _ := h.Get(prefix(1, "stream")); !bytes.Equal(got, body(1, 1, "value")) {
		t.Errorf("after refused groups: %q", got)
	}
}

// One goroutine writes, some drain, and others read: a reader that looks into the hot tier
// first finds all that was there before.
func TestReadersBesideWriter(t *testing.T) {
	const streams, commits = 8, 4000
	h := store.NewHot(128 << 10)
	var cold sync.Map // of the newest version, by prefix
	var wg sync.WaitGroup
	done := make(chan struct{})
	write := func(changes []store.Change) error {
		for _, c := range changes {
			if c.Key[0] == format.TagVersion {
				p, v, err := format.SplitVersioned(c.Key)
				if err != nil {
					return err
				}
				cold.Store(string(p), v)
			}
		}
		return nil
	}
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := h.Drain(8<<10, write); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			seen := make([]uint64, streams)
			for i := 0; ; i = (i + 1) % streams {
				select {
				case <-done:
					return
				default:
				}
				p := prefix(1, fmt.Sprintf("stream-%d", i))
				newest, first := uint64(0), uint64(0)
				records := h.Records(p)
				if v, ok := cold.Load(string(p)); ok {
					newest = v.(uint64)
				}
				for j := range records.Len() {
					b, err := format.DecodeBody(records.At(j))
					if err != nil {
						t.Error(err)
						return
					}
					if j == 0 {
						if first = b.Version; first > newest+1 {
							t.Errorf("stream %d: the cold tier ends at %d, the hot one begins at %d", i, newest, first)
						}
					}
					if b.Version != first+uint64(j) {
						t.Errorf("stream %d: version %d at place %d from %d", i, b.Version, j, first)
					}
					newest = max(newest, b.Version)
				}
				if newest < seen[i] {
					t.Errorf("stream %d: version %d after %d", i, newest, seen[i])
				}
				seen[i] = newest
			}
		})
	}
	for i := range uint64(commits) {
		var g group
		g.appendEvents(1, fmt.Sprintf("stream-%d", i%streams), i/streams+1, i+1, 1, "some value")
		apply(t, h, &g)
	}
	close(done)
	wg.Wait()
}

// FuzzApply: a group of any bytes is refused, or taken and handed on as it is.
func FuzzApply(f *testing.F) {
	var g group
	g.appendEvents(1, "stream", 1, 1, 3, "value")
	g.set(slotKey(3, "key"), body(1, 4, "value"))
	g.delete(feedKey(3, 1))
	f.Add(g.effects())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, effects []byte) {
		if len(effects) > store.MaxGroup || !ascending(effects) {
			return
		}
		h := store.NewHot(1 << 20)
		if err := h.Apply(effects); err != nil {
			if s := h.Stats(); s.Groups != 0 {
				t.Fatalf("refused with %v, and there: %+v", err, s)
			}
			return
		}
		want := state{}
		want.apply(effects)
		got := state{}
		err := h.Drain(1<<20, func(changes []store.Change) error {
			for _, c := range changes {
				if !c.Delete {
					got[string(c.Key)] = string(c.Value)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("key %q: %q, want %q", k, got[k], v)
			}
		}
	})
}

// ascending reports whether the versions of each key ascend, as those of a log do.
func ascending(effects []byte) bool {
	newest := map[string]uint64{}
	_, rest, err := format.Effects(effects)
	for err == nil && len(rest) > 0 {
		var c format.Change
		if c, rest, err = format.NextChange(rest); err != nil || len(c.Key) == 0 || c.Key[0] != format.TagVersion {
			continue
		}
		p, v, serr := format.SplitVersioned(c.Key)
		b, derr := format.DecodeBody(c.Operand)
		if serr != nil || derr != nil || b.Version != v || v <= newest[string(p)] || c.Kind != format.ChangeSet {
			return false
		}
		newest[string(p)] = v
	}
	return true
}
