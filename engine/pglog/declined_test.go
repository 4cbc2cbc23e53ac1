package pglog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// Puts to one key take a shorter way on the server, which declines some of them: then the
// general one has to say the same as always.
func TestConditionsOfPutsToOneKey(t *testing.T) {
	log, _ := openNew(t, nil)
	commit(t, log, batch("k", "1"))
	commit(t, log, batch("other", "1"))
	for _, test := range []struct {
		name string
		add  func(b *mainstem.Batch)
		want *mainstem.Error // nil: it is committed
	}{
		{"own version", func(b *mainstem.Batch) { b.IfVersion("s", []byte("k"), 1) }, nil},
		{"own exists", func(b *mainstem.Batch) { b.IfExists("s", []byte("k")) }, nil},
		{"own absent", func(b *mainstem.Batch) { b.IfAbsent("s", []byte("k")) }, &mainstem.Error{Got: 1, GotLive: true}},
		{"own other version", func(b *mainstem.Batch) { b.IfVersion("s", []byte("k"), 9) }, &mainstem.Error{Got: 1, GotLive: true}},
		{"no such space", func(b *mainstem.Batch) { b.IfAbsent("t", []byte("k")) }, nil},
		{"no such space exists", func(b *mainstem.Batch) { b.IfExists("t", []byte("k")) }, &mainstem.Error{}},
		{"others", func(b *mainstem.Batch) { b.IfExists("s", []byte("other")); b.IfAbsent("s", []byte("none")) }, nil},
		{"the second", func(b *mainstem.Batch) { b.IfAbsent("t", []byte("k")); b.IfVersion("s", []byte("other"), 2) }, &mainstem.Error{Got: 1, GotLive: true}},
	} {
		before, err := log.Get(t.Context(), "s", []byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		b := mainstem.NewBatch()
		b.Put("s", []byte("k"), []byte(test.name))
		test.add(b)
		for i := range b.Conditions() {
			c := &b.Conditions()[i]
			if c.Test == mainstem.TestVersion && bytes.Equal(c.Key, []byte("k")) && test.want == nil {
				c.Version = before.Version
			}
		}
		r, err := log.Commit(t.Context(), b)
		if test.want == nil {
			if err != nil || r.Versions[0] != before.Version+1 {
				t.Errorf("%s: %+v, %v", test.name, r, err)
			}
			continue
		}
		if string(b.Conditions()[len(b.Conditions())-1].Key) == "k" && test.want.Got > 0 {
			test.want.Got = before.Version
		}
		var got *mainstem.Error
		last := b.Conditions()[len(b.Conditions())-1]
		if !errors.Is(err, mainstem.ErrConflict) || !errors.As(err, &got) || got.Got != test.want.Got || got.GotLive != test.want.GotLive ||
			got.Space != last.Space || !bytes.Equal(got.Key, last.Key) || got.Want.Test != last.Test || got.Outcome != mainstem.NotWritten {
			t.Errorf("%s: %+v, want a conflict like %+v", test.name, err, test.want)
		}
		if after, err := log.Get(t.Context(), "s", []byte("k")); err != nil || after.Version != before.Version {
			t.Errorf("%s: the key is at version %d, was at %d: %v", test.name, after.Version, before.Version, err)
		}
	}
}

func TestMoreRecordsThanTheSpaceKeeps(t *testing.T) {
	log, _ := openNew(t, nil)
	if err := log.CreateSpace(t.Context(), "s", mainstem.Policy{History: 3}); err != nil {
		t.Fatal(err)
	}
	version := 0
	for _, n := range []int{1, 2, 3, 1, 5, 2, 1} {
		b := mainstem.NewBatch()
		for range n {
			version++
			b.Put("s", []byte("k"), fmt.Append(nil, version))
		}
		if r := commit(t, log, b); int(r.Versions[n-1]) != version {
			t.Errorf("%d puts: versions %v, want up to %d", n, r.Versions, version)
		}
		var got, want []int
		for r, err := range log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{}) {
			if err != nil || string(r.Value) != fmt.Sprint(r.Version) {
				t.Fatalf("version %d is %q, %v", r.Version, r.Value, err)
			}
			got = append(got, int(r.Version))
		}
		for v := max(version-2, 1); v <= version; v++ {
			want = append(want, v)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %d puts more: versions %v, want %v", n, got, want)
		}
	}
}

