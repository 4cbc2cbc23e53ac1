package producer

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// TestBatchRefused checks that each kind of invalid batch has its error code, and that the other
// batches of the request are stored.
func TestBatchRefused(t *testing.T) {
	good := func(from id) []byte { return batch(from, 0, false, "v") }
	edit := func(b []byte, f func([]byte)) []byte { f(b); seal(b); return b }
	cases := []struct {
		name string
		make func(from id) []byte
		want *kerr.Error
	}{
		{"short", func(id) []byte { return []byte("short") }, kerr.CorruptMessage},
		{"empty", func(id) []byte { return nil }, kerr.CorruptMessage},
		{"checksum", func(from id) []byte { b := good(from); b[len(b)-1] ^= 1; return b }, kerr.CorruptMessage},
		{"compressed records", func(from id) []byte {
			return edit(good(from), func(b []byte) { b[22] |= byte(recordbatch.Zstd) })
		}, kerr.CorruptMessage},
		{"old format", func(from id) []byte { return edit(good(from), func(b []byte) { b[16] = 1 }) }, kerr.UnsupportedForMessageFormat},
		{"too large", func(from id) []byte { return batch(from, 0, false, strings.Repeat("x", 2000)) }, kerr.MessageTooLarge},
		{"unknown codec", func(from id) []byte { return edit(good(from), func(b []byte) { b[22] |= 5 }) }, kerr.UnsupportedCompressionType},
		{"timestamp", func(from id) []byte {
			return edit(good(from), func(b []byte) { copy(b[35:], "\x7f\xff\xff\xff") })
		}, kerr.InvalidTimestamp},
		{"control batch", func(from id) []byte {
			return recordbatch.Marker{ProducerID: from.pid, ProducerEpoch: from.epoch, Commit: true}.Batch()
		}, kerr.InvalidRecord},
		{"counts", func(from id) []byte { return edit(good(from), func(b []byte) { b[60] = 2 }) }, kerr.InvalidRecord},
		{"negative epoch", func(from id) []byte { return batch(id{from.pid, -1}, 0, false, "v") }, kerr.InvalidRecord},
		{"negative sequence", func(from id) []byte { return batch(from, -1, false, "v") }, kerr.InvalidRecord},
		{"transactional without an id", func(from id) []byte { return batch(from, 0, true, "v") }, kerr.TransactionalIDAuthorizationFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			tp := f.topic("t", 3, topic.MaxMessageBytes, "1000")
			from := f.init("")
			a := []Append{
				{Topic: tp, Partition: 0, Batch: good(from)},
				{Topic: tp, Partition: 1, Batch: c.make(from)},
				{Topic: tp, Partition: 2, Batch: plainBatch("v")},
			}
			f.m.Append(t.Context(), AppendOptions{}, a)
			f.want(a[0], nil, 0)
			f.want(a[1], c.want, -1)
			f.want(a[2], nil, 0)
			if a[1].Message == "" {
				t.Error("the refusal does not say why")
			}
			f.want(f.append(tp, 1, c.make(id{-1, from.epoch})), refusedPlain(c.name), plainBase(c.name))
			f.want(f.append(tp, 1, good(from)), nil, plainBase(c.name)+1)
		})
	}
}

// refusedPlain and plainBase are for the same batch without a producer id, where epoch and sequence
// have no meaning.
func refusedPlain(name string) *kerr.Error {
	switch name {
	case "negative epoch", "negative sequence":
		return nil
	case "short", "empty", "checksum", "compressed records":
		return kerr.CorruptMessage
	case "old format":
		return kerr.UnsupportedForMessageFormat
	case "too large":
		return kerr.MessageTooLarge
	case "unknown codec":
		return kerr.UnsupportedCompressionType
	case "timestamp":
		return kerr.InvalidTimestamp
	}
	return kerr.InvalidRecord
}

func plainBase(name string) int64 {
	if refusedPlain(name) == nil {
		return 0
	}
	return -1
}

func TestUnknownPartition(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	for _, num := range []int32{-1, 1, math.MaxInt32} {
		f.want(f.append(tp, num, batch(f.init(""), 0, false, "v")), kerr.UnknownTopicOrPartition, -1)
		f.want(f.append(tp, num, plainBatch("v")), kerr.UnknownTopicOrPartition, -1)
	}
	if n := len(f.m.parts.of); n > 0 {
		t.Errorf("something is remembered about %d partitions", n)
	}
}

