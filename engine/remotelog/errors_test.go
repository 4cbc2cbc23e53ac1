package remotelog_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

// last returns the error that ends a sequence.
func last[T any](seq iter.Seq2[T, error]) (err error) {
	for _, e := range seq {
		err = e
	}
	return err
}

// What an error says is the same here and there.
func TestErrorsAreThoseOfTheLog(t *testing.T) {
	behind := logWith(t, 2)
	remote := open(t, serve(t, behind, nil).URL, nil)
	batch := func(f func(b *mainstem.Batch)) func(mainstem.Log) error {
		return func(log mainstem.Log) error {
			b := mainstem.NewBatch()
			f(b)
			_, err := log.Commit(context.Background(), b)
			return err
		}
	}
	ctx := t.Context()
	own := errors.New("cannot encode")
	for name, do := range map[string]func(mainstem.Log) error{
		"conflict version":  batch(func(b *mainstem.Batch) { b.IfVersion("s", []byte("k"), 7); b.Put("s", []byte("k"), nil) }),
		"conflict absent":   batch(func(b *mainstem.Batch) { b.IfAbsent("s", []byte("k")) }),
		"conflict exists":   batch(func(b *mainstem.Batch) { b.IfExists("s", []byte{0xff}) }),
		"unknown space":     batch(func(b *mainstem.Batch) { b.Put("nowhere", []byte("k"), nil) }),
		"empty key":         batch(func(b *mainstem.Batch) { b.Put("s", nil, nil) }),
		"huge key":          batch(func(b *mainstem.Batch) { b.Put("s", make([]byte, mainstem.MaxKey+1), nil) }),
		"huge value":        batch(func(b *mainstem.Batch) { b.Put("s", []byte("k"), make([]byte, mainstem.DefaultMaxValue+1)) }),
		"huge batch ID":     batch(func(b *mainstem.Batch) { b.ID = string(make([]byte, mainstem.MaxBatchID+1)) }),
		"unknown operation": batch(func(b *mainstem.Batch) { b.Add(mainstem.Write{Op: 99, Space: "s", Key: []byte("k")}) }),
		"failed batch":      batch(func(b *mainstem.Batch) { b.Fail(own) }),
		"durability":        batch(func(b *mainstem.Batch) { b.Put("s", []byte("k"), nil); b.Durability = -99 }),
		"get nothing":       func(l mainstem.Log) error { _, err := l.Get(ctx, "s", []byte("\x00none")); return err },
		"get nowhere":       func(l mainstem.Log) error { _, err := l.Get(ctx, "nowhere", []byte("k")); return err },
		"get empty key":     func(l mainstem.Log) error { _, err := l.Get(ctx, "s", nil); return err },
		"scan nowhere":      func(l mainstem.Log) error { return last(l.Scan(ctx, "nowhere", mainstem.Range{})) },
		"scan limit":        func(l mainstem.Log) error { return last(l.Scan(ctx, "s", mainstem.Range{Limit: -1})) },
		"read nowhere":      func(l mainstem.Log) error { return last(l.Read(ctx, "nowhere", []byte("k"), mainstem.Versions{})) },
		"read both": func(l mainstem.Log) error {
			return last(l.Read(ctx, "s", []byte("k"), mainstem.Versions{Follow: true, Reverse: true}))
		},
		"feed limit":      func(l mainstem.Log) error { return last(l.Feed(ctx, mainstem.Filter{Limit: -1})) },
		"create twice":    func(l mainstem.Log) error { return l.CreateSpace(ctx, "s", mainstem.Policy{}) },
		"create badly":    func(l mainstem.Log) error { return l.CreateSpace(ctx, "x", mainstem.Policy{History: -1}) },
		"create nameless": func(l mainstem.Log) error { return l.CreateSpace(ctx, "", mainstem.Policy{}) },
		"alter nowhere":   func(l mainstem.Log) error { return l.AlterSpace(ctx, "nowhere", mainstem.Policy{}) },
		"alter history":   func(l mainstem.Log) error { return l.AlterSpace(ctx, "s", mainstem.Policy{History: 1}) },
		"drop nowhere":    func(l mainstem.Log) error { return l.DropSpace(ctx, "nowhere") },
		"space nowhere":   func(l mainstem.Log) error { _, err := l.Space(ctx, "nowhere"); return err },
	} {
		want, got := do(behind), do(remote)
		if want == nil || got == nil {
			t.Errorf("%s: there %v, here %v", name, want, got)
			continue
		}
		if want.Error() != got.Error() {
			t.Errorf("%s:\nthere %s\nhere  %s", name, want, got)
		}
		var w, g *mainstem.Error
		if errors.As(want, &w) != errors.As(got, &g) {
			t.Errorf("%s: there %T, here %T", name, want, got)
			continue
		}
		if w == nil {
			continue
		}
		there, here := *w, *g
		there.Err, here.Err = nil, nil
		if d := cmp.Diff(there, here); d != "" {
			t.Errorf("%s: (-there +here)\n%s", name, d)
		}
	}
}

