package topic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func names(t *testing.T, c *Catalog) []string {
	t.Helper()
	var out []string
	for tp, err := range c.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tp.Name())
	}
	return out
}

func TestCreateDescribeDelete(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		ck := &testkit.Clock{}
		c := open(t, log, &Options{Now: ck.Now})
		if got := names(t, c); got != nil {
			t.Errorf("an empty log has topics %v", got)
		}
		tp := create(t, c, "orders", Spec{Partitions: 3, Config: Config{RetentionMs: "1000"}})
		create(t, c, "a", Spec{})
		if got := names(t, c); !slices.Equal(got, []string{"a", "orders"}) {
			t.Errorf("topics %v", got)
		}
		if _, err := c.Create(t.Context(), "orders", Spec{}); !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("creating it again: %v", err)
		}
		// Another catalog, as after a restart, finds all of it.
		other := open(t, log, nil)
		again, err := other.Topic(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if again.ID() != tp.ID() || again.Partitions() != 3 || !maps.Equal(again.Config(), Config{RetentionMs: "1000"}) || !again.Created().Equal(ck.Now()) {
			t.Errorf("found ID %v, %d partitions, %v, created %v", again.ID(), again.Partitions(), again.Config(), again.Created())
		}
		if byID, err := other.ByID(t.Context(), tp.ID()); err != nil || byID.Name() != "orders" {
			t.Errorf("by ID: %v, %v", byID, err)
		}
		if err := c.Delete(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"topic":        second(c.Topic(t.Context(), "orders")),
			"other topic":  second(other.Topic(t.Context(), "orders")),
			"by id":        second(other.ByID(t.Context(), tp.ID())),
			"append":       second(tp.Append(t.Context(), 0, batch(0, rec{value: "v"}))),
			"read":         second(tp.Read(t.Context(), 0, 0, nil)),
			"other append": second(again.Append(t.Context(), 0, batch(0, rec{value: "v"}))),
			"end":          second(tp.End(t.Context(), 0)),
			"delete":       c.Delete(t.Context(), "orders"),
			"alter":        c.SetConfig(t.Context(), "orders", RetentionMs, "5"),
		} {
			if !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("%s of a deleted topic: %v", what, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A topic that is created again has another ID and starts empty.
func TestCreateAgain(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c, other := open(t, log, nil), open(t, log, nil)
		old := create(t, c, "x", Spec{Partitions: 2})
		seen, err := other.Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, old, 1, batch(0, rec{value: "old"}, rec{value: "old"}))
		if _, err := old.DeleteRecords(t.Context(), 1, 1); err != nil {
			t.Fatal(err)
		}
		offsets := old.Offsets("g")
		if err := offsets.Commit(t.Context(), 1, 2); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		fresh := create(t, c, "x", Spec{Partitions: 2})
		mustAppend(t, fresh, 1, batch(0, rec{value: "new"}, rec{value: "new"}))
		if fresh.ID() == old.ID() {
			t.Error("the ID came back")
		}
		if start, err := fresh.Start(t.Context(), 1); start != 0 || err != nil {
			t.Errorf("it starts at %d, %v", start, err)
		}
		if end, err := fresh.End(t.Context(), 1); end != 2 || err != nil {
			t.Errorf("it ends at %d, %v", end, err)
		}
		if got, err := fresh.Offsets("g").Load(t.Context()); len(got) != 0 || err != nil {
			t.Errorf("the group has offsets %v, %v", got, err)
		}
		// Handles of the old topic must not touch the new one, in this process or another.
		for _, h := range []*Topic{old, seen} {
			if _, err := h.DeleteRecords(t.Context(), 1, 2); !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("deleting records by an old handle: %v", err)
			}
			if err := h.Offsets("g").Commit(t.Context(), 1, 1); !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("storing an offset by an old handle: %v", err)
			}
		}
		if got := all(t, fresh, nil); len(got[1]) != 2 || string(got[1][0].Value) != "new" {
			t.Errorf("the new topic holds %v", got)
		}
	})
}

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "A-b_c.9", strings.Repeat("x", MaxName), "...", "-"} {
		if err := ValidateName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/b", "../../x", "a b", "ä", "a\x00", strings.Repeat("x", MaxName+1)} {
		if err := ValidateName(bad); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	log := testengines.Memory(t)
	c := open(t, log, nil)
	create(t, c, "a.b_c", Spec{})
	if _, err := c.Create(t.Context(), "a_b.c", Spec{}); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "a.b_c") {
		t.Errorf("a name that collides: %v", err)
	}
	create(t, c, "a-b-c", Spec{})
	for _, bad := range []string{"../x", ""} {
		if _, err := c.Topic(t.Context(), bad); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("looking for %q: %v", bad, err)
		}
		if err := c.Delete(t.Context(), bad); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("deleting %q: %v", bad, err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	for _, s := range []Spec{
		{Partitions: -1},
		{Partitions: MaxPartitions + 1},
		{Config: Config{"retention.m": "1"}},
		{Config: Config{RetentionMs: "soon"}},
		{Config: Config{MaxMessageBytes: fmt.Sprint(mainstem.DefaultMaxValue + 1)}},
	} {
		if _, err := c.Create(t.Context(), "x", s); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if got := names(t, c); got != nil {
		t.Errorf("there are topics %v", got)
	}
}

func TestAlter(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c, other := open(t, log, nil), open(t, log, nil)
		tp := create(t, c, "x", Spec{Config: Config{RetentionMs: "5", CleanupPolicy: "compact"}})
		if _, err := other.Topic(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := other.SetConfig(t.Context(), "x", RetentionMs, "7"); err != nil {
			t.Fatal(err)
		}
		if err := c.SetConfig(t.Context(), "x", CleanupPolicy, ""); err != nil {
			t.Fatal(err)
		}
		if got := tp.Config(); !maps.Equal(got, Config{RetentionMs: "7"}) {
			t.Errorf("config %v", got)
		}
		for key, value := range map[string]string{RetentionMs: "x", "nonsense": "1", MaxMessageBytes: "99999999999"} {
			if err := c.SetConfig(t.Context(), "x", key, value); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s=%s: %v", key, value, err)
			}
		}
		boom := errors.New("boom")
		if err := c.Alter(t.Context(), "x", func(cfg Config) error { cfg[RetentionMs] = "9"; return boom }); err != boom {
			t.Errorf("the error of edit: %v", err)
		}
		if got := tp.Config(); !maps.Equal(got, Config{RetentionMs: "7"}) {
			t.Errorf("config after failures %v", got)
		}
	})
}

