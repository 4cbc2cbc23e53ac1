package natslog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// tidy is a log that deletes what is dead with every sweep, and its stream.
type tidy struct {
	*natslog.Log
	t      *testing.T
	url    string
	stream jetstream.Stream
	o      natslog.Options
}

func openTidy(t *testing.T) *tidy {
	t.Helper()
	srv := testnats.NewServer(t, nil)
	l := &tidy{t: t, url: srv.URL(), o: natslog.Options{Stream: "S", Grace: time.Nanosecond, SweepEvery: -1, CacheBytes: 1, Latest: true}}
	l.Log = open(t, l.url, l.o)
	var err error
	if l.stream, err = testnats.JetStream(t, testnats.Connect(t, l.url)).Stream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	return l
}

// write commits one batch.
func (l *tidy) write(fill func(b *mainstem.Batch)) {
	l.t.Helper()
	b := mainstem.NewBatch()
	fill(b)
	mustCommit(l.t, l, b)
}

// messages sweeps until nothing changes and returns how many messages the stream holds.
func (l *tidy) messages() uint64 {
	l.t.Helper()
	last := uint64(0)
	for {
		if err := l.Sweep(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
		info, err := l.stream.Info(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		if info.State.Msgs == last {
			return last
		}
		last = info.State.Msgs
	}
}

// contents describes everything that is in a log.
func contents(t *testing.T, log *natslog.Log) string {
	t.Helper()
	text := ""
	note := func(r mainstem.Record, err error) {
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s/%s@%d #%d %d %v=%q\n", r.Space, r.Key, r.Version, r.Position, r.Time.UnixNano(), r.Tombstone, r.Value)
	}
	for r, err := range log.Feed(t.Context(), mainstem.Filter{}) {
		note(r, err)
	}
	for in, err := range log.Spaces(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%+v\n", in)
		for r, err := range log.Scan(t.Context(), in.Name, mainstem.Range{Tombstones: true}) {
			note(r, err)
		}
	}
	return text
}

// difference shows the lines that only one of two texts has.
func difference(got, want string) string {
	text := ""
	for _, c := range []struct{ name, in, not string }{{"got", got, want}, {"want", want, got}} {
		lines := strings.Split(c.not, "\n")
		for line := range strings.SplitSeq(c.in, "\n") {
			if !slices.Contains(lines, line) {
				text += fmt.Sprintf("\n%s %s", c.name, line)
			}
		}
	}
	return text
}

// same fails unless the log, checked, and a new one on the same stream hold want.
func (l *tidy) same(want string) {
	l.t.Helper()
	again := open(l.t, l.url, l.o)
	for what, log := range map[string]*natslog.Log{"the log": l.Log, "a new one": again} {
		if got := contents(l.t, log); got != want {
			l.t.Fatalf("%s holds something else: %s", what, difference(got, want))
		}
		if seq := log.Miscounted(); seq != 0 {
			l.t.Fatalf("%s counts the facts of message %d wrongly", what, seq)
		}
		if _, err := log.Check(l.t.Context(), func(p mainstem.Problem) { l.t.Errorf("%s: %s: %s", what, p.Where, p.What) }); err != nil {
			l.t.Fatal(err)
		}
	}
}

func TestSupersededMessagesAreDeleted(t *testing.T) {
	l := openTidy(t)
	if err := l.CreateSpace(t.Context(), "b", mainstem.Policy{History: 1}); err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		l.write(func(b *mainstem.Batch) { b.Put("b", []byte("k"), fmt.Append(nil, n)) })
	}
	want := contents(t, l.Log)
	if n := l.messages(); n > 3 {
		t.Fatalf("%d messages hold one record", n)
	}
	l.same(want)
}

func TestSparseMessagesAreRepacked(t *testing.T) {
	l := openTidy(t)
	l.write(func(b *mainstem.Batch) {
		b.ID = "import"
		b.Ensure("b", mainstem.Policy{History: 1, TombstoneAge: -1})
		b.Ensure("all", mainstem.Policy{})
		for n := range 100 {
			b.Put("b", fmt.Append(nil, "key ", n), fmt.Append(nil, "value ", n))
			b.Put("all", fmt.Append(nil, "key ", n), fmt.Append(nil, "event ", n))
		}
	})
	first := mustCommit(t, l, &mainstem.Batch{ID: "import"})
	for n := range 100 {
		l.write(func(b *mainstem.Batch) {
			switch {
			case n < 45:
				b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "all", Key: fmt.Append(nil, "key ", n)})
				b.Put("b", fmt.Append(nil, "key ", n), fmt.Append(nil, "new ", n))
			case n < 90:
				b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: "b", Key: fmt.Append(nil, "key ", n)})
				b.Truncate("all", fmt.Append(nil, "key ", n), 2)
			case n < 95:
				b.Rewrite("all", fmt.Append(nil, "key ", n), 1, []byte("redacted"), nil)
			}
		})
	}
	want := contents(t, l.Log)
	before, err := l.stream.GetMsg(t.Context(), 1)
	if err != nil || before.Sequence != 1 {
		t.Fatalf("the first message: %+v, %v", before, err)
	}
	l.messages()
	if _, err := l.stream.GetMsg(t.Context(), 1); err == nil {
		t.Fatal("a message of which a tenth counts is still there")
	}
	l.same(want)
	r := mustCommit(t, l, &mainstem.Batch{ID: "import"})
	if !r.Duplicate || r.First != first.First || len(r.Versions) != len(first.Versions) {
		t.Fatalf("the ID of a repacked batch is forgotten: %+v", r)
	}
	l.write(func(b *mainstem.Batch) { b.Put("all", []byte("key 1"), nil) })
	if r, err := l.Get(t.Context(), "all", []byte("key 1")); err != nil || r.Version != 2 {
		t.Fatalf("a forgotten key goes on with version %d, want 2: %v", r.Version, err)
	}
}

