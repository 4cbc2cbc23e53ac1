package producer

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
)

func (f *fixture) describe(name string, num int32) []activeProducer {
	f.Helper()
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: name, Partitions: []int32{num}}}
	p := f.m.DescribeProducers(f.Context(), coord.Client{}, req).Topics[0].Partitions[0]
	f.wantCode("describe producers", p.ErrorCode, nil)
	return p.ActiveProducers
}

// ended ends a transaction, which must succeed.
func (f *fixture) ended(txn string, as id, commit bool, version int16) id {
	f.Helper()
	got, code := f.end(txn, as, commit, version)
	f.wantCode("end of "+txn, code, nil)
	return got
}

func (f *fixture) sees(t *topic.Topic, num int32, want ...string) {
	f.Helper()
	if got := f.committed(t, num); !slices.Equal(got, want) {
		f.Errorf("committed records %v, want %v", got, want)
	}
}

// TestExplicitTransactions is a client that adds partitions before it produces (V1).
func TestExplicitTransactions(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 2)
	p := f.init("x")
	f.want(f.txnAppend("x", false, tp, 0, batch(p, 0, true, "a")), kerr.InvalidTxnState, -1)
	f.wantCode("add", f.add("x", p, "t", 0, 1), nil)
	f.want(f.txnAppend("x", false, tp, 0, batch(p, 0, true, "a")), nil, 0)
	f.want(f.append(tp, 0, plainBatch("b")), nil, 1)
	if got := f.stable(tp, 0); got != 0 {
		t.Errorf("last stable offset %d, want 0", got)
	}
	f.sees(tp, 0)
	f.ended("x", p, true, 3)
	f.sees(tp, 0, "0=a", "1=b")
	if got := f.stable(tp, 0); got != 3 {
		t.Errorf("last stable offset %d, want 3", got)
	}
	// The next transaction has the same epoch, and the sequence continues.
	f.wantCode("add", f.add("x", p, "t", 0), nil)
	f.want(f.txnAppend("x", false, tp, 1, batch(p, 0, true, "c")), kerr.InvalidTxnState, -1)
	f.want(f.txnAppend("x", false, tp, 0, batch(p, 1, true, "c")), nil, 3)
	f.ended("x", p, false, 3)
	f.sees(tp, 0, "0=a", "1=b")
	aborted, err := f.m.Aborted(t.Context(), tp, 0, 0, 5)
	if want := []Aborted{{p.pid, 3, 4}}; err != nil || !slices.Equal(aborted, want) {
		t.Errorf("aborted %v (%v), want %v", aborted, err, want)
	}
	for _, outside := range [][2]int64{{0, 3}, {5, 9}} {
		if aborted, _ := f.m.Aborted(t.Context(), tp, 0, outside[0], outside[1]); len(aborted) != 0 {
			t.Errorf("aborted in %v: %v, want none", outside, aborted)
		}
	}
}

// TestImplicitTransactions is a client whose batches begin transactions (V2).
func TestImplicitTransactions(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 2)
	p := f.init("x")
	a := []Append{{Topic: tp, Partition: 0, Batch: batch(p, 0, true, "a")}, {Topic: tp, Partition: 1, Batch: batch(p, 0, true, "b")}}
	x := "x"
	f.m.Append(t.Context(), AppendOptions{TransactionalID: &x, Implicit: true}, a)
	f.want(a[0], nil, 0)
	f.want(a[1], nil, 0)
	q := f.ended("x", p, true, 5)
	if want := (id{p.pid, p.epoch + 1}); q != want {
		t.Errorf("the end gave %v, want %v", q, want)
	}
	f.sees(tp, 0, "0=a")
	f.sees(tp, 1, "0=b")
	f.want(f.txnAppend("x", true, tp, 0, batch(p, 1, true, "c")), kerr.InvalidProducerEpoch, -1)
	f.want(f.txnAppend("x", true, tp, 0, batch(q, 1, true, "c")), kerr.OutOfOrderSequenceNumber, -1)
	f.want(f.txnAppend("x", true, tp, 0, batch(q, 0, true, "c")), nil, 2)
	f.want(f.append(tp, 0, batch(q, 1, false, "d")), kerr.InvalidTxnState, -1)
	f.ended("x", q, false, 5)
	f.sees(tp, 0, "0=a")
}