func TestAddPartitions(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	tp := create(t, c, "x", Spec{Partitions: 2})
	mustAppend(t, tp, 1, batch(0, rec{value: "v"}))
	if _, err := tp.Append(t.Context(), 2, batch(0, rec{value: "v"})); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("partition 2 of 2: %v", err)
	}
	for _, n := range []int32{0, 2, MaxPartitions + 1} {
		if err := c.AddPartitions(t.Context(), "x", n); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
	if err := c.AddPartitions(t.Context(), "x", 4); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, tp, 3, batch(0, rec{value: "v"}))
	if ends, err := tp.Ends(t.Context()); err != nil || !slices.Equal(ends, []int64{0, 1, 0, 1}) {
		t.Errorf("ends %v, %v", ends, err)
	}
}

// Of many concurrent creations of one name exactly one succeeds, all concurrent changes are made,
// and all handles stay current.
func TestAdminIsSafeUnderConcurrency(t *testing.T) {
	log := testengines.Memory(t)
	cs := []*Catalog{open(t, log, nil), open(t, log, nil)}
	var wg sync.WaitGroup
	won := make([]int, 10)
	var mu sync.Mutex
	for i := range 40 {
		wg.Go(func() {
			c, k := cs[i%2], i%len(won)
			_, err := c.Create(t.Context(), fmt.Sprint("t", k), Spec{Partitions: 1})
			if err != nil && !errors.Is(err, mainstem.ErrExists) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				won[k]++
				mu.Unlock()
			}
			if tp, err := c.Topic(t.Context(), fmt.Sprint("t", k)); err != nil || tp.gone.Load() {
				t.Errorf("topic %d after its creation: %v", k, err)
			}
			key := []string{RetentionMs, RetentionBytes, DeleteRetention, MaxMessageBytes}[i/len(won)]
			if err := c.SetConfig(t.Context(), fmt.Sprint("t", k), key, "100"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for k, n := range won {
		if n != 1 {
			t.Errorf("topic %d was created %d times", k, n)
		}
		tp, err := cs[0].Topic(t.Context(), fmt.Sprint("t", k))
		if err != nil || len(tp.Config()) != 4 {
			t.Errorf("topic %d lost a change: %v, %v", k, tp.Config(), err)
		}
	}
}

// Deleting a topic removes its index. If the process ends in between, the next upkeep removes it.
// The index of other topics stays.
func TestIndexOfDeletedTopics(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		for _, name := range []string{"a", "b", "c"} {
			tp := create(t, c, name, Spec{Partitions: 2, Config: Config{RetentionMs: "-1"}})
			mustAppend(t, tp, 1, batch(0, rec{value: "v"}))
		}
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		indexed := func() int {
			ids, err := c.indexedIDs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(ids)
		}
		if n := indexed(); n != 3 {
			t.Fatalf("%d topics in the index, want 3", n)
		}
		if err := c.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if n := indexed(); n != 2 {
			t.Errorf("%d topics in the index after a deletion, want 2", n)
		}
		if err := log.DropSpace(t.Context(), Space("b")); err != nil {
			t.Fatal(err)
		}
		again := open(t, log, nil)
		if err := again.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := indexed(); n != 1 {
			t.Errorf("%d topics in the index after upkeep, want 1", n)
		}
		tp, err := again.Topic(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := tp.now().parts[1].size(t.Context()); n == 0 || err != nil {
			t.Errorf("the topic that is left has %d bytes, %v", n, err)
		}
	})
}

// If Delete cannot remove the index of the topic, the next upkeep does, also if the one before it
// has removed the index of deleted topics.
func TestIndexThatDeleteHasLeft(t *testing.T) {
	log := &failing{Log: testengines.Memory(t)}
	c := open(t, log, nil)
	mustAppend(t, create(t, c, "x", Spec{}), 0, batch(0, rec{value: "v"}))
	indexed := func() int {
		t.Helper()
		ids, err := c.indexedIDs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	if err := c.Upkeep(t.Context()); err != nil || indexed() != 1 {
		t.Fatalf("%d topics in the index, %v", indexed(), err)
	}
	log.n = 1
	if err := c.Delete(t.Context(), "x"); err != nil || indexed() != 1 || log.n != 0 {
		t.Fatalf("%d topics in the index after a Delete that cannot remove it, %v", indexed(), err)
	}
	for _, failures := range []int{1, 0} {
		log.n = failures
		if err := c.Upkeep(t.Context()); (err != nil) != (failures > 0) || indexed() != failures {
			t.Errorf("%d topics in the index after upkeep with %d failed commits, %v", indexed(), failures, err)
		}
	}
}

func TestClosed(t *testing.T) {
	log := testengines.Memory(t)
	c := open(t, log, &Options{Every: 1})
	tp := create(t, c, "x", Spec{})
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for what, err := range map[string]error{
		"topic":    second(c.Topic(t.Context(), "x")),
		"create":   second(c.Create(t.Context(), "y", Spec{})),
		"append":   second(tp.Append(t.Context(), 0, batch(0, rec{value: "v"}))),
		"read":     second(tp.Read(t.Context(), 0, 0, nil)),
		"producer": second(tp.Producer(nil)),
		"wait":     c.NewWaiter().Wait(t.Context()),
	} {
		if !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Open(log, &Options{MaxMessage: -1, CompactionBytes: 1}); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "MaxMessage") || !strings.Contains(err.Error(), "CompactionBytes") {
		t.Errorf("bad options: %v", err)
	}
}

func TestID(t *testing.T) {
	id := newID()
	var back ID
	if err := back.UnmarshalText([]byte(id.String())); err != nil || back != id {
		t.Errorf("%v, %v", back, err)
	}
	if id[6]>>4 != 4 || id[8]>>6 != 2 {
		t.Errorf("%x is no random UUID", id)
	}
	for _, bad := range []string{"", "x", strings.Repeat("A", 24), "????????????????????AA"} {
		if err := back.UnmarshalText([]byte(bad)); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// closing is a log whose next commit closes the catalog c, if that is set.
type closing struct {
	mainstem.Log
	c *Catalog
}

func (l *closing) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := l.Log.Commit(ctx, b)
	if l.c != nil {
		l.c.Close()
	}
	return r, err
}

// The error of a catalog that is closed after a commit does not say that nothing was written.
func TestClosedAfterCommit(t *testing.T) {
	for what, change := range map[string]func(*Catalog) error{
		"create": func(c *Catalog) error { return second(c.Create(t.Context(), "new", Spec{})) },
		"alter":  func(c *Catalog) error { return c.SetConfig(t.Context(), "old", RetentionMs, "5") },
	} {
		log := &closing{Log: testengines.Memory(t)}
		c := open(t, log, nil)
		create(t, c, "old", Spec{})
		log.c = c
		var e *mainstem.Error
		if err := change(c); !errors.As(err, &e) || e.Kind != mainstem.KindClosed || e.Outcome != mainstem.NoOutcome {
			t.Errorf("%s: %#v, want Closed without an outcome", what, err)
		}
	}
}