// A message of which every record counts is not stated again, whatever came later.
func TestFullMessagesAreLeftAlone(t *testing.T) {
	l := openTidy(t)
	for n := range 20 {
		l.write(func(b *mainstem.Batch) {
			b.Ensure("all", mainstem.Policy{})
			for i := range 30 {
				b.Put("all", fmt.Append(nil, "key ", i), fmt.Append(nil, n, i))
			}
		})
	}
	state := func() jetstream.StreamState {
		info, err := l.stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State
	}
	before := state().LastSeq
	l.messages()
	if n := state().LastSeq - before; n > 0 {
		t.Fatalf("the sweep wrote %d messages", n)
	}
	l.write(func(b *mainstem.Batch) { // which takes 20 of 30 records from each but the last
		for i := range 20 {
			b.Truncate("all", fmt.Append(nil, "key ", i), 20)
		}
	})
	want := contents(t, l.Log)
	l.messages()
	if first := state().FirstSeq; first != before {
		t.Errorf("the stream begins with message %d: want %d, the first of which more than a third counts", first, before)
	}
	l.same(want)
}

func TestDroppedSpacesLeaveTheStream(t *testing.T) {
	l := openTidy(t)
	for n := range 50 {
		l.write(func(b *mainstem.Batch) {
			b.Ensure("gone", mainstem.Policy{})
			b.Ensure("kept", mainstem.Policy{})
			b.Put("gone", fmt.Append(nil, n), nil)
			if n == 0 {
				b.Put("kept", []byte("k"), []byte("v"))
			}
		})
	}
	if err := l.DropSpace(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	want := contents(t, l.Log)
	if n := l.messages(); n > 3 {
		t.Fatalf("%d messages hold one record", n)
	}
	l.same(want)
}

// Keys that do not come back are forgotten, and new ones begin above their versions.
func TestEndedKeysAreForgotten(t *testing.T) {
	l := openTidy(t)
	if err := l.CreateSpace(t.Context(), "b", mainstem.Policy{History: 1}); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		l.write(func(b *mainstem.Batch) { b.Put("b", fmt.Append(nil, n%50), nil) })
	}
	l.write(func(b *mainstem.Batch) {
		for n := range 50 {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "b", Key: fmt.Append(nil, n)})
		}
	})
	if n := l.messages(); n > 2 {
		t.Fatalf("%d messages hold nothing", n)
	}
	again := open(t, l.url, l.o)
	r := mustCommit(t, again, func() *mainstem.Batch {
		b := mainstem.NewBatch()
		b.Put("b", []byte("7"), nil)
		return b
	}())
	if r.Versions[0] <= 2 {
		t.Fatalf("a key that had version 2 has version %d again", r.Versions[0])
	}
}

// Keys of which the last record left the stream before a process opened the log are forgotten
// by that process.
func TestEndedKeysAreForgottenAfterOpening(t *testing.T) {
	l := openTidy(t)
	if err := l.CreateSpace(t.Context(), "b", mainstem.Policy{History: 1}); err != nil {
		t.Fatal(err)
	}
	l.write(func(b *mainstem.Batch) {
		for n := range 50 {
			b.Put("b", fmt.Append(nil, n), nil)
		}
	})
	l.write(func(b *mainstem.Batch) {
		for n := range 50 {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "b", Key: fmt.Append(nil, n)})
		}
	})
	if err := l.Sweep(t.Context()); err != nil { // it deletes the records; the next one would forget the keys
		t.Fatal(err)
	}
	if _, err := l.stream.GetMsg(t.Context(), 2); err == nil {
		t.Fatal("the message with the records is still there")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Log = open(t, l.url, l.o)
	if n := l.Keys("b"); n != 50 {
		t.Fatalf("the log that is opened knows %d keys, want 50", n)
	}
	if n := l.messages(); n > 2 {
		t.Errorf("%d messages hold nothing", n)
	}
	if n := l.Keys("b"); n != 0 {
		t.Errorf("%d keys without a record are remembered", n)
	}
}

