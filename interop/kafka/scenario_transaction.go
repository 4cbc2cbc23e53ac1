package kafka

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka/proxy"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// idempotentResets cuts connections at every fifth produce: half of them before
// the broker sees the request, half after it has done it.
func idempotentResets(e *Env) {
	const rounds, each = 60, 25
	topic := e.topic("resets", 3)
	p := e.proxy()
	// A cut in the first conversation of a client tests its start, not its memory.
	pr := e.producerAt(p.Address(), ProducerOptions{Topic: topic, Acks: AcksAll, Codec: "none", Idempotent: true})
	produce := kmsg.NewProduceRequest()
	p.Cut(func(c proxy.Crossing) bool { return c.Key == produce.Key() && rand.IntN(10) == 0 })
	for round := range rounds {
		records := numbered(fmt.Sprintf("%d-", round), each)
		for i := range records {
			records[i].Partition = int32(i % 3)
		}
		e.must(pr.Send(e.ctx, records), "send")
	}
	p.Cut(nil)
	e.closed(pr)
	if p.Cuts() == 0 {
		e.Fatal("no connection was cut")
	}
	e.Logf("%d connections were cut", p.Cuts())
	next := map[int32]int{}
	for _, r := range e.Judge.ReadAll(e.ctx, topic, false) {
		n := next[r.Partition]
		perRound := (each - int(r.Partition) + 2) / 3
		want := fmt.Sprintf("%d-%d", n/perRound, n%perRound*3+int(r.Partition))
		if string(r.Value) != want {
			e.Fatalf("partition %d offset %d is %s, want %s", r.Partition, r.Offset, r.Value, want)
		}
		next[r.Partition]++
	}
	if total := next[0] + next[1] + next[2]; total != rounds*each {
		e.Errorf("%d records arrived, want %d", total, rounds*each)
	}
}

func transaction(e *Env) {
	topic := e.topic("transaction", 2)
	p := e.producer(ProducerOptions{Topic: topic, Acks: AcksAll, Codec: "none", Idempotent: true, TransactionalID: e.name("id")})
	send := func(prefix string) {
		e.Helper()
		e.must(p.Begin(), "begin")
		for part := range int32(2) {
			records := numbered(prefix, 10)
			for i := range records {
				records[i].Partition = part
			}
			e.must(p.Send(e.ctx, records), "send")
		}
	}
	send("first")
	e.must(p.Commit(e.ctx), "commit")
	send("aborted")
	e.must(p.Abort(e.ctx), "abort")
	send("second")
	e.must(p.Commit(e.ctx), "commit")
	e.closed(p)
	count := func(committed bool) (n map[string]int) {
		n = map[string]int{}
		for _, r := range e.Judge.ReadAll(e.ctx, topic, committed) {
			n[strings.TrimRight(string(r.Value), "0123456789")]++
		}
		return n
	}
	if n := count(true); n["first"] != 20 || n["second"] != 20 || n["aborted"] != 0 {
		e.Errorf("read committed: %v, want 20 of first and second", n)
	}
	if n := count(false); n["first"] != 20 || n["second"] != 20 || n["aborted"] != 20 {
		e.Errorf("read uncommitted: %v, want 20 of each", n)
	}
}

// transactionOffsets moves records from one topic to another. The first attempt
// is aborted: its offsets must not count.
func transactionOffsets(e *Env) {
	const n = 50
	in, out, group := e.topic("in", 1), e.topic("out", 1), e.name("mover")
	e.Judge.Produce(e.ctx, in, numbered("v", n))
	for _, commit := range []bool{false, true} {
		got, err := e.Library.New(Endpoint{Address: e.Address}).Move(e.ctx, MoveOptions{
			From: in, To: out, Group: group, TransactionalID: group, N: n, Commit: commit,
		})
		e.must(err, "move")
		e.sameValues(got, numbered("v", n))
		want := int64(-1)
		if commit {
			want = n
		}
		if at := e.Judge.Committed(e.ctx, group, in); at != want {
			e.Errorf("committed %v: the offset is %d, want %d", commit, at, want)
		}
	}
	e.sameValues(e.Judge.ReadAll(e.ctx, out, true), numbered("v", n))
}

// fates writes an aborted, a committed and an open transaction between plain
// records.
func (e *Env) fates() (topic string) {
	topic = e.topic("fates", 1)
	e.Judge.Produce(e.ctx, topic, numbered("plain", 10))
	e.Judge.Transact(e.ctx, e.name("aborts"), topic, numbered("aborted", 10), kgo.TryAbort)
	e.Judge.Transact(e.ctx, e.name("commits"), topic, numbered("committed", 10), kgo.TryCommit)
	e.Judge.Produce(e.ctx, topic, numbered("after", 10))
	return topic
}

func readUncommitted(e *Env) {
	c := e.consumer(ConsumerOptions{Topic: e.fates(), Start: AtStart})
	defer e.closed(c)
	var want []Record
	for _, prefix := range []string{"plain", "aborted", "committed", "after"} {
		want = append(want, numbered(prefix, 10)...)
	}
	e.sameValues(e.read(c, len(want)), want)
}

// readCommitted leaves a transaction open, so that the reader has to stop before
// it, and commits it then, so that the reader has to wake.
func readCommitted(e *Env) {
	topic := e.fates()
	open, err := kgo.NewClient(kgo.SeedBrokers(e.Address), kgo.TransactionalID(e.name("open")), kgo.TransactionTimeout(10*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	e.must(err, "open a client")
	defer open.Close()
	e.must(open.BeginTransaction(), "begin")
	e.must(open.ProduceSync(e.ctx, kgoRecords(topic, numbered("open", 10))...).FirstErr(), "produce")
	e.Judge.Produce(e.ctx, topic, numbered("behind", 10))

	c := e.consumer(ConsumerOptions{Topic: topic, Start: AtStart, ReadCommitted: true})
	defer e.closed(c)
	want := append(numbered("plain", 10), numbered("committed", 10)...)
	want = append(want, numbered("after", 10)...)
	got := e.read(c, len(want))
	e.must(open.EndTransaction(e.ctx, kgo.TryCommit), "commit")
	want = append(append(want, numbered("open", 10)...), numbered("behind", 10)...)
	e.sameValues(append(got, e.read(c, max(0, len(want)-len(got)))...), want)
}
