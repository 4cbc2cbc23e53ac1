package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
)

// failing is a log whose n-th commit from now fails, with n counting down to 1; 0
// means never. The batch may have been written nevertheless.
type failing struct {
	mainstem.Log
	n       int
	written bool
	outcome mainstem.Outcome
}

// Commit implements [mainstem.Log].
func (f *failing) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if f.n > 0 {
		if f.n--; f.n == 0 {
			if f.written && f.outcome == mainstem.Unknown {
				if _, err := f.Log.Commit(ctx, b); err != nil {
					return mainstem.Receipt{}, err
				}
			}
			return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: f.outcome, Err: errors.New("injected")}
		}
	}
	return f.Log.Commit(ctx, b)
}

// TestPrograms runs random programs of producers, transactions, consumers' offsets, failing
// commits, restarts, timeouts and trimming, and compares the records that consumers of committed
// records see with the answers that the clients got.
func TestPrograms(t *testing.T) {
	t.Run("model", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			log := model.New(nil)
			defer log.Close()
			runProgram(t, rt, log)
		})
	})
	t.Run("pebblelog", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
			if err != nil {
				rt.Fatal(err)
			}
			defer log.Close()
			runProgram(t, rt, log)
			if _, err := log.Check(context.Background(), func(p mainstem.Problem) { rt.Errorf("check: %s: %s", p.Where, p.What) }); err != nil {
				rt.Fatal(err)
			}
		})
	})
}

const (
	programPartitions = 3
	programGroup      = "g"
)

// fate is the state of an acknowledged record, by the answers that its client got.
type fate int

const (
	visible fate = iota // acknowledged outside of a transaction, or committed
	undecided
	hidden // aborted
)

// acked is an acknowledged record.
type acked struct {
	num    int32
	offset int64
	fate   fate
}

// stored is a batch as it is in the log.
type storedBatch struct {
	base, next int64
	header     header
	commit     bool // of a marker
	values     []string
}

// program is a running program and its model.
type program struct {
	*rapid.T
	outer   testing.TB
	log     *failing
	clock   *testkit.Clock
	catalog *topic.Catalog
	topic   *topic.Topic
	m       *Manager
	o       Options

	idempotent []*simProducer
	txns       []*simTxn
	n          int // values made
	acked      map[string]*acked
	stored     [programPartitions][]storedBatch // all ever
	starts     [programPartitions]int64
	offsets    map[int32]int64 // the group's
}

// simProducer is a client that numbers its batches.
type simProducer struct {
	id   id
	next map[int32]int32   // sequence number by partition
	sent map[int32][]sent5 // newest last
}

// sent5 is a batch that was acknowledged.
type sent5 struct {
	seq    int32
	values []string
	base   int64
}

// simTxn is a transactional client.
type simTxn struct {
	simProducer
	name     string
	implicit bool
	open     bool
	fenced   bool
	added    map[int32]bool
	values   []string
	offsets  map[int32]int64
}

func runProgram(outer *testing.T, t *rapid.T, log mainstem.Log) {
	p := &program{T: t, outer: outer, log: &failing{Log: log}, clock: new(testkit.Clock), acked: map[string]*acked{}, offsets: map[int32]int64{}}
	p.o = Options{Every: -1, Now: p.clock.Now, SnapshotEvery: rapid.IntRange(1, 6).Draw(t, "snapshot every")}
	p.open()
	defer func() { p.catalog.Close() }()
	var err error
	if p.topic, err = p.catalog.Create(outer.Context(), "t", topic.Spec{Partitions: programPartitions}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := &simProducer{}
		p.begin(s, "")
		p.idempotent = append(p.idempotent, s)
	}
	for i := range 3 {
		x := &simTxn{name: fmt.Sprintf("x%d", i), implicit: i != 1, fenced: true}
		p.txns = append(p.txns, x)
	}
	t.Repeat(map[string]func(*rapid.T){
		"":             func(*rapid.T) { p.check() },
		"send":         func(*rapid.T) { p.send(draw(p, p.idempotent)) },
		"again":        func(*rapid.T) { p.again(draw(p, p.idempotent)) },
		"gap":          func(*rapid.T) { p.gap(draw(p, p.idempotent)) },
		"new producer": func(*rapid.T) { p.begin(draw(p, p.idempotent), "") },
		"next epoch":   func(*rapid.T) { draw(p, p.idempotent).nextEpoch() },
		"plain":        func(*rapid.T) { p.plain() },
		"txn init":     func(*rapid.T) { p.txnInit(draw(p, p.txns)) },
		"txn send":     func(*rapid.T) { p.txnSend(draw(p, p.txns)) },
		"txn send 2":   func(*rapid.T) { p.txnSend(draw(p, p.txns)) },
		"txn add":      func(*rapid.T) { p.txnAdd(draw(p, p.txns), p.partition()) },
		"txn again":    func(*rapid.T) { p.txnAgain(draw(p, p.txns)) },
		"txn offset":   func(*rapid.T) { p.txnOffset(draw(p, p.txns)) },
		"txn end":      func(*rapid.T) { p.txnEnd(draw(p, p.txns)) },
		"timeout":      func(*rapid.T) { p.timeout() },
		"upkeep":       func(*rapid.T) { p.must(p.m.Upkeep(context.Background())) },
		"restart":      func(*rapid.T) { p.restart(rapid.Bool().Draw(t, "clean")) },
		"trim":         func(*rapid.T) { p.trim() },
	})
	p.must(p.m.Close())
}