// TestEndTxn is the table of answers to EndTxn.
func TestEndTxn(t *testing.T) {
	type step struct {
		as      int // epochs after the first
		commit  bool
		version int16
		want    *kerr.Error
		epoch   int // of the answer, after the first
	}
	ok := func(as int, commit bool, version int16, epoch int) step { return step{as, commit, version, nil, epoch} }
	no := func(as int, commit bool, version int16, e *kerr.Error) step { return step{as, commit, version, e, 0} }
	cases := []struct {
		name  string
		begin bool
		steps []step
	}{
		{"explicit, nothing begun", false, []step{no(0, true, 4, kerr.InvalidTxnState), no(0, false, 4, kerr.InvalidTxnState)}},
		{"explicit, commit again", true, []step{ok(0, true, 4, 0), ok(0, true, 4, 0), no(0, false, 4, kerr.InvalidTxnState)}},
		{"explicit, abort again", true, []step{ok(0, false, 4, 0), ok(0, false, 4, 0), no(0, true, 4, kerr.InvalidTxnState)}},
		{"explicit, wrong epoch", true, []step{no(1, true, 4, kerr.ProducerFenced), no(1, true, 1, kerr.InvalidProducerEpoch), no(-1, true, 2, kerr.ProducerFenced)}},
		{"implicit, nothing begun", false, []step{no(0, true, 5, kerr.InvalidTxnState), ok(0, false, 5, 1), ok(0, false, 5, 1), ok(1, false, 5, 2)}},
		{"implicit, commit again", true, []step{ok(0, true, 5, 1), ok(0, true, 5, 1), no(0, false, 5, kerr.InvalidTxnState), no(1, true, 5, kerr.InvalidTxnState), ok(1, false, 5, 2)}},
		{"implicit, abort again", true, []step{ok(0, false, 5, 1), ok(0, false, 5, 1), no(0, true, 5, kerr.InvalidTxnState)}},
		{"implicit, wrong epoch", true, []step{no(1, true, 5, kerr.ProducerFenced), no(-1, false, 5, kerr.ProducerFenced), ok(0, true, 5, 1), ok(1, false, 5, 2), no(0, false, 5, kerr.ProducerFenced)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			tp := f.topic("t", 1)
			f.init("x")
			p := f.init("x")
			if c.begin {
				f.wantCode("add", f.add("x", p, "t", 0), nil)
				f.want(f.txnAppend("x", false, tp, 0, batch(p, 0, true, "a")), nil, 0)
			}
			for n, s := range c.steps {
				f.reopen(n%2 == 0)
				got, code := f.end("x", id{p.pid, p.epoch + int16(s.as)}, s.commit, s.version)
				f.wantCode("end", code, s.want)
				want := id{-1, -1}
				if s.want == nil && s.version >= 5 {
					want = id{p.pid, p.epoch + int16(s.epoch)}
				}
				if got != want {
					t.Errorf("step %d: the answer brings %v, want %v", n, got, want)
				}
			}
			_, code := f.end("x", id{p.pid + 1, p.epoch}, true, 5)
			f.wantCode("end as another producer", code, kerr.InvalidProducerIDMapping)
		})
	}
	f := newFixture(t)
	f.ended("x", f.init("x"), false, 5)
	_, code := f.end("x", id{-1, math.MaxInt16}, false, 5)
	f.wantCode("end as nobody", code, kerr.InvalidProducerIDMapping)
	_, code = f.end("nobody", id{1, 0}, true, 5)
	f.wantCode("unknown transactional id", code, kerr.InvalidProducerIDMapping)
	_, code = f.end("", id{1, 0}, true, 5)
	f.wantCode("empty transactional id", code, kerr.InvalidRequest)
	_, code = f.end(strings.Repeat("x", MaxTransactionalID+1), id{1, 0}, true, 5)
	f.wantCode("long transactional id", code, kerr.InvalidRequest)
}

