package inlineset

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The persisted bytes must not change; the test has all of them.
func TestPersistedBytes(t *testing.T) {
	log := testengines.Memory(t)
	commit := func(fill func(b *mainstem.Batch)) error {
		b := mainstem.NewBatch()
		fill(b)
		_, err := log.Commit(t.Context(), b)
		return err
	}
	read := func(want []Entry, revision mainstem.Version) Set {
		t.Helper()
		set, err := Read(t.Context(), log, "orders")
		if err != nil || !slices.Equal(set.Entries, want) || set.Revision != revision || set.Outdated() {
			t.Fatalf("read %+v, %v, want %v with revision %d", set, err, want, revision)
		}
		return set
	}
	holds := func(space, key, want string) {
		t.Helper()
		rec, err := log.Get(t.Context(), space, []byte(key))
		if want == "none" && errors.Is(err, mainstem.ErrNotFound) {
			return
		}
		if err != nil || string(rec.Value) != want {
			t.Errorf("%s %s: %s, %v, want %s", space, key, rec.Value, err, want)
		}
	}
	entries := []Entry{{Name: "totals", Version: 2, State: On, Since: 17}, {Name: "counts", Version: 1, State: Holding}}
	const stored = `[{"name":"totals","version":2,"state":"on","since":17},{"name":"counts","version":1,"state":"holding"}]`
	err := commit(func(b *mainstem.Batch) {
		ReplaceTo(b, "orders", Set{}, entries)
		BypassTo(b, Space("orders"))
	})
	if err != nil {
		t.Fatal(err)
	}
	holds("event.tag/orders", "index", `{"format":2,"inline":`+stored+`}`)
	holds("event.inline/orders", "bypass", "")
	set := read(entries, 1)
	if err := commit(func(b *mainstem.Batch) { ReplaceTo(b, "orders", Set{}, nil) }); !errors.Is(err, mainstem.ErrConflict) {
		t.Errorf("replaced one that has changed: %v", err)
	}
	if err := commit(func(b *mainstem.Batch) { ReplaceTo(b, "orders", set, nil) }); err != nil {
		t.Fatal(err)
	}
	read(nil, 0)
	holds("event.tag/orders", "index", "none")

	// The other fields of the control record stay.
	const index = `{"anchor":5,"format":1,"max_tags":8,"since":4,"state":"ready"}`
	if err := commit(func(b *mainstem.Batch) { b.Put(ControlSpace("orders"), Control, []byte(index)) }); err != nil {
		t.Fatal(err)
	}
	set = read(nil, 3)
	if err := commit(func(b *mainstem.Batch) { ReplaceTo(b, "orders", set, entries) }); err != nil {
		t.Fatal(err)
	}
	set = read(entries, 4)
	holds("event.tag/orders", "index", `{"anchor":5,"format":2,"inline":`+stored+`,"max_tags":8,"since":4,"state":"ready"}`)
	if err := commit(func(b *mainstem.Batch) { ReplaceTo(b, "orders", set, nil) }); err != nil {
		t.Fatal(err)
	}
	holds("event.tag/orders", "index", index)

	// A set in the old form is read, and replaced.
	if err := commit(func(b *mainstem.Batch) { b.Put(Space("orders"), Old, []byte(stored)) }); err != nil {
		t.Fatal(err)
	}
	set, err = Read(t.Context(), log, "orders")
	if err != nil || !slices.Equal(set.Entries, entries) || !set.Outdated() {
		t.Fatalf("read %+v, %v", set, err)
	}
	if err := commit(func(b *mainstem.Batch) { ReplaceTo(b, "orders", set, set.Entries) }); err != nil {
		t.Fatal(err)
	}
	holds("event.inline/orders", "set", "none")
	read(entries, 6)
	var e *mainstem.Error
	if err := commit(func(b *mainstem.Batch) { RefuseTo(b, Space("orders")) }); !errors.As(err, &e) || !IsRefusal(e) {
		t.Errorf("a refusal: %v", err)
	}
	b := mainstem.NewBatch()
	b.Put(ControlSpace("orders"), Control, []byte("no"))
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), log, "orders"); !errors.Is(err, mainstem.ErrCorrupt) {
		t.Errorf("read what is none: %v", err)
	}
}

// Decoded entries are valid, and encode to bytes that decode to the same entries.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`[{"name":"totals","version":2,"state":"on","since":17}]`))
	f.Add([]byte(`[{"name":"","version":-1,"state":"off"}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := decode(data)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Name == "" || e.Version < 1 || e.State == "" {
				t.Fatalf("decoded %+v", e)
			}
		}
		value, err := json.Marshal(entries)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decode(value); err != nil || !slices.Equal(again, entries) {
			t.Fatalf("%+v became %+v, %v", entries, again, err)
		}
	})
}
