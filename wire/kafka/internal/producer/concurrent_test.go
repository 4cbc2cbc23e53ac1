package producer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
)

// flaky is a log of which some commits fail, written or not.
type flaky struct {
	mainstem.Log
	mu    sync.Mutex
	rng   *rand.Rand
	whole bool // no more commits fail
}

// newFlakyFixture returns a fixture on a log that is flaky until the test ends: closing the
// manager commits too, once for each partition, and reports what fails.
func newFlakyFixture(t *testing.T) *fixture {
	t.Helper()
	log := &flaky{Log: testengines.Memory(t), rng: rand.New(rand.NewPCG(1, 2))}
	f := newFixtureOn(t, log)
	t.Cleanup(log.mend) // before the fixture is closed
	return f
}

// mend lets no more commits fail.
func (f *flaky) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = true
}

// Commit implements [mainstem.Log].
func (f *flaky) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	f.mu.Lock()
	dice := f.rng.IntN(100)
	if f.whole {
		dice = 100
	}
	f.mu.Unlock()
	if dice > 1 {
		return f.Log.Commit(ctx, b)
	}
	if dice == 1 {
		if _, err := f.Log.Commit(ctx, b); err != nil {
			return mainstem.Receipt{}, err
		}
	}
	return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown, Err: errors.New("injected")}
}

// swarm is many clients at once.
type swarm struct {
	*fixture
	t *topic.Topic

	mu      sync.Mutex
	decided map[string]bool // by value: whether consumers have to see it
}

const swarmPartitions = 3

func (s *swarm) decide(values []string, visible bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		s.decided[v] = visible
	}
}

// TestSwarm lets many producers, transactions, readers and upkeep work at once on a log of
// which some commits fail with an unknown outcome.
func TestSwarm(t *testing.T) {
	f := newFlakyFixture(t)
	f.o.SnapshotEvery = 20
	f.reopen(true)
	s := &swarm{fixture: f, t: f.topic("t", swarmPartitions), decided: map[string]bool{}}
	var clients, readers sync.WaitGroup
	for n := range 4 {
		clients.Go(func() { s.idempotent(fmt.Sprintf("i%d-", n), rand.New(rand.NewPCG(3, uint64(n)))) })
	}
	for n := range 4 {
		clients.Go(func() { s.transactions(fmt.Sprintf("t%d-", n), n%2 == 0, rand.New(rand.NewPCG(4, uint64(n)))) })
	}
	done := make(chan struct{})
	seen := make([][]string, swarmPartitions)
	for num := range int32(swarmPartitions) {
		readers.Go(func() { seen[num] = s.read(num, done) })
	}
	readers.Go(func() { s.upkeep(done) })
	clients.Wait()
	close(done)
	readers.Wait()
	s.compare(seen)
}

// idempotent sends numbered batches to all partitions in turn.
func (s *swarm) idempotent(name string, rng *rand.Rand) {
	from, next := s.someInit(""), [swarmPartitions]int32{}
	for i := range 150 {
		num := rng.Int32N(swarmPartitions)
		values := []string{fmt.Sprintf("%s%d", name, i)}
		b := batch(from, next[num], false, values...)
		base := int64(-1)
		for tries := 0; base < 0 || rng.IntN(10) == 0; tries++ { // some are sent again
			a := s.append(s.t, num, b)
			if a.Code == kerr.KafkaStorageError.Code && tries < 100 {
				continue
			}
			if a.Code != 0 || base >= 0 && a.Base != base {
				s.Errorf("batch %d of %s: code %d (%s), at %d after %d", i, name, a.Code, a.Message, a.Base, base)
				return
			}
			base = a.Base
		}
		next[num]++
		s.decide(values, true)
	}
}

// someInit repeats init until it succeeds.
func (s *swarm) someInit(txn string) id {
	for {
		got, code := s.initAs(txn, id{-1, -1}, 5)
		switch code {
		case 0:
			return got
		case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.ConcurrentTransactions.Code:
		default:
			s.Errorf("init %q: code %d", txn, code)
			return got
		}
	}
}

