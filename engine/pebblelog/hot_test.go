package pebblelog_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/invariants"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// tiny is a hot tier of a few groups: what a test writes lies in both tiers, and moves.
const tiny = 4 << 10

// TestProgramsWithTinyHotTier runs random programs beside the model where most records have
// left the hot tier, some are in both tiers, and some groups are too large for it.
func TestProgramsWithTinyHotTier(t *testing.T) {
	clock := enginetest.NewClock()
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits, f.Programs = clock, small, 20
	o := pebblelog.WithHotBytes(pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small, KeyStateCache: 4}, tiny)
	open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log { return must(t)(pebblelog.Open(dir, o)) })
	f.Reopen = reopen
	f.Restore = func(t *testing.T, backup io.Reader) mainstem.Log { return restore(o)(t, backup) }
	enginetest.RunPrograms(t, f, open)
}

// TestReadAcrossTiers reads streams of which the beginning is in sorted files or on its way
// there, and the end in memory.
func TestReadAcrossTiers(t *testing.T) {
	ctx := t.Context()
	l, err := pebblelog.OpenMemory(pebblelog.WithHotBytes(pebblelog.Options{}, tiny))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const streams, events = 3, 120
	for v := 1; v <= events; v++ {
		b := mainstem.NewBatch()
		for s := range streams {
			b.Ensure("s", mainstem.Policy{})
			b.Put("s", fmt.Appendf(nil, "stream-%d", s), fmt.Appendf(nil, "%d of %d", v, s))
		}
		if _, err := l.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		if v%10 != 0 {
			continue
		}
		for _, sel := range []mainstem.Versions{
			{}, {Reverse: true}, {From: 3, To: 7}, {From: mainstem.Version(v - 2)}, {To: mainstem.Version(v - 2), Reverse: true},
			{Limit: 5}, {Limit: 5, Reverse: true}, {From: 2, To: mainstem.Version(v - 1), Reverse: true}, {From: mainstem.Version(v + 1)},
		} {
			got, want := read(t, l, "stream-1", sel), selected(v, sel)
			if !slices.Equal(got, want) {
				t.Fatalf("of %d versions, %+v: %v, want %v", v, sel, got, want)
			}
		}
		for _, after := range []int{0, 1, streams*v - 40, streams*v - 5} {
			position := max(after, 0)
			for r, err := range l.Feed(ctx, mainstem.Filter{Spaces: []string{"s"}, After: mainstem.Position(position)}) {
				position++
				want := fmt.Sprintf("%d of %d", (position-1)/streams+1, (position-1)%streams)
				if err != nil || r.Position != mainstem.Position(position) || string(r.Value) != want {
					t.Fatalf("after %d: position %d: %q at %d, want %q: %v", after, position, r.Value, r.Position, want, err)
				}
			}
			if position != streams*v {
				t.Fatalf("the feed after %d ends at %d, want %d", after, position, streams*v)
			}
		}
	}
	if s := l.Stats(); s.HotBytes == 0 || s.HotBytes > 16*tiny {
		t.Errorf("a hot tier of %d bytes takes %d", tiny, s.HotBytes)
	}
}

func read(t *testing.T, l mainstem.Log, key string, sel mainstem.Versions) (versions []mainstem.Version) {
	t.Helper()
	for r, err := range l.Read(t.Context(), "s", []byte(key), sel) {
		if want := fmt.Sprintf("%d of 1", r.Version); err != nil || string(r.Value) != want {
			t.Fatalf("%q, want %q: %v", r.Value, want, err)
		}
		versions = append(versions, r.Version)
	}
	return versions
}

// selected returns which of n versions sel selects.
func selected(n int, sel mainstem.Versions) (versions []mainstem.Version) {
	for v := mainstem.Version(1); v <= mainstem.Version(n); v++ {
		if v >= sel.From && (sel.To == 0 || v <= sel.To) {
			versions = append(versions, v)
		}
	}
	if sel.Reverse {
		slices.Reverse(versions)
	}
	if sel.Limit > 0 {
		versions = versions[:min(sel.Limit, len(versions))]
	}
	return versions
}

