package kafka_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// large is the size of a record that the largest batch by default has room for.
const large = 1_000_000

// stocked returns a log with a topic t, of n batches of size bytes each.
func stocked(t *testing.T, n, size int) mainstem.Log {
	t.Helper()
	log := testengines.Memory(t)
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	tp, err := topics.Create(t.Context(), "t", topic.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := tp.Append(t.Context(), 0, batchOf(t, make([]byte, size), recordbatch.None)); err != nil {
			t.Fatal(err)
		}
	}
	if err := topics.Close(); err != nil {
		t.Fatal(err)
	}
	return log
}

// batchOf returns a batch of one record.
func batchOf(t testing.TB, value []byte, c recordbatch.Codec) []byte {
	t.Helper()
	var b recordbatch.Builder
	b.Append(&recordbatch.Record{Timestamp: 1000, Key: []byte("k"), Value: value})
	batch, err := b.Finish(c)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// statsOf returns the statistics of one budget of the tree below memory.
func statsOf(t *testing.T, memory *budget.Budget, name string) budget.Stats {
	t.Helper()
	for _, s := range memory.Stats() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no budget %s", name)
	return budget.Stats{}
}

// begins waits for an answer to begin and returns its size. The rest is not read.
func (c *raw) begins() int {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		c.t.Fatal(err)
	}
	return int(binary.BigEndian.Uint32(size[:]))
}

// Clients that fetch much and read nothing take at most the memory of the budget together.
// Later clients get their records, because the connection without progress for longest is
// closed when they have waited.
func TestUnreadAnswersAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		batches int
		size    int
		least   int // of an answer
	}{{"many batches", 200, 16 << 10, 16 << 10}, {"large batches", 4, large, large}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := stocked(t, tt.batches, tt.size)
				const limit, clients = 4 << 20, 30
				memory := budget.New("process", limit)
				l := pipedOn(t, log, &kafka.Options{MaxRequest: 1 << 20, MaxInFlight: 1 << 30, Memory: memory}, nil)
				for range clients {
					c := l.dial(t)
					c.send(fetchAll("t"), 4)
					if n := c.begins(); n < tt.least {
						t.Errorf("an answer of %d bytes has no record", n)
					}
					if used := memory.Stats()[0].Used; used > limit || used == 0 {
						t.Errorf("%d bytes are used: there are %d", used, limit)
					}
				}
				if s := statsOf(t, memory, "kafka answers"); s.Recalled == 0 || s.Recalled >= clients || s.Refused > 0 {
					t.Errorf("%+v", s)
				}
				time.Sleep(time.Minute) // then all others have taken nothing for too long, too
				if used := memory.Stats()[0].Used; used != 0 {
					t.Errorf("%d bytes are used when all clients are gone", used)
				}
			})
		})
	}
}

// A client that keeps reading is never closed, however many wait.
func TestReadersWithProgressAreNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stocked(t, 2, large)
		memory := budget.New("process", 3<<20)
		l := pipedOn(t, log, &kafka.Options{MaxRequest: 1 << 20, MaxInFlight: 1 << 30, Memory: memory}, nil)
		slow := l.dial(t)
		slow.send(fetchAll("t"), 4)
		left := slow.begins()
		waits := l.dial(t)
		waits.send(fetchAll("t"), 4)
		for left > 0 {
			n, err := io.ReadFull(slow, make([]byte, min(left, 256<<10)))
			if err != nil {
				t.Fatalf("%d bytes were left: %v", left, err)
			}
			left -= n
			time.Sleep(budget.Patience - time.Second) // of the bubble
		}
		if n := waits.begins(); n < large {
			t.Errorf("an answer of %d bytes", n)
		}
	})
}

// Without memory a fetch that has something to read gets an answer without records in
// time, and one that has nothing to read waits for records as always.
func TestFetchWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stocked(t, 1, 100)
		memory := budget.New("process", 1<<20)
		s, l := pipedBy(t, log, &kafka.Options{MaxRequest: 1 << 20, Memory: memory}, nil)
		_, answers := s.Budgets()
		full := answers.Hold()
		full.Take(2 << 20)
		c := l.dial(t)
		begin := time.Now()
		part := ask[*kmsg.FetchResponse](c, fetchAll("t"), 4).Topics[0].Partitions[0]
		if part.ErrorCode != 0 || len(part.RecordBatches) > 0 || part.HighWatermark != 1 {
			t.Errorf("%+v", part)
		}
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("the answer took %s", took)
		}
		begin = time.Now()
		if part := ask[*kmsg.FetchResponse](c, fetchOf("t", 1), 4).Topics[0].Partitions[0]; part.ErrorCode != 0 || time.Since(begin) != 0 {
			t.Errorf("after %s: %+v", time.Since(begin), part)
		}
		full.Release()
		if part := ask[*kmsg.FetchResponse](c, fetchAll("t"), 4).Topics[0].Partitions[0]; len(part.RecordBatches) == 0 {
			t.Errorf("%+v", part)
		}
	})
}