func draw[T any](p *program, of []T) T { return rapid.SampledFrom(of).Draw(p.T, "who") }

func (p *program) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *program) open() {
	var err error
	p.catalog, err = topic.Open(p.log, &topic.Options{Every: -1, Now: p.clock.Now})
	p.must(err)
	p.m, err = Open(context.Background(), p.catalog, &p.o)
	p.must(err)
}

func (p *program) restart(clean bool) {
	if clean {
		p.must(p.m.Close())
	} else {
		p.m.stop()
	}
	p.must(p.catalog.Close())
	p.open()
	var err error
	p.topic, err = p.catalog.Topic(context.Background(), "t")
	p.must(err)
}

func (p *program) partition() int32 {
	return rapid.Int32Range(0, programPartitions-1).Draw(p.T, "partition")
}

// passing are the codes after which clients try again.
var passing = map[int16]bool{
	kerr.KafkaStorageError.Code: true, kerr.CoordinatorNotAvailable.Code: true,
	kerr.CoordinatorLoadInProgress.Code: true, kerr.ConcurrentTransactions.Code: true,
}

// try runs f, a request that returns an error code, with a commit that may fail. It repeats it,
// perhaps after a restart, after codes after which clients try again.
func (p *program) try(f func() int16) int16 {
	if rapid.IntRange(0, 3).Draw(p.T, "fails") == 0 {
		p.log.n = rapid.IntRange(1, 2).Draw(p.T, "commit")
		p.log.written = rapid.Bool().Draw(p.T, "written")
		p.log.outcome = rapid.SampledFrom([]mainstem.Outcome{mainstem.Unknown, mainstem.NotWritten}).Draw(p.T, "outcome")
	}
	code := f()
	p.log.n = 0
	for tries := 0; passing[code]; tries++ {
		if tries > 3 {
			p.Fatalf("still %v", kerr.ErrorForCode(code))
		}
		if code != kerr.ConcurrentTransactions.Code && rapid.IntRange(0, 3).Draw(p.T, "restart") == 0 {
			p.restart(false)
		}
		code = f()
	}
	return code
}

func (p *program) wantCode(what string, got int16, want *kerr.Error) {
	p.Helper()
	if got != codeFor(want) {
		p.Fatalf("%s: got %v, want %v", what, kerr.ErrorForCode(got), want)
	}
}

// values makes new values.
func (p *program) values() []string {
	out := make([]string, rapid.IntRange(1, 3).Draw(p.T, "records"))
	for i := range out {
		p.n++
		out[i] = fmt.Sprintf("v%d", p.n)
	}
	return out
}

// append appends one batch until the answer is definite.
func (p *program) append(o AppendOptions, num int32, b []byte) Append {
	var a []Append
	p.try(func() int16 {
		a = []Append{{Topic: p.topic, Partition: num, Batch: b}}
		p.m.Append(context.Background(), o, a)
		return a[0].Code
	})
	return a[0]
}