// TestDeletedTopic checks that only the batches of a deleted topic fail.
func TestDeletedTopic(t *testing.T) {
	f := newFixture(t)
	for _, from := range []id{{-1, -1}, f.init("")} {
		gone, there := f.topic("gone", 1), f.topic("there", 1)
		// The space is deleted without the handle of the topic, as by another process.
		if err := f.log.DropSpace(t.Context(), topic.Space("gone")); err != nil {
			t.Fatal(err)
		}
		a := []Append{{Topic: gone, Batch: batch(from, 0, false, "v")}, {Topic: there, Batch: batch(from, 0, false, "v")}}
		f.m.Append(t.Context(), AppendOptions{}, a)
		f.want(a[0], kerr.UnknownTopicOrPartition, -1)
		f.want(a[1], nil, 0)
		if err := f.catalog.Delete(t.Context(), "there"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSequences(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("")
	f.want(f.append(tp, 0, batch(p, 7, false, "a", "b")), nil, 0) // the first may have any sequence number
	f.want(f.append(tp, 0, batch(p, 7, false, "a", "b")), nil, 0) // again
	f.want(f.append(tp, 0, batch(p, 10, false, "d")), kerr.OutOfOrderSequenceNumber, -1)
	f.want(f.append(tp, 0, batch(p, 8, false, "b")), kerr.OutOfOrderSequenceNumber, -1) // not the same batch
	for i := range int32(5) {
		f.want(f.append(tp, 0, batch(p, 9+i, false, "x")), nil, int64(2+i))
	}
	for i := range int32(5) {
		f.want(f.append(tp, 0, batch(p, 9+i, false, "x")), nil, int64(2+i)) // the window
	}
	f.want(f.append(tp, 0, batch(p, 7, false, "a", "b")), kerr.OutOfOrderSequenceNumber, -1) // beyond it

	next := id{p.pid, p.epoch + 1}
	f.want(f.append(tp, 0, batch(next, 14, false, "x")), kerr.OutOfOrderSequenceNumber, -1) // an epoch begins with 0
	f.want(f.append(tp, 0, batch(next, 0, false, "x")), nil, 7)
	f.want(f.append(tp, 0, batch(p, 14, false, "x")), kerr.InvalidProducerEpoch, -1)
	f.want(f.append(tp, 0, batch(p, 13, false, "x")), kerr.InvalidProducerEpoch, -1)
	f.want(f.append(tp, 0, batch(next, 0, false, "x")), nil, 7)
}

func TestSequenceWraps(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("")
	f.want(f.append(tp, 0, batch(p, math.MaxInt32-1, false, "a")), nil, 0)
	f.want(f.append(tp, 0, batch(p, math.MaxInt32, false, "b", "c", "d")), nil, 1) // 2³¹-1, 0, 1
	f.want(f.append(tp, 0, batch(p, math.MaxInt32, false, "b", "c", "d")), nil, 1)
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	f.want(f.append(tp, 0, batch(p, math.MaxInt32, false, "b", "c", "d")), nil, 1)
	f.want(f.append(tp, 0, batch(p, 2, false, "e")), nil, 4)
	f.want(f.append(tp, 0, batch(p, math.MaxInt32, false, "x")), kerr.OutOfOrderSequenceNumber, -1)
}

// TestSamePlaceTwice checks that of several batches with a producer id for one partition in a
// request only the first is stored. Those without one are all stored.
func TestSamePlaceTwice(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 2)
	p, q := f.init(""), f.init("")
	a := []Append{
		{Topic: tp, Batch: batch(q, 0, false, "a")}, {Topic: tp, Batch: batch(p, 0, false, "b")}, {Topic: tp, Batch: batch(q, 1, false, "c")},
		{Topic: tp, Batch: plainBatch("d")}, {Topic: tp, Batch: plainBatch("e")}, {Topic: tp, Partition: 1, Batch: batch(p, 0, false, "f")},
	}
	f.m.Append(t.Context(), AppendOptions{}, a)
	f.want(a[0], nil, 0)
	f.want(a[1], kerr.InvalidRequest, -1)
	f.want(a[2], kerr.InvalidRequest, -1)
	f.want(a[3], nil, 1)
	f.want(a[4], nil, 2)
	f.want(a[5], nil, 0)
}

func TestLogAppendTimeOfDuplicate(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1, topic.TimestampType, "LogAppendTime")
	p := f.init("")
	first := f.append(tp, 0, batch(p, 0, false, "a"))
	if !first.Time.Equal(f.clock.Now()) {
		t.Errorf("log append time %v, want %v", first.Time, f.clock.Now())
	}
	for range 2 {
		f.clock.Advance(time.Minute)
		again := f.append(tp, 0, batch(p, 0, false, "a"))
		if f.want(again, nil, 0); !again.Time.Equal(first.Time) {
			t.Errorf("log append time of a duplicate %v, want that of the original %v", again.Time, first.Time)
		}
		f.reopen(false)
		tp, _ = f.catalog.Topic(t.Context(), "t")
	}
}

// TestLargeRequest checks that a request of more than one commit is stored whole.
func TestLargeRequest(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 5, topic.MaxMessageBytes, "12000000")
	p := f.init("")
	value := strings.Repeat("x", 11_000_000)
	froms := []id{{-1, -1}, p}
	if testing.Short() {
		froms = froms[1:]
	}
	for _, from := range froms {
		var a []Append
		for num := range int32(5) {
			a = append(a, Append{Topic: tp, Partition: num, Batch: batch(from, 0, false, value)})
		}
		f.m.Append(t.Context(), AppendOptions{}, a)
		for i := range a {
			f.want(a[i], nil, a[0].Base)
		}
	}
}

