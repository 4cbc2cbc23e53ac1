package kafka_test

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// pipes is a listener of connections within the process, for tests of time.
type pipes struct{ *testkit.Pipes }

func newPipes() *pipes { return &pipes{testkit.NewPipes()} }

func (p *pipes) dial(t testing.TB) *raw {
	t.Helper()
	ours, err := p.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	return &raw{t: t, Conn: ours}
}

// piped returns a connection to a server of its own, within the process.
func piped(t *testing.T, o *kafka.Options, as *kafka.Listener) *raw {
	t.Helper()
	return pipedServer(t, o, as).dial(t)
}

func pipedServer(t *testing.T, o *kafka.Options, as *kafka.Listener) *pipes {
	t.Helper()
	return pipedOn(t, testengines.Memory(t), o, as)
}

// pipedOn serves a log within the process.
func pipedOn(t *testing.T, log mainstem.Log, o *kafka.Options, as *kafka.Listener) *pipes {
	t.Helper()
	_, l := pipedBy(t, log, o, as)
	return l
}

// pipedBy serves a log within the process, and returns the server, too.
func pipedBy(t *testing.T, log mainstem.Log, o *kafka.Options, as *kafka.Listener) (*kafka.Server, *pipes) {
	t.Helper()
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := kafka.Open(t.Context(), topics, o)
	if err != nil {
		t.Fatal(err)
	}
	l := newPipes()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, as) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := topics.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, l
}

func TestSilentClientsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle, slow = 10 * time.Minute, 30 * time.Second
		l := pipedServer(t, nil, nil)
		begin := time.Now()
		l.dial(t).closed()
		if took := time.Since(begin); took != idle {
			t.Errorf("a client without a request was served for %s", took)
		}
		begin = time.Now()
		c := l.dial(t)
		if _, err := c.Write([]byte{0, 0, 1, 0, 0}); err != nil { // 1 of 256 bytes
			t.Fatal(err)
		}
		c.closed()
		if took := time.Since(begin); took < slow || took > slow+time.Second {
			t.Errorf("a client that does not finish its request was served for %s", took)
		}
	})
}

func TestClientThatDoesNotReadIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := piped(t, nil, nil)
		begin := time.Now()
		c.send(apiVersions(), 3) // a pipe holds nothing: the answer waits for a reader
		time.Sleep(31 * time.Second)
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after %s it still answers: %d bytes, %v", time.Since(begin), n, err)
		}
	})
}

// lies are small requests that claim large counts, by the count that is wrong.
func lies() map[string][]byte {
	head := func(key kmsg.Key, version int16, tags ...byte) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = append(b, 0, 0, 0, 1, 0xff, 0xff)
		return append(b, tags...)
	}
	many := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	return map[string][]byte{
		"topics of metadata":         append(head(kmsg.Metadata, 1), 0x7f, 0xff, 0xff, 0xff),
		"topics, compact":            append(append(head(kmsg.Metadata, 9, 0), 0xff, 0xff, 0xff, 0xff, 0x07), make([]byte, 100)...),
		"tags of the header":         head(kmsg.Metadata, 9, many...),
		"tags of the body":           append(append(head(kmsg.ApiVersions, 3, 0), 2, 'x', 2, '1'), many...),
		"length of a name":           append(head(kmsg.FindCoordinator, 0), 0x7f, 0xff),
		"partitions of produce":      append(head(kmsg.Produce, 3), 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 'a', 0x7f, 0xff, 0xff, 0xff),
		"length of a client ID":      {0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff},
		"an API that does not exist": head(999, 0),
		"a version of the future":    head(kmsg.Metadata, 99),
	}
}

// A client that sends wrong counts is disconnected, and costs neither memory nor other
// clients anything.
func TestLyingClientsAreClosed(t *testing.T) {
	b := start(t, nil, nil)
	other := b.raw(t)
	for name, lie := range lies() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := b.raw(t)
			if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(lie))), lie...)); err != nil {
				t.Fatal(err)
			}
			c.closed()
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
				t.Errorf("%d bytes of lies took %d bytes of memory", len(lie), took)
			}
			ask[*kmsg.ApiVersionsResponse](other, apiVersions(), 3)
		})
	}
}

