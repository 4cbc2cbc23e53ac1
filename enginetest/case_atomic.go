package enginetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
)

var atomicCases = []testCase{
	{law: Atomic, name: "failed batch leaves nothing", run: failedBatchLeavesNothing,
		promise: "A batch that fails in any of its parts leaves no write, no space, no position and no version behind."},
	{law: Atomic, name: "failed edit leaves nothing", needs: needTruncate | needRewrite | needRemove, run: failedEditLeavesNothing,
		promise: "A batch whose truncate, rewrite or remove is impossible leaves nothing of its other writes behind."},
	{law: Atomic, name: "batch over many spaces", run: batchOverSpaces,
		promise: "A batch may write any keys of any spaces; when Commit returns all of it is there."},
	{law: Atomic, name: "scan sees whole batches", run: scanSeesWholeBatches,
		promise: "Two keys always written together are never seen apart by a scan."},
	{law: Atomic, name: "feed ends between batches", run: feedEndsBetweenBatches,
		promise: "A feed that does not follow never ends in the middle of a batch."},
	{law: Atomic, name: "read sees whole batches", run: readSeesWholeBatches,
		promise: "Records that one batch appends to one key are never seen in part by a read of the key."},
	{law: Atomic, name: "gets in turn never go back", run: getsNeverGoBack,
		promise: "After one write of a batch was seen, every other write of the batch is seen too."},
	{law: Atomic, name: "snapshot sees whole batches", needs: needSnapshot, run: snapshotSeesWholeBatches,
		promise: "A snapshot holds all writes of a batch, in every space, or none."},
}

// seeded makes a log with some of everything in the spaces "s" (all history)
// and "b" (one record a key).
func (e *env) seeded() {
	e.Helper()
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 1})
	for _, space := range []string{"s", "b"} {
		e.put(space, "live", "1")
		e.put(space, "twice", "1")
		e.put(space, "twice", "2")
		e.put(space, "gone", "1")
		e.commit(func(b *mainstem.Batch) { b.Delete(space, []byte("gone")) })
	}
}

// muchWork adds writes of every simple kind, all of which could succeed.
func muchWork(b *mainstem.Batch) {
	b.Ensure("new", mainstem.Policy{})
	for _, space := range []string{"s", "b"} {
		b.Put(space, []byte("fresh"), []byte("x"))
		b.Put(space, []byte("live"), []byte("x"))
		b.Put(space, []byte("gone"), []byte("x"))
		b.Delete(space, []byte("twice"))
	}
	b.Put("new", []byte("k"), []byte("x"))
}

func failedBatchLeavesNothing(e *env) {
	e.seeded()
	next := e.head() + 1
	for name, c := range map[string]struct {
		kind  mainstem.Kind
		spoil func(b *mainstem.Batch)
	}{
		"unknown space":  {mainstem.KindNotFound, func(b *mainstem.Batch) { b.Put("nowhere", []byte("k"), nil) }},
		"conflict":       {mainstem.KindConflict, func(b *mainstem.Batch) { b.IfVersion("s", []byte("live"), 7) }},
		"bad write":      {mainstem.KindInvalid, func(b *mainstem.Batch) { b.Put("s", nil, nil) }},
		"bad space name": {mainstem.KindInvalid, func(b *mainstem.Batch) { b.Ensure(" ", mainstem.Policy{}) }},
	} {
		for _, first := range []bool{true, false} {
			e.refused(c.kind, func(b *mainstem.Batch) {
				if first {
					c.spoil(b)
				}
				muchWork(b)
				if !first {
					c.spoil(b)
				}
			})
			if _, err := e.log.Space(e.ctx, "new"); !errors.Is(err, mainstem.ErrNotFound) {
				e.Fatalf("%s: the failed batch created its space: %v", name, err)
			}
		}
	}
	r := e.put("s", "live", "2")
	if r.Versions[0] != 2 {
		e.Fatalf("the version after failed batches is %d, want 2", r.Versions[0])
	}
	if r.First < next {
		e.Fatalf("position %d was given again", r.First)
	}
}

func failedEditLeavesNothing(e *env) {
	e.seeded()
	for _, space := range []string{"s", "b"} {
		for _, c := range []struct {
			kind mainstem.Kind
			w    mainstem.Write
		}{
			{mainstem.KindInvalid, mainstem.Write{Op: mainstem.OpTruncate, Key: []byte("live"), Version: 99}},
			{mainstem.KindNotFound, mainstem.Write{Op: mainstem.OpRewrite, Key: []byte("twice"), Version: 99}},
			{mainstem.KindNotFound, mainstem.Write{Op: mainstem.OpRemove, Key: []byte("nothing"), Version: 1}},
		} {
			c.w.Space = space
			e.refused(c.kind, func(b *mainstem.Batch) { muchWork(b); b.Add(c.w) })
			e.refused(c.kind, func(b *mainstem.Batch) { b.Add(c.w); muchWork(b) })
		}
	}
}

func batchOverSpaces(e *env) {
	e.seeded()
	r := e.commit(muchWork)
	for _, space := range []string{"s", "b"} {
		e.holds(space, "fresh", "x")
		e.holds(space, "live", "x")
		e.holds(space, "gone", "x")
		e.absent(space, "twice")
	}
	e.holds("new", "k", "x")
	e.same("the batch in the feed", briefs(e.feed(mainstem.Filter{After: r.First - 1})),
		"s/fresh@1=x", "s/live@2=x", "s/gone@3=x", "s/twice@3 deleted",
		"b/fresh@1=x", "b/live@2=x", "b/gone@3=x", "b/twice@3 deleted", "new/k@1=x")
}

