package pebblelog_test

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// newest returns the position of the newest record of a key as a Conflict names it, 0 if
// there was never one.
func newest(t *testing.T, l *pebblelog.Log, space, key string) mainstem.Position {
	t.Helper()
	b := mainstem.NewBatch()
	b.IfNotAfter(space, []byte(key), 0)
	_, err := l.Commit(t.Context(), b)
	if err == nil {
		return 0
	}
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindConflict {
		t.Fatal(err)
	}
	return e.GotPosition
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPositionsOfWhatIsGone looks at the positions that a log remembers of records that
// were removed: exactly where a version marker says it, else the newest position of the
// space when the log was opened.
func TestPositionsOfWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	var l *pebblelog.Log
	reopen := func() {
		if l != nil {
			check(t, l.Close())
		}
		var err error
		l, err = pebblelog.Open(dir, nil)
		check(t, err)
	}
	commit := func(fill func(b *mainstem.Batch)) mainstem.Position {
		b := mainstem.NewBatch()
		fill(b)
		r, err := l.Commit(t.Context(), b)
		check(t, err)
		return r.Last
	}
	reopen()
	defer func() { check(t, l.Close()) }()
	spaces := map[string]mainstem.Policy{"all": {}, "one": {History: 1}, "three": {History: 3}}
	at := map[string]mainstem.Position{}
	for s, p := range spaces {
		commit(func(b *mainstem.Batch) { b.Ensure(s, p); b.Put(s, []byte("k"), nil) })
		at[s] = commit(func(b *mainstem.Batch) { b.Put(s, []byte("k"), nil) })
		commit(func(b *mainstem.Batch) { b.Put(s, []byte("other"), nil) })
		commit(func(b *mainstem.Batch) { b.Add(mainstem.Write{Op: mainstem.OpForget, Space: s, Key: []byte("k")}) })
	}
	for range 2 {
		for s := range spaces {
			if got := newest(t, l, s, "k"); got != at[s] {
				t.Errorf("%s: the newest record had position %d, remembered is %d", s, at[s], got)
			}
			if got := newest(t, l, s, "never"); got != 0 {
				t.Errorf("%s: a key that was never written has position %d", s, got)
			}
		}
		reopen()
	}
	if n := l.ForgetWritten(); n != len(spaces) {
		t.Fatalf("%d version markers", n)
	}
	reopen()
	for s := range spaces {
		info, err := l.Space(t.Context(), s)
		check(t, err)
		for range 2 {
			if got := newest(t, l, s, "k"); got != info.Last {
				t.Errorf("%s: a marker that does not say gives position %d, want that of the space, %d", s, got, info.Last)
			}
			commit(func(b *mainstem.Batch) { b.Put(s, []byte("other"), nil) })
		}
		again := commit(func(b *mainstem.Batch) { b.Put(s, []byte("k"), nil) })
		if got := newest(t, l, s, "k"); got != again {
			t.Errorf("%s: written again at position %d, remembered is %d", s, again, got)
		}
	}
}