// Names that cannot be sent are those of no space.
func TestNamesThatAreNotUTF8(t *testing.T) {
	behind := logWith(t, 1)
	log := open(t, serve(t, behind, nil).URL, nil)
	const bad = "s\xff"
	ctx := t.Context()
	_, err := log.Get(ctx, bad, []byte("k"))
	wantError(t, err, mainstem.KindNotFound, mainstem.NoOutcome)
	wantError(t, last(log.Scan(ctx, bad, mainstem.Range{})), mainstem.KindNotFound, mainstem.NoOutcome)
	wantError(t, last(log.Read(ctx, bad, []byte("k"), mainstem.Versions{})), mainstem.KindNotFound, mainstem.NoOutcome)
	wantError(t, log.DropSpace(ctx, bad), mainstem.KindNotFound, mainstem.NotWritten)
	wantError(t, log.AlterSpace(ctx, bad, mainstem.Policy{}), mainstem.KindNotFound, mainstem.NotWritten)
	wantError(t, log.CreateSpace(ctx, bad, mainstem.Policy{}), mainstem.KindInvalid, mainstem.NotWritten)
	wantError(t, log.CreateSpace(ctx, "m", mainstem.Policy{Metadata: map[string]string{"k": "\xff"}}), mainstem.KindInvalid, mainstem.NotWritten)
	_, err = log.Space(ctx, bad)
	wantError(t, err, mainstem.KindNotFound, mainstem.NoOutcome)
	b := mainstem.NewBatch()
	b.Put(bad, []byte("k"), nil)
	_, err = log.Commit(ctx, b)
	wantError(t, err, mainstem.KindInvalid, mainstem.NotWritten)
	for r, err := range log.Feed(ctx, mainstem.Filter{Spaces: []string{bad}}) {
		t.Errorf("the feed of no space gave %v, %v", r, err)
	}
	if err := last(log.Feed(ctx, mainstem.Filter{Spaces: []string{bad, "s"}})); err != nil {
		t.Error(err)
	}
	n := 0
	for r, err := range log.Feed(ctx, mainstem.Filter{Spaces: []string{bad, "s"}}) {
		if err != nil || r.Space != "s" {
			t.Errorf("got %v, %v", r, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// A prefix may end within a character of the names that it is of.
func TestSpacesByPrefixOfBytes(t *testing.T) {
	behind := model.New(nil)
	for _, name := range []string{"a", "é1", "é2", "è", "z"} {
		if err := behind.CreateSpace(t.Context(), name, mainstem.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	log := open(t, serve(t, behind, nil).URL, nil)
	for _, prefix := range []string{"", "a", "é", "\xc3", "\xc3\xa9", "\xc4", "\xff", "none"} {
		var want, got []string
		for s, err := range behind.Spaces(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, s.Name)
		}
		for s, err := range log.Spaces(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, s.Name)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("prefix %q: (-there +here)\n%s", prefix, d)
		}
	}
	for range log.Spaces(t.Context(), "") {
		break // and not more
	}
}

func TestManySpacesTravel(t *testing.T) {
	behind := model.New(nil)
	const total = 1000 // more than a message holds
	for i := range total {
		if err := behind.CreateSpace(t.Context(), string(rune('一'+i)), mainstem.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	log := open(t, serve(t, behind, nil).URL, nil)
	n := 0
	for _, err := range log.Spaces(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != total {
		t.Errorf("%d spaces, want %d", n, total)
	}
}

// What names hold that UTF-8 does not: headers and keys and values are bytes.
func TestBytesTravelExactly(t *testing.T) {
	behind := model.New(nil)
	log := open(t, serve(t, behind, nil).URL, nil)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	want := mainstem.Headers{{Name: string(every)}, {Name: "a", Value: []byte{}}, {Name: "a"}, {Name: "", Value: every}, {Name: "a", Value: []byte("2")}}
	b := mainstem.NewBatch()
	b.ID = string(every)
	b.Ensure("s", mainstem.Policy{})
	b.Add(mainstem.Write{Space: "s", Key: every, Value: []byte{}, Headers: want})
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got, err := log.Get(t.Context(), "s", every)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.Headers); d != "" || got.Value == nil || len(got.Value) != 0 || !bytes.Equal(got.Key, every) {
		t.Errorf("got %v; headers (-sent +got)\n%s", got, d)
	}
	if again, err := log.Commit(t.Context(), b); err != nil || !again.Duplicate {
		t.Errorf("the same ID again: %+v, %v", again, err)
	}
}
