package enginetest

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

var orderedCases = []testCase{
	{law: Ordered, name: "positions follow commits", run: positionsFollowCommits,
		promise: "Each batch has positions above those of every batch before it, and its records have them in the order of its writes."},
	{law: Ordered, name: "feed order across spaces", run: feedOrderAcrossSpaces,
		promise: "A feed of many spaces yields one total order, that of the positions."},
	{law: Ordered, name: "polling sees no holes", run: pollingSeesNoHoles,
		promise: "A reader that goes on after the last position it saw misses nothing, however many writers there are."},
	{law: Ordered, name: "following sees no holes", run: followingSeesNoHoles,
		promise: "A follower sees every record exactly once and in order, however many writers there are."},
	{law: Ordered, name: "head covers what is below", run: headCoversWhatIsBelow,
		promise: "When Head has returned p, every record up to p is there to be read."},
	{law: Ordered, name: "the last of a space is there", run: lastIsThere,
		promise: "When Space has returned Last, every record of the space up to it is there to be read, and Head is not below it."},
	{law: Ordered, name: "committed is readable", run: committedIsReadable,
		promise: "When Commit has returned, every reader sees the batch."},
	{law: Ordered, name: "versions are consecutive", run: versionsAreConsecutive,
		promise: "Versions of a key are given without gap or repetition in the order of positions, however many writers there are."},
	{law: Ordered, name: "time never decreases", run: timeNeverDecreases,
		promise: "The time of records and receipts never decreases with their position."},
	{law: Ordered, name: "positions never return", run: positionsNeverReturn,
		promise: "Positions of records that were removed are not given again."},
}

func positionsFollowCommits(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 1, NoFeed: true})
	if p := e.head(); p != 0 {
		e.Fatalf("the head of an empty log is %d, want 0", p)
	}
	var last mainstem.Position
	for n := range 20 {
		r := e.commit(func(b *mainstem.Batch) {
			for i := range n%4 + 1 {
				b.Put("s", []byte{byte('a' + i)}, nil)
			}
			b.Put("b", []byte("k"), nil)
		})
		if r.First <= last || r.Last <= r.First {
			e.Fatalf("batch %d has positions %d to %d after %d", n, r.First, r.Last, last)
		}
		if last == 0 && r.First != 1 {
			e.Fatalf("the first record of the log has position %d, want 1", r.First)
		}
		p := r.First - 1
		for i := range n%4 + 1 {
			rec := e.get("s", string(byte('a'+i)))
			if rec.Position <= p || i == 0 && rec.Position != r.First {
				e.Fatalf("write %d of the batch at %d to %d has position %d after %d", i, r.First, r.Last, rec.Position, p)
			}
			p = rec.Position
		}
		if rec := e.get("b", "k"); rec.Position <= p || rec.Position != r.Last {
			e.Fatalf("the last write of the batch has position %d, the receipt says %d", rec.Position, r.Last)
		}
		if last = r.Last; e.head() != last {
			e.Fatalf("the head is %d after a batch that ends at %d", e.head(), last)
		}
	}
}

func feedOrderAcrossSpaces(e *env) {
	var want []string
	spaces := []string{"z", "a", "a/b", "m"}
	for _, s := range spaces {
		e.space(s, mainstem.Policy{})
	}
	for n := range 40 {
		e.commit(func(b *mainstem.Batch) {
			for i := range n%3 + 1 {
				s, k := spaces[(n*7+i*3)%len(spaces)], fmt.Sprintf("k%d-%d", n, i)
				b.Put(s, []byte(k), []byte("v"))
				want = append(want, fmt.Sprintf("%s/%s@1=v", s, k))
			}
		})
	}
	got := e.feed(mainstem.Filter{})
	e.same("the feed", briefs(got), want...)
	ascending(e, got)
	got = e.feed(mainstem.Filter{Spaces: []string{"m", "z"}})
	ascending(e, got)
	want = slices.DeleteFunc(want, func(s string) bool { return s[0] == 'a' })
	e.same("the feed of two spaces", briefs(got), want...)
}

// ascending fails unless positions increase.
func ascending(e *env, records []mainstem.Record) {
	e.Helper()
	if err := checkAscending(records); err != nil {
		e.Fatalf("%v", err)
	}
}

func checkAscending(records []mainstem.Record) error {
	for i := 1; i < len(records); i++ {
		if records[i].Position <= records[i-1].Position {
			return fmt.Errorf("%s at position %d follows %s at %d", brief(records[i]), records[i].Position, brief(records[i-1]), records[i-1].Position)
		}
		if records[i].Time.Before(records[i-1].Time) {
			return fmt.Errorf("%s of %v follows %s of %v", brief(records[i]), records[i].Time, brief(records[i-1]), records[i-1].Time)
		}
	}
	return nil
}