// transactions runs transactions, with several requests at once in each.
func (s *swarm) transactions(name string, implicit bool, rng *rand.Rand) {
	as, next, version := s.someInit(name), [swarmPartitions]int32{}, int16(3)
	if implicit {
		version = 5
	}
	for i := range 40 {
		var sent []string
		var wg sync.WaitGroup
		for num := range int32(1 + rng.IntN(swarmPartitions)) {
			sent = append(sent, fmt.Sprintf("%s%d/%d", name, i, num))
			b := batch(as, next[num], true, sent[num])
			next[num]++
			wg.Go(func() { s.sendInTransaction(name, as, implicit, num, b) })
		}
		wg.Wait()
		commit := rng.IntN(3) > 0
		to, code := s.end(name, as, commit, version)
		for tries := 0; code == kerr.CoordinatorNotAvailable.Code && tries < 100; tries++ {
			to, code = s.end(name, as, commit, version)
		}
		if code != 0 {
			s.Errorf("end %d of %s: code %d", i, name, code)
			return
		}
		s.decide(sent, commit)
		if implicit {
			as, next = to, [swarmPartitions]int32{}
		}
	}
}

func (s *swarm) sendInTransaction(name string, as id, implicit bool, num int32, b []byte) {
	for !implicit {
		code := s.add(name, as, "t", num)
		if code == 0 {
			break
		}
		if code != kerr.CoordinatorNotAvailable.Code {
			s.Errorf("%s adds partition %d: code %d", name, num, code)
			return
		}
	}
	a := s.txnAppend(name, implicit, s.t, num, b)
	for tries := 0; a.Code == kerr.KafkaStorageError.Code && tries < 100; tries++ {
		a = s.txnAppend(name, implicit, s.t, num, b)
	}
	if a.Code != 0 {
		s.Errorf("%s sends: code %d (%s)", name, a.Code, a.Message)
	}
}