func (p *program) note(num int32, base int64, values []string, f fate) {
	for i, v := range values {
		p.acked[v] = &acked{num, base + int64(i), f}
	}
}

// begin gives a client a producer id.
func (p *program) begin(s *simProducer, txn string) {
	f := &fixture{TB: quiet{p.outer, p.T}, m: p.m}
	code := p.try(func() int16 {
		f.m = p.m
		var code int16
		s.id, code = f.initAs(txn, id{-1, -1}, 5)
		return code
	})
	p.wantCode("init", code, nil)
	s.next, s.sent = map[int32]int32{}, map[int32][]sent5{}
}

// quiet is a test that fails where the program fails.
type quiet struct {
	testing.TB
	rt *rapid.T
}

func (quiet) Context() context.Context            { return context.Background() }
func (quiet) Helper()                             {}
func (q quiet) Errorf(format string, args ...any) { q.rt.Fatalf(format, args...) }
func (q quiet) Fatalf(format string, args ...any) { q.rt.Fatalf(format, args...) }
func (q quiet) Fatal(args ...any)                 { q.rt.Fatal(args...) }

func (s *simProducer) nextEpoch() {
	s.id.epoch++
	s.next, s.sent = map[int32]int32{}, map[int32][]sent5{}
}

func (s *simProducer) acknowledged(num, seq int32, values []string, base int64) {
	s.next[num] = advance(seq, int32(len(values)))
	s.sent[num] = append(s.sent[num], sent5{seq, values, base})
	if len(s.sent[num]) > windowSize {
		s.sent[num] = s.sent[num][1:]
	}
}

func (p *program) send(s *simProducer) {
	num, values := p.partition(), p.values()
	if _, ok := s.next[num]; !ok && s.id.epoch == 0 && rapid.Bool().Draw(p.T, "wrap") {
		s.next[num] = math.MaxInt32 - 1
	}
	seq := s.next[num]
	a := p.append(AppendOptions{}, num, batch(s.id, seq, false, values...))
	p.wantCode("send", a.Code, nil)
	p.note(num, a.Base, values, visible)
	s.acknowledged(num, seq, values, a.Base)
}

// again repeats one of the last five batches.
func (p *program) again(s *simProducer) {
	num := p.partition()
	if len(s.sent[num]) == 0 {
		return
	}
	old := rapid.SampledFrom(s.sent[num]).Draw(p.T, "batch")
	a := p.append(AppendOptions{}, num, batch(s.id, old.seq, false, old.values...))
	if p.wantCode("send again", a.Code, nil); a.Base != old.base {
		p.Fatalf("a duplicate of the batch at %d is at %d", old.base, a.Base)
	}
}

// gap sends a batch with a sequence number that is too great.
func (p *program) gap(s *simProducer) {
	num := p.partition()
	if len(s.sent[num]) == 0 {
		return
	}
	a := p.append(AppendOptions{}, num, batch(s.id, advance(s.next[num], 1), false, "never"))
	p.wantCode("gap", a.Code, kerr.OutOfOrderSequenceNumber)
}

func (p *program) plain() {
	values := p.values()
	num := p.partition()
	a := []Append{{Topic: p.topic, Partition: num, Batch: plainBatch(values...)}}
	p.m.Append(context.Background(), AppendOptions{}, a)
	p.wantCode("plain", a[0].Code, nil)
	p.note(num, a[0].Base, values, visible)
}

// txnInit begins a new instance of a client. An open transaction of the former one is aborted.
func (p *program) txnInit(x *simTxn) {
	p.begin(&x.simProducer, x.name)
	p.txnEnded(x, false)
	x.fenced = false
}

// txnEnded updates the model at the end of a transaction.
func (p *program) txnEnded(x *simTxn, commit bool) {
	for _, v := range x.values {
		p.acked[v].fate = hidden
		if commit {
			p.acked[v].fate = visible
		}
	}
	if commit {
		maps.Copy(p.offsets, x.offsets)
	}
	x.open, x.values, x.added, x.offsets = false, nil, map[int32]bool{}, map[int32]int64{}
}

func (p *program) txnAdd(x *simTxn, num int32) {
	if x.implicit {
		return
	}
	f := &fixture{TB: quiet{p.outer, p.T}}
	code := p.try(func() int16 {
		f.m = p.m
		return f.add(x.name, x.id, "t", num)
	})
	if x.fenced {
		if code == 0 {
			p.Fatalf("a fenced producer added a partition")
		}
		return
	}
	p.wantCode("add", code, nil)
	x.open, x.added[num] = true, true
}