// TestEditsReachTheHotTier edits records that are in memory: no reader sees them as they were.
func TestEditsReachTheHotTier(t *testing.T) {
	ctx := t.Context()
	l, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	commit := func(add func(b *mainstem.Batch)) {
		t.Helper()
		b := mainstem.NewBatch()
		add(b)
		if _, err := l.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	key := []byte("key")
	for range 5 {
		commit(func(b *mainstem.Batch) {
			b.Ensure("all", mainstem.Policy{})
			b.Ensure("one", mainstem.Policy{History: 1})
			b.Put("all", key, []byte("as it was"))
			b.Put("one", key, []byte("as it was"))
		})
	}
	commit(func(b *mainstem.Batch) { b.Rewrite("all", key, 4, []byte("rewritten"), nil) })
	commit(func(b *mainstem.Batch) { b.Truncate("all", key, 3) })
	commit(func(b *mainstem.Batch) { b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "one", Key: key}) })
	commit(func(b *mainstem.Batch) { b.Put("all", key, []byte("later")) })
	var got []string
	for r, err := range l.Read(ctx, "all", key, mainstem.Versions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s", r.Version, r.Value))
	}
	if want := []string{"3 as it was", "4 rewritten", "5 as it was", "6 later"}; !slices.Equal(got, want) {
		t.Errorf("records: %q, want %q", got, want)
	}
	got = nil
	for r, err := range l.Feed(ctx, mainstem.Filter{Spaces: []string{"all"}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s", r.Version, r.Value))
	}
	if want := []string{"3 as it was", "4 rewritten", "5 as it was", "6 later"}; !slices.Equal(got, want) {
		t.Errorf("feed: %q, want %q", got, want)
	}
	if r, err := l.Get(ctx, "one", key); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a key that was forgotten: %q, %v", r.Value, err)
	}
}

// TestReadBesideEdits reads a stream whose end is in memory and whose beginning is in Pebble,
// while a batch rewrites records in both: the read sees all of it or nothing.
func TestReadBesideEdits(t *testing.T) {
	ctx := t.Context()
	l, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	key := []byte("stream")
	commit := func(add func(b *mainstem.Batch)) (newest mainstem.Version) {
		t.Helper()
		b := mainstem.NewBatch()
		add(b)
		r, err := l.Commit(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		return r.Versions[len(r.Versions)-1]
	}
	put := func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", key, []byte("old"))
	}
	commit(put)
	for i := range 6 {
		commit(func(b *mainstem.Batch) { b.Rewrite("s", key, 1, []byte("old"), nil) }) // all of it is in Pebble
		newest := commit(put)                                                          // but for this
		called := false
		l.BetweenTiers(func() {
			called = true
			commit(func(b *mainstem.Batch) {
				b.Rewrite("s", key, 1, fmt.Append(nil, i), nil)
				b.Rewrite("s", key, newest, fmt.Append(nil, i), nil)
			})
		})
		got := map[mainstem.Version]string{}
		for r, err := range l.Read(ctx, "s", key, mainstem.Versions{Reverse: i%2 == 1}) {
			if err != nil {
				t.Fatal(err)
			}
			got[r.Version] = string(r.Value)
		}
		if !called || len(got) != int(newest) {
			t.Fatalf("read %d records of %d, of both tiers: %v", len(got), newest, called)
		}
		if got[1] != got[newest] {
			t.Errorf("the first record is %q, the newest %q, and one batch rewrote both", got[1], got[newest])
		}
	}
}