// busy is how many batches the concurrent cases of the laws commit: under -short a
// third, which takes a ninth of the time where readers see all that was written.
func busy() int {
	if testing.Short() {
		return 100
	}
	return 300
}

// whileWriting commits busy() batches that fill makes while look runs again and
// again in three goroutines, each at least once after the last commit.
func (e *env) whileWriting(fill func(b *mainstem.Batch, n int), look func() error) {
	e.Helper()
	var done atomic.Bool
	e.parallel(4, func(i int) error {
		if i > 0 {
			for last := false; ; {
				if err := look(); err != nil || last {
					return err
				}
				e.progress.moved()
				last = done.Load()
			}
		}
		defer done.Store(true)
		for n := 1; n <= busy(); n++ {
			b := mainstem.NewBatch()
			fill(b, n)
			if _, err := e.attempt(b); err != nil {
				return fmt.Errorf("commit %d: %w", n, err)
			}
		}
		return nil
	})
}

func scanSeesWholeBatches(e *env) {
	for _, p := range []mainstem.Policy{{}, {History: 1}, {History: 3, NoFeed: true}} {
		name := fmt.Sprintf("h%d", p.History)
		e.space(name, p)
		for i := range 200 { // what stands between the two keys gives a writer time
			e.put(name, fmt.Sprintf("m%03d", i), "filler")
		}
		e.whileWriting(
			func(b *mainstem.Batch, n int) {
				b.Put(name, []byte("a"), []byte(strconv.Itoa(n)))
				b.Put(name, []byte("z"), []byte(strconv.Itoa(n)))
			},
			func() error {
				records, err := collect(e.log.Scan(e.ctx, name, mainstem.Range{}))
				if err != nil {
					return err
				}
				seen := map[string]string{}
				for _, r := range records {
					seen[string(r.Key)] = string(r.Value)
				}
				if seen["a"] != seen["z"] {
					return fmt.Errorf("scan %s: key a has batch %q, key z has batch %q", name, seen["a"], seen["z"])
				}
				return nil
			})
	}
}

func feedEndsBetweenBatches(e *env) {
	const width = 5
	for i := range width {
		e.space(fmt.Sprintf("s%d", i), mainstem.Policy{})
	}
	e.whileWriting(
		func(b *mainstem.Batch, n int) {
			for i := range width {
				b.Put(fmt.Sprintf("s%d", i), []byte("k"), []byte(strconv.Itoa(n)))
			}
		},
		func() error {
			records, err := collect(e.log.Feed(e.ctx, mainstem.Filter{}))
			if err != nil {
				return err
			}
			for i, r := range records {
				if want := strconv.Itoa(i/width + 1); string(r.Value) != want {
					return fmt.Errorf("record %d of the feed is of batch %s, want %s: batches are mixed", i, r.Value, want)
				}
			}
			if len(records)%width != 0 {
				return fmt.Errorf("the feed ends with %d of the %d records of a batch", len(records)%width, width)
			}
			return nil
		})
}

func readSeesWholeBatches(e *env) {
	e.space("s", mainstem.Policy{})
	e.whileWriting(
		func(b *mainstem.Batch, n int) {
			for range 3 {
				b.Put("s", []byte("k"), []byte(strconv.Itoa(n)))
			}
		},
		func() error {
			records, err := collect(e.log.Read(e.ctx, "s", []byte("k"), mainstem.Versions{}))
			if err != nil {
				return err
			}
			if len(records)%3 != 0 {
				return fmt.Errorf("a read saw %d of the 3 records of a batch", len(records)%3)
			}
			return nil
		})
}

func getsNeverGoBack(e *env) {
	e.space("one", mainstem.Policy{History: 1})
	e.space("two", mainstem.Policy{})
	number := func(space, key string) (int, error) {
		r, err := e.log.Get(e.ctx, space, []byte(key))
		if errors.Is(err, mainstem.ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(r.Value))
	}
	keys := [][2]string{{"one", "a"}, {"two", "b"}, {"one", "c"}, {"two", "a"}}
	e.whileWriting(
		func(b *mainstem.Batch, n int) {
			for _, k := range keys {
				b.Put(k[0], []byte(k[1]), []byte(strconv.Itoa(n)))
			}
		},
		func() error {
			seen := 0
			for i := range 2 * len(keys) {
				k := keys[i%len(keys)]
				n, err := number(k[0], k[1])
				if err != nil {
					return err
				}
				if n < seen {
					return fmt.Errorf("key %s/%s has batch %d after another key had batch %d", k[0], k[1], n, seen)
				}
				seen = n
			}
			return nil
		})
}

func snapshotSeesWholeBatches(e *env) {
	e.space("one", mainstem.Policy{History: 1})
	e.space("two", mainstem.Policy{})
	value := func(s mainstem.Reader, space string) (string, error) {
		r, err := s.Get(e.ctx, space, []byte("k"))
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return "", err
		}
		return string(r.Value), nil
	}
	e.whileWriting(
		func(b *mainstem.Batch, n int) {
			b.Put("one", []byte("k"), []byte(strconv.Itoa(n)))
			b.Put("two", []byte("k"), []byte(strconv.Itoa(n)))
		},
		func() error {
			s, err := e.log.(mainstem.Snapshotter).Snapshot(e.ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			two, err2 := value(s, "two")
			one, err1 := value(s, "one")
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if one != two {
				return fmt.Errorf("a snapshot has batch %q in one space and %q in the other", one, two)
			}
			return nil
		})
}