// TestInitProducerID is the table of KIP-360.
func TestInitProducerID(t *testing.T) {
	f := newFixture(t)
	if a, b := f.init(""), f.init(""); a.pid == b.pid || a.epoch != 0 || b.epoch != 0 {
		t.Errorf("two producers are %v and %v", a, b)
	}
	p := f.init("x")
	if q := f.init("x"); q != (id{p.pid, 1}) {
		t.Errorf("the second is %v after %v", q, p)
	}
	expect := func(as id, version int16, want id, code *kerr.Error) {
		t.Helper()
		got, c := f.initAs("x", as, version)
		f.wantCode("init", c, code)
		if got != want {
			t.Errorf("init as %v: got %v, want %v", as, got, want)
		}
		f.reopen(got.epoch%2 == 0)
	}
	none := id{-1, -1}
	expect(id{p.pid, 1}, 3, id{p.pid, 2}, nil)
	expect(id{p.pid, 1}, 5, id{p.pid, 2}, nil)                // again: the answer was lost
	expect(id{p.pid, 0}, 4, none, kerr.ProducerFenced)        // older
	expect(id{p.pid, 0}, 3, none, kerr.InvalidProducerEpoch)  // in version 3
	expect(id{p.pid, 3}, 4, none, kerr.ProducerFenced)        // newer
	expect(id{p.pid + 1000, 2}, 4, none, kerr.ProducerFenced) // another
	expect(id{p.pid, -1}, 4, none, kerr.InvalidRequest)       // half
	expect(id{-1, 2}, 4, none, kerr.InvalidRequest)           // half
	expect(none, 4, id{p.pid, 3}, nil)                        // a new instance
	expect(id{p.pid, 2}, 4, none, kerr.ProducerFenced)        // fences the old one for good
	got, code := f.initAs("new", id{4711, 5}, 4)              // an id that has expired
	f.wantCode("init of an unknown id", code, nil)
	if got.epoch != 0 || got.pid == 4711 {
		t.Errorf("got %v", got)
	}
	for _, ms := range []int32{0, -1, math.MinInt32, int32(DefaultMaxTimeout/time.Millisecond) + 1} {
		req := kmsg.NewPtrInitProducerIDRequest()
		x := "x"
		req.TransactionalID, req.TransactionTimeoutMillis = &x, ms
		f.wantCode("timeout", f.m.InitProducerID(t.Context(), coord.Client{}, req).ErrorCode, kerr.InvalidTransactionTimeout)
	}
	empty := ""
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &empty
	f.wantCode("empty id", f.m.InitProducerID(t.Context(), coord.Client{}, req).ErrorCode, kerr.InvalidRequest)
}

// TestInitOnFailingLog checks that a client without a transactional id is not sent to look for a
// coordinator.
func TestInitOnFailingLog(t *testing.T) {
	for _, outcome := range []mainstem.Outcome{mainstem.NotWritten, mainstem.Unknown} {
		log := &failing{Log: testengines.Memory(t), outcome: outcome}
		f := newFixtureOn(t, log)
		for txn, want := range map[string]*kerr.Error{"": kerr.CoordinatorLoadInProgress, "x": kerr.CoordinatorNotAvailable} {
			log.n = 1
			_, code := f.initAs(txn, id{-1, -1}, 5)
			f.wantCode("init "+txn, code, want)
		}
		f.init("")
		f.init("x")
	}
}

// TestInitAborts checks that a new instance of a client aborts the transaction of the former one.
func TestInitAborts(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("x")
	f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 0)
	_, code := f.initAs("x", id{-1, -1}, 5)
	f.wantCode("init", code, kerr.ConcurrentTransactions)
	if got := f.stable(tp, 0); got != 2 {
		t.Errorf("last stable offset %d, want 2", got)
	}
	f.sees(tp, 0)
	f.want(f.txnAppend("x", true, tp, 0, batch(p, 1, true, "b")), kerr.InvalidProducerEpoch, -1)
	q := f.init("x")
	if want := (id{p.pid, p.epoch + 2}); q != want {
		t.Errorf("got %v, want %v", q, want)
	}
	_, code = f.end("x", p, false, 5)
	f.wantCode("the old one ends", code, kerr.ProducerFenced)
	f.wantCode("the old one adds", f.add("x", p, "t", 0), kerr.ProducerFenced)
	f.want(f.txnAppend("x", true, tp, 0, batch(q, 0, true, "c")), nil, 2)
	// A fenced client with its producer id and epoch must not abort the transaction of its
	// successor.
	_, code = f.initAs("x", p, 5)
	f.wantCode("the old one goes on", code, kerr.ProducerFenced)
	f.ended("x", q, true, 5)
	f.sees(tp, 0, "2=c")
}

// wear gives a transactional id without an open transaction another epoch.
func (f *fixture) wear(txn string, to int16) id {
	f.Helper()
	t, err := f.m.lockTransaction(txn)
	if err != nil {
		f.Fatal(err)
	}
	defer t.mu.Unlock()
	next := t.state.ended(statusEmpty, f.m.now())
	next.epoch = to
	if err := t.store(f.Context(), next); err != nil {
		f.Fatal(err)
	}
	return id{next.pid, to}
}