// read reads a partition repeatedly. Each read must return all records of the one before.
func (s *swarm) read(num int32, done <-chan struct{}) []string {
	var before []string
	for last := false; ; {
		got := s.committed(s.t, num)
		if len(got) < len(before) || !slices.Equal(got[:len(before)], before) {
			s.Errorf("partition %d: after %v came %v", num, before, got)
			return got
		}
		before = got
		if last {
			return got
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
}

// upkeep runs upkeep again and again until done. Only commits of the log may fail.
func (s *swarm) upkeep(done <-chan struct{}) {
	for {
		if err := s.m.Upkeep(s.Context()); err != nil && !errors.Is(err, mainstem.ErrUnavailable) {
			s.Errorf("upkeep: %v", err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func (s *swarm) compare(seen [][]string) {
	count := map[string]int{}
	for _, of := range seen {
		for _, one := range of {
			_, v, _ := strings.Cut(one, "=")
			count[v]++
		}
	}
	for v, visible := range s.decided {
		if want := map[bool]int{true: 1}[visible]; count[v] != want {
			s.Errorf("%s is seen %d times, want %d", v, count[v], want)
		}
		delete(count, v)
	}
	if len(count) > 0 {
		s.Errorf("nobody committed %v", count)
	}
}

// TestRequestsOverlap checks that requests with several partitions, in any order, do not deadlock.
func TestRequestsOverlap(t *testing.T) {
	f := newFlakyFixture(t)
	tp := f.topic("t", 8)
	var wg sync.WaitGroup
	shared := f.m
	ids := []id{{900, 0}, {901, 0}}
	for n := range 8 {
		rng := rand.New(rand.NewPCG(9, uint64(n)))
		wg.Go(func() {
			for range 100 {
				var a []Append
				for _, num := range rng.Perm(8)[:4] {
					a = append(a, Append{Topic: tp, Partition: int32(num), Batch: batch(ids[rng.IntN(2)], 0, false, "v")})
				}
				shared.Append(t.Context(), AppendOptions{}, a)
				if _, err := shared.Stable(t.Context(), tp, rng.Int32N(8), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for num := range int32(8) {
		if got := f.committed(tp, num); len(got) > len(ids) {
			t.Errorf("partition %d has %v: each producer sent one batch", num, got)
		}
	}
}

// together is a log whose commits return when n of them wait.
type together struct {
	mainstem.Log
	mu      sync.Mutex
	n       int
	waiting int
	full    chan struct{}
}

// Commit implements [mainstem.Log].
func (g *together) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	g.mu.Lock()
	if g.waiting++; g.waiting == g.n {
		close(g.full)
	}
	full := g.full
	g.mu.Unlock()
	if g.n > 0 {
		<-full
	}
	return g.Log.Commit(ctx, b)
}

// A request for a transactional id that is being created, which the request that creates it has not
// locked yet, is refused and leaves it unlocked.
func TestRequestDuringInit(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	x := &transaction{m: f.m, id: "x"} // as InitProducerID puts it into the map
	x.due.Store(math.MaxInt64)
	f.m.mu.txns["x"] = x
	f.wantCode("add", f.add("x", id{7, 0}, "t", 0), kerr.InvalidProducerIDMapping)
	f.wantCode("add a group", f.addGroup("x", id{7, 0}, "g"), kerr.InvalidProducerIDMapping)
	f.wantCode("offset", f.offset("x", id{7, 0}, 5, "g", "t", 0, 1), kerr.InvalidProducerIDMapping)
	_, code := f.end("x", id{7, 0}, true, 5)
	f.wantCode("end", code, kerr.InvalidProducerIDMapping)
	f.want(f.txnAppend("x", true, tp, 0, batch(id{7, 0}, 0, true, "a")), kerr.InvalidProducerIDMapping, -1)
	if !x.mu.TryLock() {
		t.Fatal("it is locked")
	}
	x.mu.Unlock()
	f.init("x")
}

// InitProducerID of new transactional ids and other requests for them may overlap.
func TestRequestsRaceWithInit(t *testing.T) {
	f := newFixture(t)
	f.topic("t", 1)
	for n := range 1000 {
		txn := fmt.Sprint("x", n)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, code := f.initAs(txn, id{-1, -1}, 5)
			f.wantCode("init", code, nil)
		})
		for range 3 {
			wg.Go(func() { f.wantCode("add", f.add(txn, id{math.MaxInt64, 0}, "t", 0), kerr.InvalidProducerIDMapping) })
		}
		wg.Wait()
	}
	if err := f.m.Upkeep(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestProducersShareCommits checks that producers do not wait for each other, so that a log with
// group commit serves them with one fsync.
func TestProducersShareCommits(t *testing.T) {
	const producers = 16
	synctest.Test(t, func(t *testing.T) { // which fails if all goroutines wait
		log := model.New(nil)
		f := newFixtureOn(t, log)
		tp := f.topic("t", 1, topic.TimestampAfter, "9223372036854775807")
		var ids []id
		for n := range producers {
			ids = append(ids, f.init(fmt.Sprint("x", n)))
		}
		gate := &together{Log: log, n: producers, full: make(chan struct{})}
		f.m.log = gate
		var wg sync.WaitGroup
		for n, from := range ids {
			wg.Go(func() {
				name := fmt.Sprint("x", n)
				if a := f.txnAppend(name, true, tp, 0, batch(from, 0, true, "v")); a.Code != 0 {
					t.Error(a.Message)
				}
			})
		}
		wg.Wait()
		gate.n = 0
	})
}

// TestLoop checks that transactions time out and upkeep runs in the background.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		f := &fixture{TB: t, log: log, o: Options{ProducerExpiry: time.Minute}}
		var err error
		if f.catalog, err = topic.Open(log, &topic.Options{Every: -1}); err != nil {
			t.Fatal(err)
		}
		if f.m, err = Open(t.Context(), f.catalog, &f.o); err != nil {
			t.Fatal(err)
		}
		tp := f.topic("t", 1, topic.TimestampAfter, "9223372036854775807") // the clock begins in 2000
		idle := f.init("")
		f.want(f.append(tp, 0, batch(idle, 0, false, "i")), nil, 0)
		time.Sleep(10 * time.Second)
		p := f.init("x") // for 60 seconds
		f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 1)
		time.Sleep(60*time.Second - time.Millisecond)
		synctest.Wait()
		if got := f.stable(tp, 0); got != 1 {
			t.Errorf("last stable offset %d before the time is over, want 1", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := f.stable(tp, 0); got != 3 {
			t.Errorf("last stable offset %d after it, want 3", got)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := f.describe("t", 0); len(got) != 0 {
			t.Errorf("idle producers are still known: %+v", got)
		}
		f.close()
		f.close()
		log.Close()
	})
}

func TestOptions(t *testing.T) {
	err := (&Options{MaxTimeout: -1, ProducerExpiry: -1, TransactionalExpiry: -1, SnapshotEvery: -1}).Validate()
	for _, name := range []string{"MaxTimeout", "ProducerExpiry", "TransactionalExpiry", "SnapshotEvery"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if _, err := Open(t.Context(), nil, &Options{MaxTimeout: -1}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
}
