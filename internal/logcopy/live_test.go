package logcopy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// traffic writes to a log until it is stopped.
type traffic struct {
	stop chan struct{}
	done sync.WaitGroup
}

func startTraffic(t *testing.T, log mainstem.Log) *traffic {
	tr := &traffic{stop: make(chan struct{})}
	for g := range 2 {
		tr.done.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for n := range testkit.Rounds(1000) { // then the rest of the test is quiet, on a slow machine
				select {
				case <-tr.stop:
					return
				default:
				}
				if err := traffic1(log, r, n); err != nil {
					t.Errorf("traffic: %v", err)
					return
				}
			}
		})
	}
	return tr
}

func (tr *traffic) end() {
	close(tr.stop)
	tr.done.Wait()
}

// traffic1 makes one random commit.
func traffic1(log mainstem.Log, r *rand.Rand, n int) error {
	b := mainstem.NewBatch()
	b.Durability = mainstem.OS
	b.Ensure("all", mainstem.Policy{})
	b.Ensure("one", mainstem.Policy{History: 1})
	b.Ensure("two", mainstem.Policy{History: 2})
	b.Ensure("quiet", mainstem.Policy{History: 1, NoFeed: true})
	key := fmt.Append(nil, "k", r.IntN(50))
	for _, space := range []string{"all", "one", "two", "quiet"} {
		b.Put(space, key, fmt.Append(nil, n))
	}
	switch r.IntN(10) {
	case 0:
		b.Delete("one", fmt.Append(nil, "k", r.IntN(50)))
	case 1:
		b.Truncate("all", key, 1+mainstem.Version(r.IntN(2)))
	case 2:
		b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: "two", Key: key})
	}
	_, err := log.Commit(context.Background(), b)
	return err
}

// TestWhileWritten copies a log that is written all the time, with and without snapshots,
// then once more when it is quiet: then everything is the same.
func TestWhileWritten(t *testing.T) {
	for _, snapshots := range []bool{true, false} {
		t.Run(fmt.Sprintf("snapshots=%v", snapshots), func(t *testing.T) {
			log, to := open(t, nil), open(t, nil)
			from := mainstem.Log(log)
			if !snapshots {
				from = plain{log}
			}
			r := rand.New(rand.NewPCG(3, 3))
			for n := range 300 {
				if err := traffic1(log, r, n); err != nil {
					t.Fatal(err)
				}
			}
			tr := startTraffic(t, log)
			for range 3 {
				run(t, from, to, nil)
			}
			tr.end()
			r2 := run(t, from, to, nil)
			if r2.Head != r2.Position || r2.Moving != 0 || !r2.Resumed {
				t.Errorf("%+v", r2)
			}
			same(t, undated(dump(t, to, "", nil)), undated(dump(t, log, "", nil)))
			if r := run(t, from, to, nil); r.Records != 0 || r.Repaired != 0 || r.Verified.Records == 0 {
				t.Errorf("a run with nothing to do: %+v", r)
			}
		})
	}
}