// A fetch that waits for more records answers with the batches that it has when others need
// the memory.
func TestFetchThatWaitsGivesMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stocked(t, 1, large)
		memory := budget.New("process", 3<<20)
		l := pipedOn(t, log, &kafka.Options{MaxRequest: 1 << 20, MaxInFlight: 1 << 30, Memory: memory}, nil)
		first, second := l.dial(t), l.dial(t)
		req := fetchAll("t")
		req.MinBytes, req.MaxWaitMillis = 2<<20, 300_000
		first.send(req, 4)
		synctest.Wait()
		begin := time.Now()
		second.send(fetchAll("t"), 4)
		if n := first.begins(); n < large || time.Since(begin) != budget.Patience {
			t.Errorf("%d bytes after %s", n, time.Since(begin))
		}
		if _, err := io.ReadFull(first, make([]byte, large)); err != nil {
			t.Error(err)
		}
		if n := second.begins(); n < large {
			t.Errorf("%d bytes", n)
		}
	})
}

// produceOf is a request to store a batch in partition 0 of t.
func produceOf(batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	return req
}

// produced receives the answer to produceOf at version 9, which has to be a success.
func (c *raw) produced() {
	c.t.Helper()
	_, body := c.receive()
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(9)
	if err := resp.ReadFrom(body[1:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		c.t.Errorf("%+v, %v", resp, err)
	}
}

// A request waits for memory before it is read, and is served when there is some. If there
// is none in time, its connection is closed, and the client tries again.
func TestRequestsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stocked(t, 0, 0)
		memory := budget.New("process", 1<<20)
		var text bytes.Buffer
		s, l := pipedBy(t, log, &kafka.Options{MaxRequest: 1 << 20, Memory: memory, Logger: slog.New(slog.NewTextHandler(&text, nil))}, nil)
		requests, _ := s.Budgets()
		full := requests.Hold()
		full.Take(1 << 20)
		c := l.dial(t)
		sent := make(chan error, 1)
		req := produceOf(batchOf(t, make([]byte, 512<<10), recordbatch.None))
		req.SetVersion(9)
		frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
		go func() {
			_, err := c.Write(frame)
			sent <- err
		}()
		time.Sleep(20 * time.Second) // of the bubble
		if len(sent) > 0 {
			t.Error("the request was read without memory")
		}
		ask[*kmsg.ApiVersionsResponse](l.dial(t), apiVersions(), 3) // small ones are served
		full.Release()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		c.produced()
		synctest.Wait()
		if used := memory.Stats()[0].Used; used != 0 {
			t.Errorf("%d bytes are used", used)
		}
		full.Take(1 << 20)
		defer full.Release()
		begin := time.Now()
		if _, err := c.Write(frame); err == nil || time.Since(begin) != 30*time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		synctest.Wait()
		if s := statsOf(t, memory, "kafka requests"); s.Refused != 1 || !strings.Contains(text.String(), "no memory for") {
			t.Errorf("%+v: %s", s, &text)
		}
	})
}

// A request that is larger than the whole budget is refused at once.
func TestRequestLargerThanTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		c := piped(t, &kafka.Options{MaxRequest: 8 << 20, Memory: budget.New("process", 1<<20), Logger: slog.New(slog.NewTextHandler(&text, nil))}, nil)
		if _, err := c.Write(binary.BigEndian.AppendUint32(nil, 2<<20)); err != nil {
			t.Fatal(err)
		}
		c.closed()
		synctest.Wait()
		if !strings.Contains(text.String(), "2097152 bytes: want 8 to 1048576") {
			t.Error(&text)
		}
	})
}

// A client that stops in the middle of a request is disconnected when others wait.
func TestRequestsThatStopAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := budget.New("process", 1<<20)
		l := pipedServer(t, &kafka.Options{MaxRequest: 1 << 20, WriteTimeout: time.Hour, Memory: memory}, nil)
		stops, waits := l.dial(t), l.dial(t)
		if _, err := stops.Write(append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, 600<<10)...)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(strings.Repeat("x", 30_000))}}
		var names []kmsg.MetadataRequestTopic
		for range 12 {
			names = append(names, req.Topics[0])
		}
		req.Topics = names
		ask[*kmsg.MetadataResponse](waits, req, 4)
		if took := time.Since(begin); took != budget.Patience {
			t.Errorf("it took %s", took)
		}
		stops.closed()
	})
}