// A space that this process knows, and another one has dropped.
func TestPutToADroppedSpace(t *testing.T) {
	url := testpostgres.FastDB(t)
	log, other := openAt(t, url, nil), openAt(t, url, nil)
	commit(t, log, batch("k", "1"))
	if err := other.DropSpace(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	b := mainstem.NewBatch()
	b.Put("s", []byte("k"), []byte("2"))
	if _, err := log.Commit(t.Context(), b); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a put to a dropped space: %v, want NotFound", err)
	}
	commit(t, log, batch("k", "3"))
	if err := other.DropSpace(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	commit(t, log, batch("k", "4"))
	if got := feed(t, log, mainstem.Filter{}); fmt.Sprint(got) != "[k@1=4]" {
		t.Errorf("the log holds %v", got)
	}
}

// A database of an older format is brought to the newest, and a clock that was ahead when
// that was written holds nothing up.
func TestOpenBringsAnOlderFormat(t *testing.T) {
	url := testpostgres.FastDB(t)
	c := connect(t, url)
	text, err := os.ReadFile(filepath.Join("testdata", "format3.sql"))
	if err != nil {
		t.Fatal(err)
	}
	execute(t, c, string(text))
	execute(t, c, `INSERT INTO mainstem.key (id, space, name, mark, rest, version, position, time, expires, tomb, held)
		SELECT 2, id, 'removed', '', '', 3, NULL, 1, NULL, 0, 0 FROM mainstem.space WHERE name = 's'`)
	execute(t, c, "UPDATE mainstem.total SET floor = 1")
	log := openAt(t, url, nil)
	for _, key := range []string{"removed", "not there any more", "k"} { // the one record of the log is that of k
		b := mainstem.NewBatch()
		b.IfNotAfter("s", []byte(key), 0)
		_, err := log.Commit(t.Context(), b)
		var e *mainstem.Error
		if !errors.As(err, &e) || e.Kind != mainstem.KindConflict || e.GotPosition != 1 {
			t.Errorf("if key %s was never written: %v", key, err)
		}
	}
	if n := value[int](t, c, "SELECT max(version) FROM mainstem.migration"); n != 9 {
		t.Errorf("the schema has format %d, want 9", n)
	}
	if r := commit(t, log, batch("k", "2")); r.Versions[0] != 2 || time.Until(r.Time) < 300*24*time.Hour {
		t.Errorf("the version is %d, want 2, and its time %v, want that of the record before", r.Versions[0], r.Time)
	}
	testkit.Eventually(t, "the record of the clock that was ahead expires", func() bool {
		if err := log.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(feed(t, log, mainstem.Filter{})) == "[k@2=2]"
	})
}

// Reads lend the same memory to each other, one after the other, never at once.
func TestReadsWithinReads(t *testing.T) {
	log, _ := openNew(t, &pglog.Options{})
	const keys = 5
	for n := range keys * keys {
		commit(t, log, batch(fmt.Sprint(n%keys), fmt.Sprint("value ", n)))
	}
	for outer, err := range log.Feed(t.Context(), mainstem.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		key, want := string(outer.Key), string(outer.Value)
		for inner, err := range log.Read(t.Context(), "s", []byte("3"), mainstem.Versions{}) {
			if err != nil {
				t.Fatal(err)
			}
			for r, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
				if err != nil || len(r.Value) == 0 {
					t.Fatalf("%q, %v", r.Value, err)
				}
			}
			if string(inner.Key) != "3" || inner.Value == nil {
				t.Fatalf("a read has %q=%q", inner.Key, inner.Value)
			}
		}
		if string(outer.Key) != key || string(outer.Value) != want {
			t.Fatalf("during other reads %q=%q became %q=%q", key, want, outer.Key, outer.Value)
		}
	}
}