// TestExpiryAcrossRuns: records that expire between two runs do so in the target by
// itself; a key that was renewed goes on with its versions.
func TestExpiryAcrossRuns(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	o := &logcopy.Options{Now: c.Now}
	put := func(key string, ttl time.Duration) {
		commit(t, from, func(b *mainstem.Batch) {
			b.Ensure("leases", mainstem.Policy{History: 1})
			b.Add(mainstem.Write{Space: "leases", Key: []byte(key), Value: []byte(key), TTL: ttl})
		})
		c.Advance(time.Second)
	}
	sweep := func() {
		for _, log := range []*pebblelog.Log{from, to} {
			if err := log.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("ends", 10*time.Second)
	put("renewed", 10*time.Second)
	put("lasting", time.Hour)
	run(t, from, to, o)
	same(t, dump(t, to, "", nil), dump(t, from, "", nil))

	c.Advance(5 * time.Second)
	for range 3 {
		put("renewed", time.Minute)
	}
	c.Advance(5 * time.Second)
	sweep()
	r := run(t, from, to, o)
	if r.ExpiryTombstones == 0 || r.Later == 0 { // the target has a tombstone of its own, later than what came then
		t.Errorf("%+v", r)
	}
	if r := run(t, from, to, o); r.Records != 0 || r.Repaired != 0 {
		t.Errorf("%+v", r)
	}
	for _, key := range []string{"ends", "renewed", "lasting"} {
		s, serr := from.Get(t.Context(), "leases", []byte(key))
		d, derr := to.Get(t.Context(), "leases", []byte(key))
		if mainstem.KindOf(serr) != mainstem.KindOf(derr) || s.Version != d.Version || !s.Expires.Equal(d.Expires) || string(s.Value) != string(d.Value) {
			t.Errorf("%s is %+v %v, want %+v %v", key, d, derr, s, serr)
		}
		sv, _ := logcopy.Probe(t.Context(), from, "leases", []byte(key))
		if dv, _ := logcopy.Probe(t.Context(), to, "leases", []byte(key)); sv != dv {
			t.Errorf("%s is at version %d, want %d", key, dv, sv)
		}
	}
}

// slow is a log in which a commit of records takes a second.
type slow struct {
	mainstem.Log
	clock *testkit.Clock
}

func (l slow) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if b.Len() > 0 {
		l.clock.Advance(time.Second)
	}
	return l.Log.Commit(ctx, b)
}

// TestShortLivesStandAtTheEnd: what is expected to expire while the copy runs is put at
// the end if it does not, and known to be there.
func TestShortLivesStandAtTheEnd(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	for n := range 40 {
		commit(t, from, func(b *mainstem.Batch) {
			b.Ensure("s", mainstem.Policy{History: 1})
			w := mainstem.Write{Space: "s", Key: fmt.Append(nil, n), Value: []byte("x")}
			if n == 15 {
				w.TTL, w.Count = 40*time.Millisecond+60*time.Second, 3
			}
			b.Add(w)
		})
		c.Advance(time.Millisecond)
	}
	o := &logcopy.Options{Now: c.Now}
	r := run(t, from, slow{to, c}, o)
	if r.Late != 1 || r.Later != 0 || r.Repaired != 1 {
		t.Errorf("%+v", r)
	}
	s, err := to.Get(t.Context(), "s", []byte("15"))
	want, werr := from.Get(t.Context(), "s", []byte("15"))
	if err != nil || werr != nil || s.Version != want.Version || !s.Expires.Equal(want.Expires) {
		t.Errorf("got %+v %v, want %+v %v", s, err, want, werr)
	}
	if r := run(t, from, to, o); r.Repaired != 0 || r.Records != 0 { // it knows that the record was moved
		t.Errorf("%+v", r)
	}
}

// TestHiddenKeys: a key of a space without feed whose newest record was removed is in no
// list; the report says that there is one.
func TestHiddenKeys(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	commit(t, from, func(b *mainstem.Batch) {
		b.Ensure("quiet", mainstem.Policy{NoFeed: true})
		b.Put("quiet", []byte("listed"), nil)
		b.Put("quiet", []byte("k"), nil)
		b.Put("quiet", []byte("k"), nil)
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "quiet", Key: []byte("k"), Version: 2})
	})
	if r := run(t, from, to, &logcopy.Options{Now: c.Now}); r.Hidden != 1 || r.Verified.Keys != 1 {
		t.Errorf("%+v", r)
	}
}

// TestLargeGaps: a gap may be larger than what one record can carry.
func TestLargeGaps(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	commit(t, from, func(b *mainstem.Batch) {
		b.Ensure("all", mainstem.Policy{})
		b.Ensure("one", mainstem.Policy{History: 1})
		b.Ensure("two", mainstem.Policy{History: 2})
		for _, space := range []string{"all", "one", "two"} {
			for range 3 {
				b.Add(mainstem.Write{Space: space, Key: []byte("put"), Count: 1<<32 - 1})
				b.Add(mainstem.Write{Space: space, Key: []byte("deleted"), Count: 1<<32 - 1})
			}
			b.Delete(space, []byte("deleted"))
			b.Put(space, []byte("put"), []byte("x"))
			b.Truncate(space, []byte("put"), 3*(1<<32-1)+1)
			b.Truncate(space, []byte("deleted"), 3*(1<<32-1)+1)
		}
	})
	run(t, from, to, &logcopy.Options{Now: c.Now})
	same(t, dump(t, to, "", nil), dump(t, from, "", nil))
}

// TestKeysWithoutRecords: the versions of keys that are named go on.
func TestKeysWithoutRecords(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	commit(t, from, func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{})
		b.Add(mainstem.Write{Space: "s", Key: []byte("k"), Count: 41})
		b.Truncate("s", []byte("k"), 42)
	})
	run(t, from, to, &logcopy.Options{Now: c.Now, Keys: func(context.Context, mainstem.Reader, mainstem.SpaceInfo) ([][]byte, error) {
		return [][]byte{[]byte("k"), []byte("never")}, nil
	}})
	r := commit(t, to, func(b *mainstem.Batch) { b.Put("s", []byte("k"), nil) })
	if r.Versions[0] != 42 {
		t.Errorf("the key goes on with version %d, want 42", r.Versions[0])
	}
}