// Many writers, in the cases on holes.
const (
	manyWriters = 8
	writerWork  = 60
)

// manyWrite lets many writers commit batches of one to three records each in
// two spaces, at once; then it sets done.
func (e *env) manyWrite(done *atomic.Bool) error {
	defer done.Store(true)
	return inParallel(manyWriters, func(w int) error {
		for n := range writerWork {
			b := mainstem.NewBatch()
			for i := range (w+n)%3 + 1 {
				b.Put([]string{"even", "odd"}[(n+i)%2], []byte{byte('a' + w)}, fmt.Appendf(nil, "%d.%d.%d", w, n, i))
			}
			if _, err := e.attempt(b); err != nil {
				return err
			}
			runtime.Gosched() // readers shall see every state of a quick log too
		}
		return nil
	})
}

// watch runs three goroutines of look beside manyWrite and compares what each
// returns with what the feed of f holds in the end.
func (e *env) watch(f mainstem.Filter, look func(done *atomic.Bool) ([]mainstem.Record, error)) {
	e.Helper()
	e.space("even", mainstem.Policy{})
	e.space("odd", mainstem.Policy{})
	var done atomic.Bool
	var mu sync.Mutex
	var seen [][]mainstem.Record
	e.parallel(4, func(i int) error {
		if i == 0 {
			return e.manyWrite(&done)
		}
		records, err := look(&done)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, records)
		return err
	})
	want := e.feed(f)
	ascending(e, want)
	for _, got := range seen {
		e.same("what a reader saw while others wrote", fulls(got), fulls(want)...)
	}
}

func fulls(records []mainstem.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = full(r)
	}
	return out
}

func pollingSeesNoHoles(e *env) {
	e.watch(mainstem.Filter{}, func(done *atomic.Bool) (out []mainstem.Record, err error) {
		f := mainstem.Filter{}
		for n := 0; ; n++ {
			last := done.Load()
			f.Limit = n % 2 * (n % 7) // with and without a limit
			records, err := collect(e.log.Feed(e.ctx, f))
			if err != nil {
				return nil, err
			}
			if out = append(out, records...); len(out) > 0 {
				f.After = out[len(out)-1].Position
			}
			if last && f.Limit == 0 {
				return out, nil
			}
		}
	})
}

func followingSeesNoHoles(e *env) {
	f := mainstem.Filter{Spaces: []string{"odd", "even", "stop"}}
	total := 0
	for w := range manyWriters {
		for n := range writerWork {
			total += (w+n)%3 + 1
		}
	}
	e.watch(f, func(*atomic.Bool) ([]mainstem.Record, error) {
		f := f
		f.Follow, f.Limit = true, total
		return collect(e.log.Feed(e.ctx, f))
	})
	if got := len(e.feed(f)); got != total {
		e.Fatalf("the feed holds %d records, %d were written", got, total)
	}
}

func headCoversWhatIsBelow(e *env) {
	type look struct {
		head mainstem.Position
		n    int // records up to head at that time
	}
	var mu sync.Mutex
	var looks []look
	e.watch(mainstem.Filter{}, func(done *atomic.Bool) ([]mainstem.Record, error) {
		for {
			last := done.Load()
			head, err := e.log.Head(e.ctx)
			if err != nil {
				return nil, err
			}
			records, err := collect(e.log.Feed(e.ctx, mainstem.Filter{}))
			if err != nil || last {
				return records, err
			}
			mu.Lock()
			looks = append(looks, look{head, upTo(records, head)})
			mu.Unlock()
		}
	})
	final := e.feed(mainstem.Filter{})
	for _, l := range looks {
		if want := upTo(final, l.head); l.n != want {
			e.Fatalf("when the head was %d, %d records up to it were there; later there are %d", l.head, l.n, want)
		}
	}
}

func upTo(records []mainstem.Record, p mainstem.Position) (n int) {
	for _, r := range records {
		if r.Position <= p {
			n++
		}
	}
	return n
}

func lastIsThere(e *env) {
	e.space("s", mainstem.Policy{})
	e.whileWriting(
		func(b *mainstem.Batch, n int) { b.Put("s", []byte("k"), []byte(strconv.Itoa(n))) },
		func() error {
			info, err := e.log.Space(e.ctx, "s")
			if err != nil || info.Last == 0 {
				return err
			}
			records, err := collect(e.log.Feed(e.ctx, mainstem.Filter{Spaces: []string{"s"}, After: info.Last - 1}))
			if err == nil && len(records) == 0 {
				err = fmt.Errorf("the last record of the space was at %d, and then there was none from there on", info.Last)
			}
			if err != nil {
				return err
			}
			head, err := e.log.Head(e.ctx)
			if err == nil && head < info.Last {
				err = fmt.Errorf("the last record of the space was at %d, and then the head was %d", info.Last, head)
			}
			return err
		})
}

