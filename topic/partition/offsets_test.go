package partition

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func storedOffsets(t *testing.T, log mainstem.Log, group string) map[string]StoredOffset {
	t.Helper()
	out := map[string]StoredOffset{}
	for s, err := range StoredOffsets(t.Context(), log, group) {
		if err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprint(s.Topic, s.Partition)] = s
	}
	return out
}

func storedGroups(t *testing.T, log mainstem.Log) []string {
	t.Helper()
	var out []string
	for name, err := range StoredGroups(t.Context(), log) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, name)
	}
	return out
}

// Offsets for a Reader that is no topic of a catalog are stored like those of topics.
func TestOffsets(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		id := ID{1}
		events := NewOffsets(log, "g", "event.orders", id)
		if got, err := events.Load(t.Context()); err != nil || len(got) != 0 {
			t.Fatalf("before: %v, %v", got, err)
		}
		if err := events.CommitOffset(t.Context(), 0, Offset{Next: 7, LeaderEpoch: -1}); err != nil {
			t.Fatal(err)
		}
		b := mainstem.NewBatch()
		events.CommitOffsetTo(b, 3, Offset{Next: 9, LeaderEpoch: 2, Metadata: "x"})
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		want := map[int32]Offset{0: {Next: 7, LeaderEpoch: -1}, 3: {Next: 9, LeaderEpoch: 2, Metadata: "x"}}
		if got, err := events.Load(t.Context()); err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		if got, err := NewOffsets(log, "g", "event.orders", ID{2}).Load(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("another store of that name has %v, %v", got, err)
		}
	})
}

func TestForeignOffsetsRefuse(t *testing.T) {
	log := testengines.Memory(t)
	for name, o := range map[string]*Offsets{
		"no group":   NewOffsets(log, "", "t", ID{}),
		"long group": NewOffsets(log, strings.Repeat("g", MaxGroup+1), "t", ID{}),
		"no name":    NewOffsets(log, "g", "", ID{}),
		"long name":  NewOffsets(log, "g", strings.Repeat("n", maxName+1), ID{}),
	} {
		if err := o.CommitOffset(t.Context(), 0, Offset{Next: 1, LeaderEpoch: -1}); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: store: %v", name, err)
		}
		if _, err := o.Load(t.Context()); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: load: %v", name, err)
		}
	}
	if err := NewOffsets(log, "g", "t", ID{}).CommitOffset(t.Context(), -1, Offset{Next: 1, LeaderEpoch: -1}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("negative partition: %v", err)
	}
	for _, err := range StoredOffsets(t.Context(), log, "") {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("no group: %v", err)
		}
	}
}

func TestStoredOffsets(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		if got := storedGroups(t, log); got != nil {
			t.Fatalf("before: %q", got)
		}
		groups := []string{"a", "ab", "b", "\xff\xff", strings.Repeat("\xff", MaxGroup)}
		for i, group := range groups {
			for p := range int32(2) {
				if err := NewOffsets(log, group, "x", ID{4}).CommitOffset(t.Context(), p, Offset{Next: int64(i), LeaderEpoch: -1}); err != nil {
					t.Fatal(err)
				}
			}
			if err := NewOffsets(log, group, "y", ID{5}).CommitOffset(t.Context(), 1, Offset{Next: int64(i), LeaderEpoch: -1}); err != nil {
				t.Fatal(err)
			}
		}
		b := mainstem.NewBatch() // other records of the space are no offsets
		EnsureGroupSpace(b)
		b.Put(GroupSpace, []byte("g\x00\x01a"), []byte("state"))
		b.Put(GroupSpace, []byte("p"), nil)
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		got := storedGroups(t, log)
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(groups)); !slices.Equal(got, want) {
			t.Errorf("groups %q, want %q", got, want)
		}
		for i, group := range groups {
			stored := storedOffsets(t, log, group)
			if s := stored["x1"]; len(stored) != 3 || s.ID != (ID{4}) || s.Next != int64(i) || s.Time.IsZero() || stored["y1"].ID != (ID{5}) {
				t.Errorf("group %q: %+v", group, stored)
			}
		}
	})
}

func TestForgetStored(t *testing.T) {
	log := testengines.Memory(t)
	o := NewOffsets(log, "g", "t", ID{1})
	for p := range int32(3) {
		if err := o.CommitOffset(t.Context(), p, Offset{Next: 1, LeaderEpoch: -1}); err != nil {
			t.Fatal(err)
		}
	}
	stored := storedOffsets(t, log, "g")
	if err := o.CommitOffset(t.Context(), 1, Offset{Next: 2, LeaderEpoch: -1}); err != nil {
		t.Fatal(err)
	}
	forget := func(key string, put func(*StoredOffset, *mainstem.Batch)) error {
		b, s := mainstem.NewBatch(), stored[key]
		put(&s, b)
		_, err := log.Commit(t.Context(), b)
		return err
	}
	if err := forget("t0", (*StoredOffset).ForgetUnchangedTo); err != nil {
		t.Error(err)
	}
	if err := forget("t1", (*StoredOffset).ForgetUnchangedTo); !errors.Is(err, mainstem.ErrConflict) {
		t.Errorf("an offset stored anew: %v", err)
	}
	if err := forget("t2", (*StoredOffset).ForgetTo); err != nil {
		t.Error(err)
	}
	if left := storedOffsets(t, log, "g"); len(left) != 1 || left["t1"].Next != 2 {
		t.Errorf("left: %+v", left)
	}
}

func FuzzParseStored(f *testing.F) {
	off := Offset{Next: 5, Metadata: "m"}
	f.Add(append(offsetPrefix("g", "t"), 0, 0, 0, 1), off.encode(ID{1}))
	f.Add([]byte{'o', 0, 9}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(key) == 0 || key[0] != offsetKind {
			return
		}
		s, err := parseStored(mainstem.Record{Key: key, Value: value})
		if err != nil {
			if !errors.Is(err, mainstem.ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		group, _, _ := cutText(key[1:])
		if again := append(offsetPrefix(group, s.Topic), Key(s.Partition)...); !bytes.Equal(again, key) {
			t.Errorf("the key %x becomes %x", key, again)
		}
		if again := s.Offset.encode(s.ID); !bytes.Equal(again, value) {
			t.Errorf("the value %x becomes %x", value, again)
		}
	})
}