// TestRecovery checks that duplicates are recognised after a clean restart and after a crash, in a
// snapshot or not.
func TestRecovery(t *testing.T) {
	for _, every := range []int{1, 3, 1000} {
		for _, clean := range []bool{true, false} {
			f := newFixture(t)
			f.o.SnapshotEvery = every
			f.reopen(true)
			tp := f.topic("t", 1)
			f.want(f.append(tp, 0, plainBatch("x", "y")), nil, 0)
			p, q := f.init(""), f.init("")
			for i := range int32(8) {
				f.want(f.append(tp, 0, batch(p, i, false, "p")), nil, int64(2+3*i))
				f.want(f.append(tp, 0, batch(q, 2*i, false, "q", "q")), nil, int64(3+3*i))
				f.reopen(clean)
				tp, _ = f.catalog.Topic(t.Context(), "t")
				for j := max(0, i-4); j <= i; j++ {
					f.want(f.append(tp, 0, batch(p, j, false, "p")), nil, int64(2+3*j))
					f.want(f.append(tp, 0, batch(q, 2*j, false, "q", "q")), nil, int64(3+3*j))
				}
				if i > 4 {
					f.want(f.append(tp, 0, batch(p, i-5, false, "p")), kerr.OutOfOrderSequenceNumber, -1)
				}
				f.want(f.append(tp, 0, batch(p, i+2, false, "p")), kerr.OutOfOrderSequenceNumber, -1)
			}
			if r := f.init(""); slices.Contains([]int64{p.pid, q.pid}, r.pid) {
				t.Errorf("producer id %d was given out twice", r.pid)
			}
		}
	}
}

// TestCompactedBatches checks that a producer whose batches compaction removed is
// still known, because a snapshot has it.
func TestCompactedBatches(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1, topic.CleanupPolicy, "compact")
	p := f.init("")
	key := func(int) []byte { return []byte("k") }
	f.want(f.append(tp, 0, keyed(p, 0, false, key, "a")), nil, 0)
	f.want(f.append(tp, 0, keyed(id{-1, -1}, -1, false, key, "b")), nil, 1)
	f.want(f.append(tp, 0, keyed(id{-1, -1}, -1, false, key, "c")), nil, 2)
	if err := f.m.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tp.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	f.want(f.append(tp, 0, keyed(p, 0, false, key, "a")), nil, 0)
	f.want(f.append(tp, 0, keyed(p, 2, false, key, "a")), kerr.OutOfOrderSequenceNumber, -1)
	f.want(f.append(tp, 0, keyed(p, 1, false, key, "a")), nil, 3)
}

// TestCompactedTransactions checks that compaction removes nothing of open transactions, and that
// no record of an aborted one becomes visible when compaction has removed a part of it.
func TestCompactedTransactions(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1, topic.CleanupPolicy, "compact")
	key := func(i int) []byte { return []byte{byte('a' + i)} }
	other := func(v ...string) []byte { return keyed(id{-1, -1}, -1, false, key, v...) }
	compact := func() {
		t.Helper()
		if err := tp.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.reopen(false)
		tp, _ = f.catalog.Topic(t.Context(), "t")
	}
	p := f.init("x")
	f.want(f.append(tp, 0, other("1")), nil, 0)
	f.want(f.txnAppend("x", true, tp, 0, keyed(p, 0, true, key, "2", "3")), nil, 1)
	f.want(f.append(tp, 0, other("4")), nil, 3)
	f.want(f.append(tp, 0, other("5")), nil, 4)
	compact()
	f.sees(tp, 0, "0=1")
	f.want(f.txnAppend("x", true, tp, 0, keyed(p, 2, true, key, "6")), nil, 5)
	p = f.ended("x", p, false, 5)
	f.sees(tp, 0, "0=1", "3=4", "4=5")
	f.want(f.txnAppend("x", true, tp, 0, keyed(p, 0, true, func(int) []byte { return []byte("b") }, "7")), nil, 7)
	compact()
	f.sees(tp, 0, "4=5")
	p = f.ended("x", p, true, 5)
	f.sees(tp, 0, "4=5", "7=7")
	f.want(f.append(tp, 0, other("8")), nil, 9)
	f.want(f.append(tp, 0, other("9")), nil, 10)
	compact()
	f.sees(tp, 0, "7=7", "9=8", "10=9") // the newest batch is not compacted
	f.want(f.txnAppend("x", true, tp, 0, keyed(id{p.pid, p.epoch - 1}, 1, true, key, "late")), kerr.InvalidProducerEpoch, -1)
}