// TestEpochsRunOut checks that a new producer id follows the last epoch.
func TestEpochsRunOut(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	f.init("x")
	p := f.wear("x", lastEpoch)
	q, code := f.initAs("x", p, 5)
	f.wantCode("init", code, nil)
	if q.pid == p.pid || q.epoch != 0 {
		t.Errorf("after %v came %v", p, q)
	}
	again, code := f.initAs("x", p, 5)
	if f.wantCode("init again", code, nil); again != q {
		t.Errorf("again after %v came %v, want %v", p, again, q)
	}
	p = f.wear("x", lastEpoch)
	f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 0)
	for range 2 {
		q = f.ended("x", p, true, 5)
		if q.pid == p.pid || q.epoch != 0 {
			t.Errorf("the end after %v brings %v", p, q)
		}
		f.reopen(false)
	}
	tp, _ = f.catalog.Topic(t.Context(), "t")
	f.want(f.txnAppend("x", true, tp, 0, batch(p, 1, true, "b")), kerr.InvalidProducerIDMapping, -1)
	f.want(f.append(tp, 0, batch(p, 1, false, "b")), kerr.InvalidProducerEpoch, -1)
	f.want(f.txnAppend("x", true, tp, 0, batch(q, 0, true, "b")), nil, 2)
	f.ended("x", q, true, 5)
	f.sees(tp, 0, "0=a", "2=b")
}

// TestTimeoutAtLastEpoch checks that a timeout fences a client with the last epoch, and the client
// that goes on with the epoch from its abort afterwards.
func TestTimeoutAtLastEpoch(t *testing.T) {
	for _, last := range []int16{lastEpoch, math.MaxInt16} { // a state of an older version may have MaxInt16
		f := newFixture(t)
		tp := f.topic("t", 1)
		f.init("x")
		p := f.wear("x", last)
		timeout := func() {
			f.clock.Advance(2 * time.Minute)
			f.upkeep()
			f.reopen(false)
			tp, _ = f.catalog.Topic(t.Context(), "t")
		}
		f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 0)
		timeout()
		f.want(f.txnAppend("x", true, tp, 0, batch(p, 1, true, "b")), kerr.InvalidProducerIDMapping, -1)
		var q id
		for range 2 {
			if q = f.ended("x", p, false, 5); q.pid == p.pid || q.epoch != 0 {
				t.Errorf("an abort after the timeout of %v brings %v", p, q)
			}
		}
		f.want(f.txnAppend("x", true, tp, 0, batch(q, 0, true, "c")), nil, 2)
		timeout()
		f.want(f.txnAppend("x", true, tp, 0, batch(q, 1, true, "d")), kerr.InvalidProducerEpoch, -1)
		r := f.ended("x", q, false, 5)
		f.want(f.txnAppend("x", true, tp, 0, batch(r, 0, true, "e")), nil, 4)
		f.ended("x", r, true, 5)
		f.sees(tp, 0, "4=e")
	}
}

func TestAddPartitions(t *testing.T) {
	f := newFixture(t)
	f.topic("t", 2)
	p := f.init("x")
	add := func(as id, version int16, parts ...int32) []int16 {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = version, "x", as.pid, as.epoch
		req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: parts}, {Topic: "t", Partitions: []int32{0}}}
		var codes []int16
		for _, to := range f.m.AddPartitionsToTxn(t.Context(), coord.Client{}, req).Topics {
			for _, p := range to.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
		return codes
	}
	check := func(got []int16, want ...*kerr.Error) {
		t.Helper()
		for i := range got {
			f.wantCode("add", got[i], want[i])
		}
	}
	check(add(p, 3, 1, 2), kerr.OperationNotAttempted, kerr.UnknownTopicOrPartition, kerr.OperationNotAttempted)
	check(add(p, 3, -1), kerr.UnknownTopicOrPartition, kerr.OperationNotAttempted)
	check(add(id{p.pid + 1, 0}, 3, 1), kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping)
	check(add(id{p.pid, 1}, 3, 1), kerr.ProducerFenced, kerr.ProducerFenced)
	check(add(id{p.pid, 1}, 1, 1), kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch)
	f.wantCode("add of an unknown topic", f.add("x", p, "no-such", 0), kerr.UnknownTopicOrPartition)
	f.wantCode("add of an impossible topic", f.add("x", p, "no such", 0), kerr.InvalidTopicException)
	f.wantCode("add for nobody", f.add("y", p, "t", 0), kerr.InvalidProducerIDMapping)

	several := func(verify bool, num int32) int16 {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.Version = 5
		req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: "x", ProducerID: p.pid, ProducerEpoch: p.epoch, VerifyOnly: verify,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: []int32{num}}}}}
		return f.m.AddPartitionsToTxn(t.Context(), coord.Client{}, req).Transactions[0].Topics[0].Partitions[0].ErrorCode
	}
	f.wantCode("verify before", several(true, 1), kerr.InvalidTxnState)
	f.wantCode("add", several(false, 1), nil)
	f.wantCode("verify after", several(true, 1), nil)
	f.wantCode("verify another", several(true, 0), kerr.InvalidTxnState)
	check(add(p, 3, 1), nil, nil)
	f.wantCode("verify the other", several(true, 0), nil)
}

