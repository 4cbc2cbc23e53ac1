package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endToEnd sends 500 records a second and times each until it is consumed.
func endToEnd(ctx context.Context, o *options, b *broker) (result, error) {
	p, err := newClient(b, kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(0))
	if err != nil {
		return result{}, err
	}
	defer p.Close()
	if err := createTopic(ctx, p, 1); err != nil {
		return result{}, err
	}
	c, err := newClient(b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return result{}, err
	}
	defer c.Close()
	warm, n := int(200*o.scale), int(5000*o.scale)
	failed := make(chan error, 1)
	begin := time.Now()
	sending := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		<-sending
	}()
	go func() {
		defer close(sending)
		pace(ctx, p, begin, warm+n, failed)
	}()
	h := newHistogram()
	for got := 0; got < warm+n; {
		fetches := c.PollFetches(ctx)
		now := time.Since(begin)
		if err := fetches.Err(); err != nil {
			return result{}, err
		}
		select {
		case err := <-failed:
			return result{}, err
		default:
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if got++; got > warm {
				_ = h.RecordValue(int64(now) - int64(binary.BigEndian.Uint64(r.Value)))
			}
		})
	}
	return result{rate: float64(warm+n) / time.Since(begin).Seconds(), h: h}, nil
}

// pace sends n records that say when, 2 ms apart, and the first error to failed.
func pace(ctx context.Context, p *kgo.Client, begin time.Time, n int, failed chan<- error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		value := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(time.Since(begin)))
		p.Produce(ctx, &kgo.Record{Value: value[:100]}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
}

// coldStart times from the start of the process to the first record that is
// acknowledged by all, with an empty directory. The result is milliseconds.
func coldStart(ctx context.Context, o *options, b *broker) (result, error) {
	h := newHistogram()
	for range max(1, int(10*o.scale)) {
		begin := time.Now()
		fresh, err := start(ctx, o, "mainstem")
		if err != nil {
			return result{}, err
		}
		cl, err := newClient(fresh)
		if err == nil {
			err = createTopic(ctx, cl, 1)
		}
		if err == nil {
			err = cl.ProduceSync(ctx, &kgo.Record{Value: []byte("v")}).FirstErr()
			_ = h.RecordValue(int64(time.Since(begin)))
		}
		if cl != nil {
			cl.Close()
		}
		fresh.stop()
		if err != nil {
			return result{}, err
		}
	}
	return result{rate: h.Mean() / 1e6, h: h}, nil
}

// idle opens 1,000 connections that have said hello, to a broker with 1,000
// partitions that each have a record. The result is how much of a processor the
// broker uses.
func idle(ctx context.Context, o *options, b *broker) (result, error) {
	const connections, partitions = 1000, 1000
	watch := max(time.Duration(5*o.scale*float64(time.Second)), 100*time.Millisecond)
	cl, err := newClient(b, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return result{}, err
	}
	if err := createTopic(ctx, cl, partitions); err != nil {
		return result{}, err
	}
	records := make([]*kgo.Record, partitions)
	for i := range records {
		records[i] = &kgo.Record{Value: []byte("v")}
	}
	err = cl.ProduceSync(ctx, records...).FirstErr()
	cl.Close()
	if err != nil {
		return result{}, err
	}
	for range connections {
		c, err := hello(b.address)
		if err != nil {
			return result{}, err
		}
		defer c.Close()
	}
	before, err := b.cpu()
	if err != nil {
		return result{}, err
	}
	quiet := time.NewTimer(watch)
	defer quiet.Stop()
	select {
	case <-quiet.C:
	case <-ctx.Done():
		return result{}, ctx.Err()
	}
	after, err := b.cpu()
	return result{rate: 100 * float64(after-before) / float64(watch)}, err
}

// hello opens a connection and asks for the versions, as every client does first.
func hello(address string) (net.Conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "speed", "1"
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("speed")).AppendRequest(nil, req, 1)
	if _, err := c.Write(frame); err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size))); err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	return c, nil
}
