package producer_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// TestClients runs transactions of franz-go, in both versions of the protocol, against a server
// with this package.
func TestClients(t *testing.T) {
	for name, versions := range map[string]*kversion.Versions{"explicit": kversion.V3_7_0(), "implicit": kversion.V4_0_0()} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t)
			client := func(o ...kgo.Opt) *kgo.Client {
				t.Helper()
				cl, err := kgo.NewClient(append(o, kgo.SeedBrokers(addr), kgo.MaxVersions(versions), kgo.FetchMaxWait(50*time.Millisecond))...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cl.Close)
				return cl
			}
			want := produceTransactions(t, client(kgo.TransactionalID("x"), kgo.DefaultProduceTopic("in")))
			if got, want := epoch(t, client(), "x"), map[string]int16{"implicit": transactions}[name]; got != want {
				t.Errorf("the producer has epoch %d after %d transactions, want %d", got, transactions, want)
			}
			all := []kgo.Opt{kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
			committed := client(append(all, kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
			if got := values(t, committed, len(want)); !slices.Equal(got, want) {
				t.Errorf("committed records %v, want %v", got, want)
			}
			if got := values(t, client(all...), transactions*records); len(got) != transactions*records {
				t.Errorf("%d records, want %d", len(got), transactions*records)
			}
			transform(t, addr, versions)
			moved := client(kgo.ConsumeTopics("out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			if got := values(t, moved, len(want)); !slices.Equal(got, want) {
				t.Errorf("moved records %v, want %v", got, want)
			}
		})
	}
}

const (
	transactions = 12
	records      = 10
)

// serve starts a server until the test ends.
func serve(t *testing.T) string {
	t.Helper()
	topics, err := topic.Open(testengines.Memory(t), &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"in", "out"} {
		if _, err := topics.Create(t.Context(), name, topic.Spec{Partitions: 3}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := kafka.Open(t.Context(), topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, nil) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil && mainstem.KindOf(err) != mainstem.KindClosed {
			t.Error(err)
		}
		topics.Close()
	})
	return l.Addr().String()
}

// produceTransactions commits some transactions and aborts others, and returns the
// values of those committed, sorted.
func produceTransactions(t *testing.T, cl *kgo.Client) []string {
	t.Helper()
	var want []string
	for n := range transactions {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		var batch []*kgo.Record
		for i := range records {
			batch = append(batch, &kgo.Record{Value: fmt.Appendf(nil, "%02d/%02d", n, i), Key: fmt.Appendf(nil, "k%d", i)})
		}
		if err := cl.ProduceSync(t.Context(), batch...).FirstErr(); err != nil {
			t.Fatalf("transaction %d: %v", n, err)
		}
		commit := kgo.TransactionEndTry(n%3 > 0)
		if commit {
			for _, r := range batch {
				want = append(want, string(r.Value))
			}
		}
		if err := cl.EndTransaction(t.Context(), commit); err != nil {
			t.Fatalf("end of transaction %d: %v", n, err)
		}
	}
	return want
}

// epoch returns the epoch of a transactional id: each implicit transaction has its own.
func epoch(t *testing.T, cl *kgo.Client, id string) int16 {
	t.Helper()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp.TransactionStates[0].ProducerEpoch
}

// values consumes n records, waits a moment for more, and returns all values, sorted.
func values(t *testing.T, cl *kgo.Client, n int) []string {
	t.Helper()
	var out []string
	for {
		wait := 30 * time.Second
		if len(out) >= n {
			wait = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { out = append(out, string(r.Value)) })
		over := ctx.Err() != nil
		cancel()
		if over {
			slices.Sort(out)
			return out
		}
	}
}

// transform copies the committed records of one topic to another in transactions with the offsets.
// Some of the transactions are aborted and repeated.
func transform(t *testing.T, addr string, versions *kversion.Versions) {
	t.Helper()
	s, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(addr), kgo.MaxVersions(versions), kgo.TransactionalID("mover"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DefaultProduceTopic("out"), kgo.FetchMaxWait(50*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	moved := 0
	for round := 0; moved < transactions*records*2/3; round++ {
		fetches := s.PollRecords(t.Context(), 15)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		n := 0
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			s.Produce(t.Context(), &kgo.Record{Key: r.Key, Value: r.Value}, nil)
		})
		// Without the flush the client may end a transaction to which it has added nothing yet.
		// After a committed transaction that is INVALID_TXN_STATE, as in Kafka.
		if err := s.Client().Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		committed, err := s.End(t.Context(), kgo.TransactionEndTry(round%3 != 1))
		if err != nil {
			t.Fatal(err)
		}
		if committed {
			moved += n
		}
	}
}