// TestTimeout checks that an overdue transaction is aborted and its producer fenced.
func TestTimeout(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		f := newFixture(t)
		tp := f.topic("t", 1)
		p := f.init("x")
		f.want(f.txnAppendAs("x", implicit, tp, 0, p, 0, "a"), nil, 0)
		f.clock.Advance(time.Minute - time.Millisecond)
		f.upkeep()
		f.want(f.txnAppendAs("x", implicit, tp, 0, p, 1, "b"), nil, 1)
		f.reopen(false)
		tp, _ = f.catalog.Topic(t.Context(), "t")
		f.clock.Advance(time.Millisecond)
		f.upkeep()
		f.sees(tp, 0)
		if got := f.stable(tp, 0); got != 3 {
			t.Errorf("last stable offset %d, want 3", got)
		}
		f.want(f.txnAppend("x", implicit, tp, 0, batch(p, 2, true, "c")), kerr.InvalidProducerEpoch, -1)
		if implicit {
			_, code := f.end("x", p, true, 5)
			f.wantCode("commit", code, kerr.InvalidTxnState)
			if q := f.ended("x", p, false, 5); q != (id{p.pid, p.epoch + 1}) {
				t.Errorf("an abort brings %v", q)
			}
		} else {
			_, code := f.end("x", p, true, 4)
			f.wantCode("commit", code, kerr.ProducerFenced)
		}
	}
}

// txnAppendAs adds the partition first unless that is implicit.
func (f *fixture) txnAppendAs(txn string, implicit bool, t *topic.Topic, num int32, as id, seq int32, values ...string) Append {
	f.Helper()
	if !implicit {
		f.wantCode("add", f.add(txn, as, t.Name(), num), nil)
	}
	return f.txnAppend(txn, implicit, t, num, batch(as, seq, true, values...))
}

// TestTransactionalIDExpires checks that unused ids are removed, and those in use are not.
func TestTransactionalIDExpires(t *testing.T) {
	f := newFixture(t)
	p := f.init("x")
	f.clock.Advance(DefaultTransactionalExpiry)
	f.upkeep()
	if got := f.init("x"); got != (id{p.pid, 1}) {
		t.Errorf("after %v, and before it expired, came %v", p, got)
	}
	f.clock.Advance(DefaultTransactionalExpiry + time.Millisecond)
	f.upkeep()
	f.wantCode("add", f.addGroup("x", p, "g"), kerr.InvalidProducerIDMapping)
	f.reopen(false)
	if got := f.init("x"); got.pid == p.pid || got.epoch != 0 {
		t.Errorf("after %v had expired came %v", p, got)
	}
}

// groups refuses members by name.
type groups map[string]*kerr.Error

func (g groups) CheckTxnCommit(_, member string, _ *string, _ int32) int16 { return codeFor(g[member]) }

func (groups) ExistsTo(context.Context, *mainstem.Batch, string, bool) error { return nil }