// TestEditsAreReplayed cuts the power when the journal has a truncation and Pebble, which has flushed nothing,
// had everything before it: the replay gives the same feed.
func TestEditsAreReplayed(t *testing.T) {
	ctx, disk := t.Context(), vfs.NewCrashableMem()
	open := func(fs vfs.FS) *pebblelog.Log {
		return must(t)(pebblelog.Open("data", &pebblelog.Options{FS: fs, MinFree: -1, Durability: mainstem.Fsync})).(*pebblelog.Log)
	}
	l := open(disk)
	defer l.Close()
	commit := func(add func(b *mainstem.Batch)) {
		t.Helper()
		b := mainstem.NewBatch()
		add(b)
		if _, err := l.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		commit(func(b *mainstem.Batch) {
			b.Ensure("s", mainstem.Policy{})
			b.Put("s", fmt.Append(nil, i%3), fmt.Append(nil, i))
		})
	}
	commit(func(b *mainstem.Batch) { b.Truncate("s", []byte("1"), 3) })
	feed := func(l *pebblelog.Log) (values []string) {
		for r, err := range l.Feed(ctx, mainstem.Filter{Spaces: []string{"s"}}) {
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, string(r.Value))
		}
		return values
	}
	want := feed(l)
	after := open(disk.CrashClone(vfs.CrashCloneCfg{}))
	defer after.Close()
	if got := feed(after); len(want) != 18 || !slices.Equal(got, want) {
		t.Errorf("after the power cut the feed is %v, want %v", got, want)
	}
	_, err := after.Check(ctx, func(p mainstem.Problem) { t.Error(p) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestForgetStaysInTheHotTier forgets keys of a space with history 1: as cheaply as it puts
// them, and so that nobody finds them in any tier, nor their versions again.
func TestForgetStaysInTheHotTier(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	o := &pebblelog.Options{KeyStateCache: 2, Durability: mainstem.OS}
	l, err := pebblelog.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(do func(b *mainstem.Batch)) []mainstem.Version {
		t.Helper()
		b := mainstem.NewBatch()
		do(b)
		r, err := l.Commit(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		return r.Versions
	}
	put := func(key string) mainstem.Version {
		t.Helper()
		return commit(func(b *mainstem.Batch) { b.Put("s", []byte(key), []byte("value")) })[0]
	}
	forget := func(key string) {
		t.Helper()
		commit(func(b *mainstem.Batch) { b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "s", Key: []byte(key)}) })
	}
	if err := l.CreateSpace(ctx, "s", mainstem.Policy{History: 2}); err != nil {
		t.Fatal(err)
	}
	// The newest of two records is removed, and the history made shorter: one is left behind
	// a version marker.
	put("two")
	put("two")
	commit(func(b *mainstem.Batch) {
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "s", Key: []byte("two"), Version: 2})
	})
	if err := l.AlterSpace(ctx, "s", mainstem.Policy{History: 1}); err != nil {
		t.Fatal(err)
	}
	put("cold")
	l.FlushRaw()
	put("hot")
	pending := l.Stats().HotPending
	for _, key := range []string{"two", "cold", "hot", "never"} {
		forget(key)
		put("others")
		put("still others")
		forget(key)
	}
	// A checked build hands some commits to Pebble at once, and what was pending before them.
	if s := l.Stats(); s.HotPending <= pending && !invariants.Enabled {
		t.Errorf("%d bytes were pending before the keys were forgotten, and %d are now", pending, s.HotPending)
	}
	look := func() {
		t.Helper()
		for _, key := range []string{"two", "cold", "hot", "never"} {
			if r, err := l.Get(ctx, "s", []byte(key)); !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("Get %s: %v, %v", key, r, err)
			}
			if got := read(t, l, key, mainstem.Versions{}); len(got) > 0 {
				t.Errorf("%s has records: %v", key, got)
			}
		}
		info, err := l.Space(ctx, "s")
		if err != nil || info.Keys != 2 || info.Records != 2 || info.Bytes != int64(len("othersstill othersvaluevalue")) {
			t.Errorf("the space holds %+v: %v", info, err)
		}
		mustCheck(t, l)
	}
	look()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = pebblelog.Open(dir, o); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	look()
	for key, want := range map[string]mainstem.Version{"two": 3, "cold": 2, "hot": 2, "never": 1} {
		if v := put(key); v != want {
			t.Errorf("%s begins anew with version %d, want %d", key, v, want)
		}
	}
}

// TestGetManyIsOneMoment reads keys in both tiers, while a batch changes all of them: by puts,
// which stay in memory, by an edit, which goes to Pebble, or before everything moves there.
func TestGetManyIsOneMoment(t *testing.T) {
	ctx := t.Context()
	l, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	put := func(space string, value int, edit bool, keys ...[]byte) {
		t.Helper()
		b := mainstem.NewBatch()
		b.Ensure(space, mainstem.Policy{History: len(space) - 1})
		for _, k := range keys {
			b.Put(space, k, fmt.Append(nil, value))
		}
		if edit {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "edits", Key: []byte("x")})
		}
		if _, err := l.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	put("edits", 0, false, []byte("x"))
	for i := range 60 {
		space := []string{"s", "s1"}[i%2] // all history, and one record of each key
		put(space, i, false, keys...)
		if i%5 > 0 {
			l.FlushRaw()
			put(space, i, false, keys[i%3])
		}
		called := false
		l.BetweenTiers(func() {
			called = true
			switch i / 2 % 4 {
			case 1:
				put(space, -1, false, keys...)
			case 2:
				put(space, -1, true, keys...)
			case 3:
				put(space, -1, false, keys...)
				l.FlushRaw()
			}
		})
		got := map[string]int{}
		for r, err := range l.GetMany(ctx, space, keys) {
			if err != nil {
				t.Fatal(err)
			}
			got[string(r.Value)]++
		}
		if len(got) != 1 || got["-1"] == 0 && got[fmt.Sprint(i)] == 0 || !called {
			t.Fatalf("round %d: values of one moment are %v", i, got)
		}
		if i/2%4 > 0 {
			for r, err := range l.GetMany(ctx, space, keys) {
				if err != nil || string(r.Value) != "-1" {
					t.Fatalf("round %d: %q, %v", i, r.Value, err)
				}
			}
		}
	}
}