func committedIsReadable(e *env) {
	e.space("s", mainstem.Policy{})
	e.space("b", mainstem.Policy{History: 1})
	e.parallel(manyWriters, func(w int) error {
		key := []byte{byte('a' + w)}
		for n := range writerWork {
			b := mainstem.NewBatch()
			b.Put("s", key, []byte{byte(n)})
			b.Put("b", key, []byte{byte(n)})
			r, err := e.attempt(b)
			if err != nil {
				return err
			}
			if err := e.readable(r, key, byte(n)); err != nil {
				return fmt.Errorf("commit %d had returned, but %w", n, err)
			}
		}
		return nil
	})
}

func (e *env) readable(r mainstem.Receipt, key []byte, value byte) error {
	for _, space := range []string{"s", "b"} {
		rec, err := e.log.Get(e.ctx, space, key)
		if err != nil {
			return err
		}
		if len(rec.Value) != 1 || rec.Value[0] != value {
			return fmt.Errorf("get finds %s", brief(rec))
		}
	}
	if head, err := e.log.Head(e.ctx); err != nil || head < r.Last {
		return fmt.Errorf("the head is %d (%v), below %d", head, err, r.Last)
	}
	found := 0
	for rec, err := range e.log.Feed(e.ctx, mainstem.Filter{After: r.First - 1}) {
		if err != nil {
			return err
		}
		if rec.Position == r.First || rec.Position == r.Last {
			found++
		}
	}
	if found != 2 {
		return fmt.Errorf("a feed after %d finds %d of its 2 records", r.First-1, found)
	}
	return nil
}

func versionsAreConsecutive(e *env) {
	e.space("s", mainstem.Policy{})
	given := make([][]mainstem.Version, manyWriters)
	e.parallel(manyWriters, func(w int) error {
		for n := range writerWork {
			b := mainstem.NewBatch()
			b.Add(mainstem.Write{Space: "s", Key: []byte("k"), Count: uint32(n%3 + 1)})
			r, err := e.attempt(b)
			if err != nil {
				return err
			}
			given[w] = append(given[w], r.Versions[0])
		}
		return nil
	})
	var want mainstem.Version
	records := e.read("s", "k", mainstem.Versions{})
	for _, r := range records {
		if r.First() != want+1 {
			e.Fatalf("the record of versions %d to %d follows version %d", r.First(), r.Version, want)
		}
		want = r.Version
	}
	ascending(e, records)
	all := slices.Concat(given...)
	slices.Sort(all)
	if len(records) != len(all) {
		e.Fatalf("%d records are held, %d were acknowledged", len(records), len(all))
	}
	for i, r := range records {
		if r.Version != all[i] {
			e.Fatalf("record %d ends at version %d, but the writers were told %d", i, r.Version, all[i])
		}
	}
}

func timeNeverDecreases(e *env) {
	e.space("s", mainstem.Policy{})
	e.parallel(4, func(w int) error {
		var last time.Time
		for range writerWork {
			b := mainstem.NewBatch()
			b.Put("s", []byte{byte('a' + w)}, nil)
			r, err := e.attempt(b)
			if err != nil {
				return err
			}
			rec, err := e.log.Get(e.ctx, "s", []byte{byte('a' + w)})
			if err != nil {
				return err
			}
			if !rec.Time.Equal(r.Time) {
				return fmt.Errorf("the record says %v, its receipt %v", rec.Time, r.Time)
			}
			if r.Time.IsZero() || r.Time.Before(last) {
				return fmt.Errorf("a receipt of %v follows one of %v", r.Time, last)
			}
			last = r.Time
		}
		return nil
	})
	ascending(e, e.feed(mainstem.Filter{}))
}

func positionsNeverReturn(e *env) {
	e.space("s", mainstem.Policy{})
	last := e.put("s", "k", "1").Last
	if e.f.Forget {
		e.apply("s", "k", mainstem.Write{Op: mainstem.OpForget})
	}
	if err := e.log.DropSpace(e.ctx, "s"); err != nil {
		e.Fatalf("drop: %v", err)
	}
	if e.head() != last {
		e.Fatalf("the head is %d after its record was dropped, want %d", e.head(), last)
	}
	e.space("s", mainstem.Policy{})
	if r := e.put("s", "k", "2"); r.First <= last {
		e.Fatalf("position %d was given again: the log was at %d before its space was dropped", r.First, last)
	}
}
