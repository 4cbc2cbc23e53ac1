package producer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestDescribe(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 2)
	p := f.init("x")
	f.init("y")
	f.want(f.txnAppend("x", true, tp, 1, batch(p, 3, true, "a", "b")), nil, 0)
	want := activeProducer{ProducerID: p.pid, ProducerEpoch: 0, LastSequence: 4, LastTimestamp: f.m.now(), CurrentTxnStartOffset: 0}
	if got := f.describe("t", 1); len(got) != 1 || got[0].ProducerID != want.ProducerID || got[0].LastSequence != 4 ||
		got[0].CurrentTxnStartOffset != 0 || got[0].LastTimestamp != want.LastTimestamp {
		t.Errorf("got %+v, want %+v", got, want)
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{2}}, {Topic: "no", Partitions: []int32{0}}}
	for _, to := range f.m.DescribeProducers(t.Context(), coord.Client{}, req).Topics {
		f.wantCode("describe "+to.Topic, to.Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	}
	dt := kmsg.NewPtrDescribeTransactionsRequest()
	dt.TransactionalIDs = []string{"x", "y", "z"}
	states := f.m.DescribeTransactions(t.Context(), coord.Client{}, dt).TransactionStates
	if x := states[0]; x.State != "Ongoing" || x.ProducerID != p.pid || x.StartTimestamp != f.m.now() || x.TimeoutMillis != 60_000 ||
		len(x.Topics) != 1 || x.Topics[0].Topic != "t" || !slices.Equal(x.Topics[0].Partitions, []int32{1}) {
		t.Errorf("x is %+v", x)
	}
	if y := states[1]; y.State != "Empty" || y.StartTimestamp != -1 || len(y.Topics) != 0 {
		t.Errorf("y is %+v", y)
	}
	f.wantCode("describe z", states[2].ErrorCode, kerr.TransactionalIDNotFound)
}

func TestListTransactions(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("a")
	f.want(f.txnAppend("a", true, tp, 0, batch(p, 0, true, "v")), nil, 0)
	f.clock.Advance(time.Second)
	q := f.init("b")
	f.want(f.txnAppend("b", true, tp, 0, batch(q, 0, true, "v")), nil, 1)
	c := f.init("cc")
	f.ended("cc", c, false, 5)
	f.clock.Advance(500 * time.Millisecond)
	list := func(edit func(*kmsg.ListTransactionsRequest)) (string, *kmsg.ListTransactionsResponse) {
		req := kmsg.NewPtrListTransactionsRequest()
		req.Version = 2
		edit(req)
		resp := f.m.ListTransactions(t.Context(), coord.Client{}, req)
		var ids []string
		for _, s := range resp.TransactionStates {
			ids = append(ids, s.TransactionalID)
		}
		return strings.Join(ids, " "), resp
	}
	pattern := func(s string) func(*kmsg.ListTransactionsRequest) {
		return func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &s }
	}
	for want, edit := range map[string]func(*kmsg.ListTransactionsRequest){
		"a b cc": func(*kmsg.ListTransactionsRequest) {},
		"a b": func(r *kmsg.ListTransactionsRequest) {
			r.StateFilters = []string{"Ongoing", "Nonsense", "PrepareCommit"}
		},
		"b":  func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{q.pid, 4711} },
		"a":  func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 1000 },
		"cc": pattern("c+"),
		"":   pattern("c"),
	} {
		got, resp := list(edit)
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if want == "a b" && !slices.Equal(resp.UnknownStateFilters, []string{"Nonsense"}) {
			t.Errorf("unknown states %v", resp.UnknownStateFilters)
		}
	}
	for name, s := range map[string]string{"bad": "(", "long": strings.Repeat(".?", 4<<10), "large": strings.Repeat(".{1000}", 6)} {
		_, resp := list(pattern(s))
		f.wantCode("a "+name+" pattern", resp.ErrorCode, kerr.InvalidRegularExpression)
	}
}

// While a listing matches transactional ids, requests of others can lock theirs.
func TestListingLocksNothing(t *testing.T) {
	f := newFixture(t)
	f.init("a")
	f.init("b")
	f.init("c")
	got := f.m.named(func(id string) bool {
		if !f.m.mu.TryLock() {
			t.Fatal("the manager is locked")
		}
		f.m.mu.Unlock()
		return id != "b"
	})
	if len(got) != 2 || got[0].id != "a" || got[1].id != "c" {
		t.Errorf("got %d transactional ids", len(got))
	}
}
