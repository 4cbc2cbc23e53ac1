package stream

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// frameTopic and the sizes below are those of the workloads that others have published.
const frameTopic = "test-topic"

// frame is a request that is encoded and decoded.
type frame struct {
	name string
	ms   []Message
}

// frames returns the produce requests, each with another that differs in every byte.
func frames() []frame {
	small := func(key, value string) []Message { return []Message{{[]byte(key), []byte(value)}} }
	many := make([]Message, 100)
	for i := range many {
		many[i].Value = slices.Clone(newStamped(i, 1, 0, 100).batch()[0].Value)
	}
	return []frame{{"produce-1", small("key", "value")}, {"produce-100", many}}
}

// fetches are the fetch request that is measured and one that keeps contenders honest.
var fetches = []Fetch{{frameTopic, 100, 1 << 20}, {"other", 1 << 40, 1}}

func protocolEntries(f Factory) []suite.Entry {
	var entries []suite.Entry
	add := func(name, about string, items int, start func() (*suite.Round, error)) {
		entries = append(entries, suite.Entry{
			Case: "protocol/" + name, About: about, Op: "message", Items: items, Durability: suite.None, Transport: suite.InProcess,
			Start: func(context.Context, *suite.Env) (*suite.Round, error) { return start() },
		})
	}
	for _, fr := range frames() {
		add("encode-"+fr.name, "encode a request to produce", len(fr.ms), func() (*suite.Round, error) { return encodeProduce(f, fr.ms) })
		add("decode-"+fr.name, "decode a request to produce, and each of its messages", len(fr.ms), func() (*suite.Round, error) { return decodeProduce(f, fr.ms) })
	}
	add("encode-fetch", "encode a request to fetch", 1, func() (*suite.Round, error) { return encodeFetch(f) })
	add("decode-fetch", "decode a request to fetch", 1, func() (*suite.Round, error) { return decodeFetch(f) })
	return entries
}

// loop runs op n times and records each.
func loop(n int, rec *suite.Recorder, op func() error) error {
	w := rec.Worker()
	for range n {
		began := w.Begin()
		if err := op(); err != nil {
			return err
		}
		w.End(began)
	}
	return nil
}

func encodeProduce(f Factory, ms []Message) (*suite.Round, error) {
	p, err := f.Protocol()
	if err != nil {
		return nil, err
	}
	if err := honest(p, ms); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, 64<<10)
	var out []byte
	return &suite.Round{
		Run: func(_ context.Context, n int, rec *suite.Recorder) error {
			return loop(n, rec, func() (err error) {
				out, err = p.AppendProduce(buf[:0], frameTopic, ms)
				return err
			})
		},
		Check:   func(context.Context) error { return produces(f, out, ms) },
		Metrics: sizeOf(&out),
	}, nil
}

// honest encodes and decodes other messages than those that are measured.
func honest(p Protocol, ms []Message) error {
	other := make([]Message, len(ms))
	for i, m := range ms {
		other[i].Key = bytes.ToUpper(m.Key)
		other[i].Value = append([]byte("other"), m.Value...)
		if m.Key == nil {
			other[i].Key = nil
		}
	}
	b, err := p.AppendProduce(nil, "other", other)
	if err != nil {
		return err
	}
	return reads(p, slices.Clone(b), "other", other)
}

// produces decodes a frame with a new contender.
func produces(f Factory, b []byte, ms []Message) error {
	p, err := f.Protocol()
	if err != nil {
		return err
	}
	return reads(p, slices.Clone(b), frameTopic, ms)
}

// reads fails unless b decodes to the messages.
func reads(p Protocol, b []byte, topic string, ms []Message) error {
	i := 0
	got, err := p.ReadProduce(b, func(m Message) error {
		if i >= len(ms) || !bytes.Equal(m.Key, ms[i].Key) || !bytes.Equal(m.Value, ms[i].Value) || (m.Key == nil) != (ms[i].Key == nil) {
			return fmt.Errorf("message %d is not what was encoded", i)
		}
		i++
		return nil
	})
	if err == nil && (got != topic || i != len(ms)) {
		err = fmt.Errorf("decoded %d messages for topic %q, want %d for %q", i, got, len(ms), topic)
	}
	return err
}

func decodeProduce(f Factory, ms []Message) (*suite.Round, error) {
	p, err := f.Protocol()
	if err != nil {
		return nil, err
	}
	if err := honest(p, ms); err != nil {
		return nil, err
	}
	src, err := p.AppendProduce(nil, frameTopic, ms)
	if err != nil {
		return nil, err
	}
	src = slices.Clone(src)
	payload := 0
	for _, m := range ms {
		payload += len(m.Key) + len(m.Value)
	}
	return &suite.Round{
		Run: func(_ context.Context, n int, rec *suite.Recorder) error {
			got := 0
			count := func(m Message) error { got += len(m.Key) + len(m.Value); return nil }
			err := loop(n, rec, func() error {
				_, err := p.ReadProduce(src, count)
				return err
			})
			if err == nil && got != n*payload {
				err = fmt.Errorf("decoded %d bytes of messages, want %d", got, n*payload)
			}
			return err
		},
		Check:   func(context.Context) error { return reads(p, src, frameTopic, ms) },
		Metrics: sizeOf(&src),
	}, nil
}

func encodeFetch(f Factory) (*suite.Round, error) {
	p, err := f.Protocol()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 0, 1<<10)
	var out []byte
	return &suite.Round{
		Run: func(_ context.Context, n int, rec *suite.Recorder) error {
			return loop(n, rec, func() (err error) {
				out, err = p.AppendFetch(buf[:0], fetches[0])
				return err
			})
		},
		Check:   func(context.Context) error { return fetchesBack(p, out) },
		Metrics: sizeOf(&out),
	}, nil
}

// fetchesBack fails unless b is the first of fetches, and the other survives too.
func fetchesBack(p Protocol, b []byte) error {
	frames := [][]byte{slices.Clone(b), nil}
	other, err := p.AppendFetch(nil, fetches[1])
	if err != nil {
		return err
	}
	frames[1] = other
	for i, b := range frames {
		got, err := p.ReadFetch(b)
		if err != nil {
			return err
		}
		if got != fetches[i] {
			return fmt.Errorf("decoded %+v, want %+v", got, fetches[i])
		}
	}
	return nil
}

func decodeFetch(f Factory) (*suite.Round, error) {
	p, err := f.Protocol()
	if err != nil {
		return nil, err
	}
	src, err := p.AppendFetch(nil, fetches[0])
	if err != nil {
		return nil, err
	}
	src = slices.Clone(src)
	return &suite.Round{
		Run: func(_ context.Context, n int, rec *suite.Recorder) error {
			return loop(n, rec, func() error {
				got, err := p.ReadFetch(src)
				if err == nil && got != fetches[0] {
					err = fmt.Errorf("decoded %+v, want %+v", got, fetches[0])
				}
				return err
			})
		},
		Check:   func(context.Context) error { return fetchesBack(p, src) },
		Metrics: sizeOf(&src),
	}, nil
}

func sizeOf(frame *[]byte) func(context.Context) ([]suite.Metric, error) {
	return func(context.Context) ([]suite.Metric, error) {
		return []suite.Metric{{Name: "frame", Unit: "B", Value: float64(len(*frame))}}, nil
	}
}
