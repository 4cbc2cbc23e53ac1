package kafka_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/confluent"
	"github.com/mainstemdev/mainstem/interop/kafka/franz"
	"github.com/mainstemdev/mainstem/interop/kafka/sarama"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

var crashFor = flag.Duration("crash", 12*time.Second, "how long the broker is killed again and again; at length: 2m")

// TestKilledBroker kills the broker with SIGKILL every few seconds while
// idempotent producers, transactions and a group are at work.
func TestKilledBroker(t *testing.T) {
	broker, err := target.NewProcess(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	c := &crash{t: t, broker: broker, judge: kafka.NewJudge(t, broker.Kafka)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server said:\n%s", broker.Output())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), *crashFor+2*time.Minute)
	defer cancel()
	c.judge.CreateTopic(ctx, numbers, 3)
	c.judge.CreateTopic(ctx, fates, 2)

	kills := c.run(ctx)
	c.judgeNumbers(ctx)
	c.judgeFates(ctx)
	if err := broker.Stop(); err != nil {
		t.Error(err)
	}
	if out, err := target.Command(ctx, "check", "--log", broker.Dir); err != nil {
		t.Errorf("check the log: %v\n%s", err, out)
	}
	t.Logf("%d kills, %d records acknowledged, %d transactions committed, %d aborted, %d without an answer",
		kills, len(c.acked), c.outcomes["committed"], c.outcomes["aborted"], c.outcomes["unknown"])
}

// The topics of the test.
const (
	numbers = "numbers" // what idempotent producers send, each counting
	fates   = "fates"   // transactions
	each    = 10        // records in one send
)

// crash is what the clients believe.
type crash struct {
	t      *testing.T
	broker *target.Process
	judge  *kafka.Judge
	wg     sync.WaitGroup

	mu       sync.Mutex
	acked    []string          // values of numbers
	fate     map[string]string // of each transaction: committed, aborted, unknown
	outcomes map[string]int
}

// run has clients at work while the broker is killed, and returns once they are
// done and the group has read everything.
func (c *crash) run(ctx context.Context) (kills int) {
	over := make(chan struct{})
	for _, l := range []kafka.Library{franz.Library(), sarama.Library(), confluent.Library()} {
		c.wg.Go(func() { c.number(ctx, l, over) })
	}
	for i, l := range []kafka.Library{franz.Library(), confluent.Library()} {
		c.wg.Go(func() { c.transact(ctx, l, fmt.Sprintf("%s-%d", l.Name, i), over) })
	}
	reader := make(chan struct{})
	read := map[string]int{}
	readerCtx, endReader := context.WithCancel(ctx)
	go func() {
		defer close(reader)
		c.follow(readerCtx, read)
	}()
	kills = c.kill(over)
	c.wg.Wait()
	c.awaitAll(ctx, read)
	endReader()
	<-reader
	return kills
}

// kill returns how often the broker was killed once time is over.
func (c *crash) kill(over chan struct{}) (kills int) {
	defer close(over)
	end := time.NewTimer(*crashFor)
	defer end.Stop()
	for {
		next := time.NewTimer(time.Second + rand.N(2*time.Second))
		select {
		case <-end.C:
			next.Stop()
			return kills
		case <-next.C:
		}
		err := c.broker.Kill()
		if err == nil {
			err = c.broker.Start()
		}
		if err != nil {
			c.t.Errorf("after %d kills: %v", kills, err)
			return kills
		}
		kills++
	}
}

// number counts in batches. Whatever happens to the broker, an idempotent
// producer has to get through.
func (c *crash) number(ctx context.Context, l kafka.Library, over chan struct{}) {
	p, err := l.New(kafka.Endpoint{Address: c.broker.Kafka}).Producer(ctx, kafka.ProducerOptions{Topic: numbers, Acks: kafka.AcksAll, Codec: "lz4", Idempotent: true})
	if err != nil {
		c.t.Errorf("%s: %v", l.Name, err)
		return
	}
	defer p.Close()
	for n := 0; !closed(over); n += each {
		records := make([]kafka.Record, each)
		for i := range records {
			records[i] = kafka.Record{Partition: int32(n / each % 3), Value: fmt.Appendf(nil, "%s/%d", l.Name, n+i)}
		}
		if err := p.Send(ctx, records); err != nil {
			c.t.Errorf("%s: send %d: %v", l.Name, n, err)
			return
		}
		c.mu.Lock()
		for _, r := range records {
			c.acked = append(c.acked, string(r.Value))
		}
		c.mu.Unlock()
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// transact runs transactions. After an error it opens a new producer with the
// same id, which ends what the old one left open once it begins a transaction. One
// that stayed open would hide the committed ones of others behind it.
func (c *crash) transact(ctx context.Context, l kafka.Library, id string, over chan struct{}) {
	open := false // a transaction, maybe
	for n := 0; open || !closed(over); {
		p, err := l.New(kafka.Endpoint{Address: c.broker.Kafka}).Producer(ctx, kafka.ProducerOptions{
			Topic: fates, Acks: kafka.AcksAll, Codec: "none", Idempotent: true, TransactionalID: id,
		})
		if err != nil {
			if ctx.Err() != nil {
				c.t.Errorf("%s: no producer: %v", id, err)
				return
			}
			continue
		}
		for ; err == nil && (open || !closed(over)); n++ {
			var fate string
			name := fmt.Sprintf("%s/%d", id, n)
			fate, err = transactOnce(ctx, p, name, rand.IntN(3) > 0)
			open = err != nil
			c.mu.Lock()
			if c.fate == nil {
				c.fate, c.outcomes = map[string]string{}, map[string]int{}
			}
			c.fate[name] = fate
			c.outcomes[fate]++
			c.mu.Unlock()
			if err != nil {
				c.t.Logf("%s: %v", name, err)
			}
		}
		_ = p.Close() // it may be one that has failed
		if open && ctx.Err() != nil {
			c.t.Errorf("%s: a transaction may be open: %v", id, err)
			return
		}
	}
}

// transactOnce returns what is certain about the transaction.
func transactOnce(ctx context.Context, p kafka.Producer, name string, commit bool) (fate string, err error) {
	if err := p.Begin(); err != nil {
		return "aborted", err
	}
	for part := range int32(2) {
		records := make([]kafka.Record, each)
		for i := range records {
			records[i] = kafka.Record{Partition: part, Value: fmt.Appendf(nil, "%s/%d", name, i)}
		}
		if err := p.Send(ctx, records); err != nil {
			return "aborted", err // it never asked to commit
		}
	}
	if !commit {
		return "aborted", p.Abort(ctx)
	}
	if err := p.Commit(ctx); err != nil {
		return "unknown", err
	}
	return "committed", nil
}

// follow reads numbers as a group of one that commits.
func (c *crash) follow(ctx context.Context, read map[string]int) {
	r, err := franz.Library().New(kafka.Endpoint{Address: c.broker.Kafka}).Consumer(ctx, kafka.ConsumerOptions{
		Topic: numbers, Group: "followers", ShortSession: true, // a member that only the killed broker knew ends soon
	})
	if err != nil {
		c.t.Errorf("the group: %v", err)
		return
	}
	defer r.Close()
	for {
		records, err := r.Poll(ctx)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		for _, k := range records {
			read[string(k.Value)]++
		}
		c.mu.Unlock()
		if err == nil {
			err = r.Commit(ctx)
		}
		if err != nil && ctx.Err() == nil {
			c.t.Logf("the group: %v", err) // a broker that is away; it goes on
		}
	}
}

// awaitAll waits until the group has read everything acknowledged.
func (c *crash) awaitAll(ctx context.Context, read map[string]int) {
	missing := func() (first string, n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, v := range c.acked {
			if read[v] == 0 {
				first, n = v, n+1
			}
		}
		return first, n
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		first, n := missing()
		if n == 0 {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			c.t.Errorf("the group never read %d acknowledged records, one of them %s", n, first)
			return
		}
	}
}

// judgeNumbers looks for records lost, doubled or out of order.
func (c *crash) judgeNumbers(ctx context.Context) {
	seen := map[string]int{}
	last := map[string]int{}
	for _, r := range c.judge.ReadAll(ctx, numbers, false) {
		v := string(r.Value)
		if seen[v]++; seen[v] == 2 {
			c.t.Errorf("%s is there twice", v)
		}
		who, count, _ := strings.Cut(v, "/")
		var n int
		if _, err := fmt.Sscan(count, &n); err != nil {
			c.t.Fatalf("a value that nobody sent: %q", v)
		}
		who = fmt.Sprint(who, r.Partition)
		if before, ok := last[who]; ok && n < before {
			c.t.Errorf("%s comes after %d", v, before)
		}
		last[who] = n
	}
	for _, v := range c.acked {
		if seen[v] == 0 {
			c.t.Errorf("%s was acknowledged and is lost", v)
		}
	}
}

// judgeFates looks at transactions with read_committed: all of it or nothing.
func (c *crash) judgeFates(ctx context.Context) {
	got := map[string]int{}
	for _, r := range c.judge.ReadAll(ctx, fates, true) {
		v := string(r.Value)
		got[v[:strings.LastIndex(v, "/")]]++
	}
	for name, fate := range c.fate {
		n := got[name]
		switch {
		case fate == "committed" && n != 2*each, fate == "aborted" && n != 0, fate == "unknown" && n != 0 && n != 2*each:
			c.t.Errorf("transaction %s: %s, %d of %d records are visible", name, fate, n, 2*each)
		}
		delete(got, name)
	}
	for name := range got {
		c.t.Errorf("transaction %s is visible and nobody made it", name)
	}
}