// A large request of many small elements may not take more memory than a request may
// be large.
func TestAmplificationIsBounded(t *testing.T) {
	b := start(t, &kafka.Options{MaxRequest: 1 << 20}, nil)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = make([]kmsg.MetadataRequestTopic, 100_000) // 2 bytes each
	for i := range req.Topics {
		req.Topics[i].Topic = kmsg.StringPtr("")
	}
	c := b.raw(t)
	c.send(req, 4)
	c.closed()
}

func TestSizesOfRequests(t *testing.T) {
	b := start(t, &kafka.Options{MaxRequest: 1 << 20}, nil)
	for _, size := range []uint32{0, 7, 1<<20 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		c := b.raw(t)
		if _, err := c.Write(binary.BigEndian.AppendUint32(nil, size)); err != nil {
			t.Fatal(err)
		}
		c.closed()
	}
}

// Clients that announce large requests and send nothing do not delay others.
func TestAnnouncedRequestsHoldNothing(t *testing.T) {
	const limit = 8 << 20
	b := start(t, &kafka.Options{MaxRequest: limit, MaxInFlight: limit}, nil)
	for range 100 {
		if _, err := b.raw(t).Write(binary.BigEndian.AppendUint32(nil, limit)); err != nil {
			t.Fatal(err)
		}
	}
	c := b.raw(t)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = make([]kmsg.MetadataRequestTopic, 10_000)
	for i := range req.Topics {
		req.Topics[i].Topic = kmsg.StringPtr("no-such-topic-of-a-long-name")
	}
	req.Topics = append(req.Topics[:0], req.Topics[:2000]...)
	ask[*kmsg.MetadataResponse](c, req, 4)
}

func TestTooManyConnections(t *testing.T) {
	b := start(t, &kafka.Options{MaxConnections: 2}, nil)
	first, second := b.raw(t), b.raw(t)
	ask[*kmsg.ApiVersionsResponse](first, apiVersions(), 3)
	ask[*kmsg.ApiVersionsResponse](second, apiVersions(), 3)
	b.raw(t).closed()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// A place is free once the server has seen that the first is gone.
	testkit.Eventually(t, "a place is free", func() bool {
		c := b.raw(t)
		defer c.Close()
		c.send(apiVersions(), 3)
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	})
	ask[*kmsg.ApiVersionsResponse](second, apiVersions(), 3)
}

// fetchAll is a fetch of all that fits.
func fetchAll(name string) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes = -1, 64<<20
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 64 << 20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: name, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

// A request that names a topic again and again gets one answer.
func TestMetadataDoesNotRepeat(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 100)
	req := kmsg.NewPtrMetadataRequest()
	for range 1000 {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("t")})
	}
	if got := len(ask[*kmsg.MetadataResponse](b.raw(t), req, 4).Topics); got != 1 {
		t.Errorf("%d answers", got)
	}
}

// A fetch waits for at most IdleTimeout, even if its maximum wait is weeks.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 3 * time.Minute
		log := testengines.Memory(t)
		topics, err := topic.Open(log, &topic.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topics.Create(t.Context(), "t", topic.Spec{}); err != nil {
			t.Fatal(err)
		}
		if err := topics.Close(); err != nil {
			t.Fatal(err)
		}
		c := pipedOn(t, log, &kafka.Options{IdleTimeout: idle}, nil).dial(t)
		begin := time.Now()
		req := fetchAll("t")
		req.MaxWaitMillis, req.MinBytes = math.MaxInt32, 1
		if resp := ask[*kmsg.FetchResponse](c, req, 4); resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Errorf("%+v", resp)
		}
		if took := time.Since(begin); took != idle {
			t.Errorf("it waited for %s", took)
		}
	})
}

// APIs that are not served are not advertised. Those of ACLs and quotas are advertised and
// refused, see TestACLs and TestClientQuotas.
func TestNotOffered(t *testing.T) {
	c := start(t, nil, nil).raw(t)
	for _, k := range ask[*kmsg.ApiVersionsResponse](c, apiVersions(), 3).ApiKeys {
		switch kmsg.Key(k.ApiKey) {
		case kmsg.CreateDelegationToken, kmsg.DescribeDelegationToken, kmsg.ShareFetch, kmsg.ShareGroupHeartbeat, kmsg.PushTelemetry:
			t.Errorf("%s is offered", kmsg.Key(k.ApiKey).Name())
		}
	}
}