// TestLimitsOfTheTarget: a batch that is too large is split, and a value that is too
// large named.
func TestLimitsOfTheTarget(t *testing.T) {
	c := new(testkit.Clock)
	from := open(t, c)
	to, err := pebblelog.OpenMemory(&pebblelog.Options{Now: c.Now, Limits: mainstem.Limits{MaxValue: 1000, MaxBatchBytes: 3000, MaxBatchWrites: 5}})
	if err != nil {
		t.Fatal(err)
	}
	defer checkAndClose(t, to)
	commit(t, from, func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{})
		for n := range 50 {
			b.Put("s", fmt.Append(nil, n), make([]byte, 900))
		}
	})
	o := &logcopy.Options{Now: c.Now}
	run(t, from, to, o)
	same(t, dump(t, to, "", nil), dump(t, from, "", nil))

	commit(t, from, func(b *mainstem.Batch) { b.Put("s", []byte("large"), make([]byte, 1001)) })
	cp, err := logcopy.New(from, to, o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cp.Run(t.Context())
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindInvalid || e.Space != "s" || string(e.Key) != "large" ||
		!strings.Contains(err.Error(), "the limit is 1000") || e.Hint == "" {
		t.Fatalf("%+v", err)
	}
}

// timeless is a log that ignores the time of a batch, as an older server does.
type timeless struct{ mainstem.Log }

func (l timeless) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	b.Time = time.Time{}
	return l.Log.Commit(ctx, b)
}

// limited is a log that does not offer a policy.
type limited struct{ mainstem.Log }

func (l limited) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	for _, e := range b.Ensures() {
		if e.Policy.MaxAge > 0 {
			return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "commit", Outcome: mainstem.NotWritten, Err: errors.New("no MaxAge here")}
		}
	}
	return l.Log.Commit(ctx, b)
}

func TestWhatATargetDoesNotOffer(t *testing.T) {
	c := new(testkit.Clock)
	from := open(t, c)
	fillAll(t, from, c)
	for _, tt := range []struct {
		to   func(mainstem.Log) mainstem.Log
		text string
	}{
		{func(l mainstem.Log) mainstem.Log { return timeless{l} }, "records cannot keep their times"},
		{func(l mainstem.Log) mainstem.Log { return limited{l} }, "no MaxAge here"},
	} {
		to := open(t, c)
		refused(t, from, tt.to(to), mainstem.KindUnsupported, tt.text, &logcopy.Options{Now: c.Now})
		for in := range to.Spaces(t.Context(), "") {
			t.Errorf("%s: the space %s is left", tt.text, in.Name)
		}
	}
}

// unsure is a log whose commits end with an unknown outcome, in turn written and not.
type unsure struct {
	mainstem.Log
	n int
}

func (l *unsure) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if b.Len() == 0 {
		return l.Log.Commit(ctx, b)
	}
	l.n++
	r, err := mainstem.Receipt{}, error(nil)
	if l.n%3 > 0 {
		r, err = l.Log.Commit(ctx, b)
	}
	if err == nil && l.n%3 < 2 {
		err = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
	}
	return r, err
}

func TestUnknownOutcomes(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	fillAll(t, from, c)
	run(t, from, &unsure{Log: to}, &logcopy.Options{Now: c.Now, BatchWrites: 1})
	same(t, dump(t, to, "", nil), dump(t, from, "", nil))
}

// TestDamageIsFound changes the target behind the copy's back.
func TestDamageIsFound(t *testing.T) {
	c := new(testkit.Clock)
	from, to := open(t, c), open(t, c)
	fillAll(t, from, c)
	o := &logcopy.Options{Now: c.Now}
	run(t, from, to, o)
	verify := func() logcopy.Report {
		t.Helper()
		cp, err := logcopy.New(from, to, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := cp.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := verify(); r.Err() != nil || r.Verified.Records == 0 || r.Verified.Keys == 0 {
		t.Fatalf("%+v", r)
	}
	commit(t, to, func(b *mainstem.Batch) {
		b.Rewrite("all", []byte("b"), 1, []byte("wrong"), nil)
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "quiet", Key: []byte("q")})
		b.Put("one", []byte("more"), nil)
	})
	if err := to.DropSpace(t.Context(), "sized"); err != nil {
		t.Fatal(err)
	}
	r := verify()
	text := fmt.Sprint(r.Differences)
	for _, want := range []string{
		`space all, key "b", version 1: the target has a value of 5 bytes instead of 3 bytes`,
		`space quiet, key "q", version 3: only the source has it`,
		`space one, key "more", version 1: only the target has it`,
		"space sized: the target has no such space",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not among %s", want, text)
		}
	}
	if !errors.Is(r.Err(), mainstem.ErrCorrupt) || int(r.Different) != len(r.Differences) {
		t.Errorf("%+v", r)
	}
}

// TestEngines copies from a directory's engine through every engine and back.
func TestEngines(t *testing.T) {
	c := new(testkit.Clock)
	c.Set(time.Now().Add(-time.Minute))
	from := open(t, c)
	fillAll(t, from, c)
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		run(t, from, log, nil)
		back := open(t, nil)
		run(t, log, back, nil)
		same(t, dump(t, back, "", nil), dump(t, from, "", nil))
	}, testengines.Skip("model", "its tombstones do not expire"))
}