// A member that waits for the others of its group loses its connection when others need the
// memory of its request.
func TestJoinsThatWaitGiveMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stocked(t, 0, 0)
		memory := budget.New("process", 1<<20)
		l := pipedOn(t, log, &kafka.Options{MaxRequest: 1 << 20, Memory: memory}, nil)
		join := func(metadata int) *kmsg.JoinGroupRequest {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Group, req.ProtocolType = "g", "consumer"
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 600_000, 600_000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, metadata)}}
			return req
		}
		if resp := ask[*kmsg.JoinGroupResponse](l.dial(t), join(10), 3); resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		waits, needs := l.dial(t), l.dial(t)
		waits.send(join(1<<20-10<<10), 3) // for the first member to join again; nearly all memory is its own
		synctest.Wait()
		begin := time.Now()
		needs.send(produceOf(batchOf(t, make([]byte, 512<<10), recordbatch.None)), 9)
		needs.produced()
		if took := time.Since(begin); took != budget.Patience {
			t.Errorf("it took %s", took)
		}
		waits.closed()
		synctest.Wait()
		if used := memory.Stats()[0].Used; used != 0 {
			t.Errorf("%d bytes are used", used)
		}
	})
}

// A large answer to a small request waits for memory, too, and is dropped meanwhile.
func TestLargeAnswersWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := testengines.Memory(t)
		topics, err := topic.Open(log, &topic.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topics.Create(t.Context(), "t", topic.Spec{Partitions: 5000}); err != nil {
			t.Fatal(err)
		}
		if err := topics.Close(); err != nil {
			t.Fatal(err)
		}
		memory := budget.New("process", 1<<20)
		s, l := pipedBy(t, log, &kafka.Options{MaxRequest: 1 << 20, Memory: memory}, nil)
		_, answers := s.Budgets()
		full := answers.Hold()
		full.Take(1 << 20)
		c := l.dial(t)
		c.send(kmsg.NewPtrMetadataRequest(), 4)
		time.Sleep(time.Second) // of the bubble
		if s := statsOf(t, memory, "kafka answers"); s.Waiting != 1 || s.Used != 1<<20 {
			t.Errorf("%+v", s)
		}
		full.Release()
		n := c.begins()
		if s := statsOf(t, memory, "kafka answers"); s.Used < int64(n) {
			t.Errorf("an answer of %d bytes: %+v", n, s)
		}
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		full.Take(1 << 20)
		defer full.Release()
		c.send(kmsg.NewPtrMetadataRequest(), 4)
		begin := time.Now()
		c.closed()
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// A batch that takes much memory to decompress waits for it. Without memory, the producer gets
// an error upon which it tries again, and then the batch is stored.
func TestBatchesThatExpand(t *testing.T) {
	packed := batchOf(t, make([]byte, 8<<20), recordbatch.Zstd) // the encoder of a process, with its channels, must not be made in a bubble
	synctest.Test(t, func(t *testing.T) {
		log := testengines.Memory(t)
		memory := budget.New("process", 24<<20)
		decompression := memory.Child("decompression", 0)
		topics, err := topic.Open(log, &topic.Options{Every: -1, Memory: decompression})
		if err != nil {
			t.Fatal(err)
		}
		s, err := kafka.Open(t.Context(), topics, &kafka.Options{MaxRequest: 1 << 20, Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l, nil) }()
		defer func() {
			if err := errors.Join(s.Shutdown(context.Background()), <-ended, topics.Close()); err != nil {
				t.Error(err)
			}
		}()
		if _, err := topics.Create(t.Context(), "t", topic.Spec{Config: map[string]string{topic.CleanupPolicy: "compact"}}); err != nil {
			t.Fatal(err)
		}
		req := produceOf(packed)
		full := decompression.Hold()
		full.Take(20 << 20)
		if p := ask[*kmsg.ProduceResponse](l.dial(t), req, 9).Topics[0].Partitions[0]; p.ErrorCode != 56 { // KAFKA_STORAGE_ERROR
			t.Errorf("%+v", p)
		}
		full.Release()
		var producers []*raw
		for range 8 {
			c := l.dial(t)
			c.send(req, 9)
			producers = append(producers, c)
		}
		for _, c := range producers {
			c.produced()
		}
		synctest.Wait()
		if used := memory.Stats()[0].Used; used != 0 {
			t.Errorf("%d bytes are used", used)
		}
	})
}