// A message that somebody deletes is damage: Get says so, and Check where.
func TestMissingMessageIsDamage(t *testing.T) {
	l := openTidy(t)
	l.o.Timeout = 400 * time.Millisecond // so that damage is called so after half of it
	log := openHasty(t, l.url, l.o)
	commitAtLast(t, log, one("first", "1"))
	commitAtLast(t, log, one("second", "2"))
	if err := l.stream.DeleteMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	testkit.Succeeds(t, "a record that is there is read", func() error {
		got, err := log.Get(t.Context(), "s", []byte("k"))
		if err == nil && string(got.Value) != "2" {
			t.Fatalf("a record that is there: %s", got.Value)
		}
		return err
	})
	testkit.Succeeds(t, "a record that is gone is damage", func() (last error) {
		for _, err := range log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{}) {
			last = err
		}
		switch {
		case errors.Is(last, mainstem.ErrCorrupt):
			return nil
		case last == nil:
			t.Fatal("a record that is gone was read")
		}
		return last
	})
	var found []mainstem.Problem
	testkit.Succeeds(t, "the log is checked", func() error {
		found = nil
		_, err := log.Check(t.Context(), func(p mainstem.Problem) { found = append(found, p) })
		return err
	})
	if len(found) != 1 || !strings.Contains(found[0].Where, `space s, key "k", version 1`) {
		t.Fatalf("the check found %+v, want version 1 of key k", found)
	}
}

// A check reads each message once, with its neighbours, however far apart the records of a key are.
func TestCheckReadsInTheOrderOfTheStream(t *testing.T) {
	l := openTidy(t)
	const keys, rounds = 40, 20
	for n := range keys * rounds {
		l.write(func(b *mainstem.Batch) {
			b.Ensure("s", mainstem.Policy{})
			b.Put("s", fmt.Append(nil, n%keys), fmt.Append(nil, n))
		})
	}
	before := l.Sent()
	stats, err := l.Check(t.Context(), func(p mainstem.Problem) { t.Errorf("%s: %s", p.Where, p.What) })
	if err != nil || stats.Records != keys*rounds {
		t.Fatalf("%+v, %v: want %d records", stats, err, keys*rounds)
	}
	if n := l.Sent() - before; n > keys*rounds/10 {
		t.Errorf("%d requests for %d messages", n, keys*rounds)
	}
}

// Two processes write, sweep, delete and repack at random; both, and one that opens
// the log afterwards, hold the same, and nothing of it is damaged.
func TestProcessesAgree(t *testing.T) {
	l := openTidy(t)
	for round := range 6 {
		seed := uint64(time.Now().UnixNano())
		random := rand.New(rand.NewPCG(seed, 0))
		logs := []*natslog.Log{open(t, l.url, l.o), open(t, l.url, l.o)}
		for range 120 {
			log := logs[random.IntN(2)]
			switch random.IntN(12) {
			case 0:
				if err := log.Sweep(t.Context()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case 1:
				if err := log.DropSpace(t.Context(), fmt.Sprint("space ", random.IntN(3))); err != nil && !errors.Is(err, mainstem.ErrNotFound) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			default:
				if _, err := log.Commit(t.Context(), anything(random)); err != nil && !errors.Is(err, mainstem.ErrNotFound) && !errors.Is(err, mainstem.ErrConflict) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		want := contents(t, logs[0])
		if got := contents(t, logs[1]); got != want {
			t.Fatalf("round %d, seed %d: two processes differ: %s", round, seed, difference(got, want))
		}
		l.same(want)
		l.messages()
		l.same(want)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// anything returns a batch of writes that succeed, mostly.
func anything(random *rand.Rand) *mainstem.Batch {
	b := mainstem.NewBatch()
	for range 1 + random.IntN(30) {
		n := random.IntN(3)
		space, key := fmt.Sprint("space ", n), fmt.Append(nil, "key ", random.IntN(12))
		b.Ensure(space, mainstem.Policy{History: n, TombstoneAge: -1})
		w := mainstem.Write{Space: space, Key: key, Value: fmt.Append(nil, random.IntN(1000)), Version: mainstem.Version(1 + random.IntN(6))}
		switch random.IntN(24) {
		case 0:
			w.Op = mainstem.OpForget
		case 1:
			w.Op = mainstem.OpPurge
		case 2:
			w.Op = mainstem.OpRewrite
		case 3:
			w.Op = mainstem.OpRemove
		case 4, 5:
			w.Op = mainstem.OpDelete
		}
		if w.Op == mainstem.OpRewrite || w.Op == mainstem.OpRemove {
			b = mainstem.NewBatch() // alone, because it fails if there is no such record
			b.Add(w)
			return b
		}
		b.Add(w)
	}
	if random.IntN(4) == 0 {
		b.ID = fmt.Sprint("batch ", random.IntN(5))
	}
	return b
}