func (p *program) txnSend(x *simTxn) {
	num, values := p.partition(), p.values()
	seq := x.next[num]
	a := p.append(AppendOptions{TransactionalID: &x.name, Implicit: x.implicit}, num, batch(x.id, seq, true, values...))
	switch {
	case x.fenced:
		if a.Code == 0 {
			p.Fatalf("a fenced producer appended at %d", a.Base)
		}
		return
	case !x.implicit && !x.added[num]:
		p.wantCode("send without adding", a.Code, kerr.InvalidTxnState)
		return
	}
	p.wantCode("send", a.Code, nil)
	p.note(num, a.Base, values, undecided)
	x.open, x.added[num] = true, true
	x.values = append(x.values, values...)
	x.acknowledged(num, seq, values, a.Base)
}

// txnAgain repeats a batch, perhaps of a transaction that has ended.
func (p *program) txnAgain(x *simTxn) {
	num := p.partition()
	if len(x.sent[num]) == 0 {
		return
	}
	old := rapid.SampledFrom(x.sent[num]).Draw(p.T, "batch")
	a := p.append(AppendOptions{TransactionalID: &x.name, Implicit: x.implicit}, num, batch(x.id, old.seq, true, old.values...))
	if x.fenced {
		p.wantCode("fenced send", a.Code, kerr.InvalidProducerEpoch)
	} else if p.wantCode("send again", a.Code, nil); a.Base != old.base {
		p.Fatalf("a duplicate of the batch at %d is at %d", old.base, a.Base)
	}
}

func (p *program) txnOffset(x *simTxn) {
	f := &fixture{TB: quiet{p.outer, p.T}}
	num, next := p.partition(), rapid.Int64Range(0, 1000).Draw(p.T, "next")
	code := p.try(func() int16 {
		f.m = p.m
		if x.implicit {
			return f.offset(x.name, x.id, 5, programGroup, "t", num, next)
		}
		if code := f.addGroup(x.name, x.id, programGroup); code != 0 {
			return code
		}
		return f.offset(x.name, x.id, 3, programGroup, "t", num, next)
	})
	if x.fenced {
		if code == 0 {
			p.Fatalf("a fenced producer stored an offset")
		}
		return
	}
	p.wantCode("offset", code, nil)
	x.open = true
	x.offsets[num] = next
}

func (p *program) txnEnd(x *simTxn) {
	f := &fixture{TB: quiet{p.outer, p.T}}
	commit := rapid.Bool().Draw(p.T, "commit")
	version := int16(3)
	if x.implicit {
		version = 5
	}
	var next id
	code := p.try(func() (code int16) {
		f.m = p.m
		next, code = f.end(x.name, x.id, commit, version)
		return code
	})
	switch {
	case x.fenced:
		if code == 0 && commit {
			p.Fatalf("a fenced producer committed")
		}
		return
	case !x.open && (commit || !x.implicit):
		if code == 0 && x.implicit {
			p.Fatalf("an empty transaction was committed")
		}
		return // with one epoch for all transactions this is like a retry of the last end
	}
	p.wantCode("end", code, nil)
	p.txnEnded(x, commit)
	if x.implicit {
		x.id = next
		x.next, x.sent = map[int32]int32{}, map[int32][]sent5{}
	}
}

// timeout lets all open transactions time out.
func (p *program) timeout() {
	p.clock.Advance(time.Minute)
	p.must(p.m.Upkeep(context.Background()))
	for _, x := range p.txns {
		if x.open {
			p.txnEnded(x, false)
			x.fenced = true
		}
	}
}

func (p *program) trim() {
	num := p.partition()
	end, err := p.topic.End(context.Background(), num)
	p.must(err)
	// Without a snapshot, a restart after the trimming would lose the producers of the trimmed
	// batches.
	p.must(p.m.Upkeep(context.Background()))
	before := rapid.Int64Range(p.starts[num], end).Draw(p.T, "before")
	_, err = p.topic.DeleteRecords(context.Background(), num, before)
	p.must(err)
	p.starts[num] = before
}
