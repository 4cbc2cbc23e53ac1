package inlineset

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The bytes that are persisted are a promise: this is all of them.
func TestPersistedBytes(t *testing.T) {
	log := testengines.Memory(t)
	commit := func(fill func(b *mainstem.Batch)) error {
		b := mainstem.NewBatch()
		fill(b)
		_, err := log.Commit(t.Context(), b)
		return err
	}
	entries := []Entry{{Name: "totals", Version: 2, State: On, Since: 17}, {Name: "counts", Version: 1, State: Holding}}
	err := commit(func(b *mainstem.Batch) {
		ReplaceTo(b, "orders", Set{}, entries)
		BypassTo(b, Space("orders"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"set":    `[{"name":"totals","version":2,"state":"on","since":17},{"name":"counts","version":1,"state":"holding"}]`,
		"bypass": "",
	} {
		rec, err := log.Get(t.Context(), "event.inline/orders", []byte(key))
		if err != nil || string(rec.Value) != want {
			t.Errorf("%s: %s, %v, want %s", key, rec.Value, err, want)
		}
	}
	set, err := Read(t.Context(), log, "orders")
	if err != nil || !reflect.DeepEqual(set, Set{Entries: entries, Revision: 1}) {
		t.Errorf("read %+v, %v", set, err)
	}
	if err := commit(func(b *mainstem.Batch) { ReplaceTo(b, "orders", Set{}, nil) }); !errors.Is(err, mainstem.ErrConflict) {
		t.Errorf("replaced one that has changed: %v", err)
	}
	if err := commit(func(b *mainstem.Batch) { ReplaceTo(b, "orders", set, nil) }); err != nil {
		t.Fatal(err)
	}
	if set, err := Read(t.Context(), log, "orders"); err != nil || set.Entries != nil || set.Revision != 0 {
		t.Errorf("read %+v, %v, want none", set, err)
	}
	var e *mainstem.Error
	if err := commit(func(b *mainstem.Batch) { RefuseTo(b, Space("orders")) }); !errors.As(err, &e) || !IsRefusal(e) {
		t.Errorf("a refusal: %v", err)
	}
	b := mainstem.NewBatch()
	b.Put(Space("orders"), Key, []byte("no"))
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), log, "orders"); !errors.Is(err, mainstem.ErrCorrupt) {
		t.Errorf("read what is none: %v", err)
	}
}

// What is decoded is valid, and encodes to what decodes to the same.
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