// TestOffsetsOfRemovedGroup checks that the end of a transaction stores its offsets with their
// group, if that was removed meanwhile: otherwise they would never expire.
func TestOffsetsOfRemovedGroup(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	coordinator := func() *group.Coordinator {
		c, err := group.Open(f.log, coord.Catalog(f.catalog), &group.Options{SweepEvery: -1, Now: f.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		c.SetPending(f.m)
		t.Cleanup(func() { c.Close() })
		return c
	}
	groups, other := coordinator(), coordinator()
	f.m.SetGroups(groups)
	kept := func(want bool) {
		t.Helper()
		all, err := group.List(t.Context(), f.log, coord.Catalog(f.catalog))
		if err != nil || len(all) != 1 || all[0].Name != "g" {
			t.Fatalf("the groups are %v, %v", all, err)
		}
		s, err := group.Read(t.Context(), f.log, coord.Catalog(f.catalog), "g")
		if err != nil || s.New() == want {
			t.Errorf("the group is stored: %v, %v; want %v", !s.New(), err, want)
		}
	}
	p := f.init("x")
	for n, sweep := range []*group.Coordinator{groups, other} { // the other removes it without the knowledge of the first
		f.wantCode("offset", f.offset("x", p, 5, "g", "t", 0, int64(n)), nil)
		if n > 0 {
			if err := tp.Offsets("g").Forget(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		kept(true)
		if err := sweep.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := group.Read(t.Context(), f.log, coord.Catalog(f.catalog), "g"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Fatalf("reading the group that was swept: %v", err)
		}
		p = f.ended("x", p, true, 5)
		kept(true)
	}
}

func TestOffsetsInTransactions(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 2)
	p := f.init("x")
	stored := func() int64 {
		all, err := tp.Offsets("g").Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := all[1]; ok {
			return o.Next
		}
		return -1
	}
	check := func(pending bool, want int64) {
		t.Helper()
		if got := f.m.Pending("g", tp.ID(), 1); got != pending {
			t.Errorf("pending is %v, want %v", got, pending)
		}
		if got := stored(); got != want {
			t.Errorf("the group goes on at %d, want %d", got, want)
		}
	}
	f.wantCode("without AddOffsets", f.offset("x", p, 3, "g", "t", 1, 5), kerr.InvalidTxnState)
	f.wantCode("add", f.addGroup("x", p, "g"), nil)
	f.wantCode("commit", f.offset("x", p, 3, "g", "t", 1, 5), nil)
	check(true, -1)
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	check(true, -1)
	f.wantCode("commit", f.offset("x", p, 3, "g", "t", 1, 6), nil)
	f.ended("x", p, true, 3)
	check(false, 6)
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	check(false, 6)

	f.wantCode("without AddOffsets", f.offset("x", p, 5, "g", "t", 1, 9), nil)
	check(true, 6)
	q := f.ended("x", p, false, 5)
	check(false, 6)
	f.wantCode("fenced", f.offset("x", p, 5, "g", "t", 1, 9), kerr.InvalidProducerEpoch)
	f.wantCode("unknown topic", f.offset("x", q, 5, "g", "u", 1, 9), kerr.UnknownTopicOrPartition)
	f.wantCode("unknown partition", f.offset("x", q, 5, "g", "t", 2, 9), kerr.UnknownTopicOrPartition)
	f.wantCode("group", f.offset("x", q, 5, "", "t", 1, 1), kerr.InvalidGroupID)
	f.wantCode("group", f.addGroup("x", q, ""), kerr.InvalidGroupID)
	f.wantCode("fenced", f.addGroup("x", p, "g"), kerr.ProducerFenced)

	f.m.SetGroups(groups{"": kerr.FencedMemberEpoch})
	f.wantCode("member", f.offset("x", q, 5, "g", "t", 1, 9), kerr.FencedMemberEpoch)
	check(false, 6)
}

// A negative offset in a transaction removes that of the group, as OffsetCommit does:
// when the transaction is committed, and only then.
func TestNegativeOffsetInTransaction(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("x")
	check := func(want int) {
		t.Helper()
		if all, err := tp.Offsets("g").Load(t.Context()); err != nil || len(all) != want {
			t.Errorf("%d offsets are stored, %v; want %d", len(all), err, want)
		}
	}
	f.wantCode("offset", f.offset("x", p, 5, "g", "t", 0, 7), nil)
	p = f.ended("x", p, true, 5)
	check(1)
	f.wantCode("negative", f.offset("x", p, 5, "g", "t", 0, -2), nil)
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	check(1)
	p = f.ended("x", p, false, 5)
	check(1)
	f.wantCode("negative", f.offset("x", p, 5, "g", "t", 0, -2), nil)
	f.ended("x", p, true, 5)
	check(0)
}