// TestProducerExpires checks that an idle producer is removed, also from the log, and that one with
// an open transaction is not.
func TestProducerExpires(t *testing.T) {
	f := newFixture(t)
	f.o.MaxTimeout = 100 * 24 * time.Hour
	f.reopen(true)
	tp := f.topic("t", 1)
	p := f.init("")
	f.want(f.append(tp, 0, batch(p, 0, false, "a")), nil, 0)
	f.upkeep()
	f.clock.Advance(DefaultProducerExpiry - time.Second)
	f.upkeep()
	f.want(f.append(tp, 0, batch(p, 2, false, "a")), kerr.OutOfOrderSequenceNumber, -1)
	f.clock.Advance(2 * time.Second)
	f.upkeep()
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	if got := len(f.describe("t", 0)); got != 0 {
		t.Errorf("%d producers are known, want none", got)
	}
	f.want(f.append(tp, 0, batch(p, 5, false, "b")), nil, 1) // unknown: any sequence

	days := int32(72 * time.Hour / time.Millisecond)
	req := kmsg.NewPtrInitProducerIDRequest()
	x := "x"
	req.TransactionalID, req.TransactionTimeoutMillis = &x, days
	open := id{f.m.InitProducerID(t.Context(), coord.Client{}, req).ProducerID, 0}
	f.want(f.txnAppend("x", true, tp, 0, batch(open, 0, true, "c")), nil, 2)
	f.clock.Advance(2 * DefaultProducerExpiry)
	f.upkeep()
	if got := f.describe("t", 0); len(got) != 1 || got[0].ProducerID != open.pid || f.stable(tp, 0) != 2 {
		t.Errorf("%+v are known, stable to %d: want the one with an open transaction", got, f.stable(tp, 0))
	}
	f.ended("x", open, true, 5)
	f.sees(tp, 0, "0=a", "1=b", "2=c")
}

func (f *fixture) upkeep() {
	f.Helper()
	if err := f.m.Upkeep(f.Context()); err != nil {
		f.Error(err)
	}
}

// TestDeleteRecords checks that a producer is known after its batches were removed.
func TestDeleteRecords(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("")
	f.want(f.append(tp, 0, batch(p, 0, false, "a", "b")), nil, 0)
	f.upkeep()
	if _, err := tp.DeleteRecords(t.Context(), 0, topic.ToEnd); err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{false, true} {
		f.want(f.append(tp, 0, batch(p, 0, false, "a", "b")), nil, 0)
		f.want(f.append(tp, 0, batch(p, 3, false, "x")), kerr.OutOfOrderSequenceNumber, -1)
		f.reopen(clean)
		tp, _ = f.catalog.Topic(t.Context(), "t")
	}
	f.want(f.append(tp, 0, batch(p, 2, false, "c")), nil, 2)
}

// TestAddedPartitions checks that partitions that are added to a topic later have producers too.
func TestAddedPartitions(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("x")
	if err := f.catalog.AddPartitions(t.Context(), "t", 3); err != nil {
		t.Fatal(err)
	}
	f.want(f.txnAppend("x", true, tp, 2, batch(p, 0, true, "a")), nil, 0)
	_, code := f.end("x", p, true, 5)
	f.wantCode("end", code, nil)
	if got := f.committed(tp, 2); !slices.Equal(got, []string{"0=a"}) {
		t.Errorf("got %v", got)
	}
}

// TestDeletedTopicLeavesNothing checks that the records of the partitions of a deleted topic are
// removed.
func TestDeletedTopicLeavesNothing(t *testing.T) {
	f := newFixture(t)
	p := f.init("")
	for _, name := range []string{"a", "b", "c"} {
		f.want(f.append(f.topic(name, 2), 1, batch(p, 0, false, "v")), nil, 0)
	}
	f.upkeep()
	if err := f.catalog.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	f.upkeep()
	ids, err := f.m.storedTopics(t.Context())
	if err != nil || len(ids) != 2 {
		t.Errorf("%d topics are stored (%v), want 2", len(ids), err)
	}
	if n := len(f.m.parts.of); n != 2 {
		t.Errorf("%d partitions are remembered, want 2", n)
	}
}
