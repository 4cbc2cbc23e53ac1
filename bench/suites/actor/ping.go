package actor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mainstemdev/mainstem/bench/suite"
)

func pingEntry(name string, f Factory, network bool, pairs, burst int) suite.Entry {
	return suite.Entry{
		Case: name, About: "one message from sender to receiver, of bursts of " + strconv.Itoa(burst) + " for each of " + strconv.Itoa(pairs) + " pairs",
		Op: "message", Clients: pairs,
		Start: func(ctx context.Context, _ *suite.Env) (*suite.Round, error) {
			sinks := Sinks(pairs)
			p, err := f.Ping(ctx, network, sinks)
			if err != nil {
				return nil, err
			}
			r := &suite.Round{
				Run: func(ctx context.Context, n int, _ *suite.Recorder) error {
					for n > 0 {
						part := min(n, burst*pairs)
						if err := ping(ctx, p, sinks, part); err != nil {
							return err
						}
						n -= part
					}
					return nil
				},
				Check: func(context.Context) error { return checkNoneTooMany(sinks) },
				Close: p.Close,
			}
			if err := ping(ctx, p, sinks, 10*pairs); err != nil { // connected
				return nil, closed(p, err)
			}
			return r, nil
		},
	}
}

// ping sends n messages in one burst and waits for all.
func ping(ctx context.Context, p Pinger, sinks []*Sink, n int) error {
	counts := make([]int, len(sinks))
	for i := range counts {
		counts[i] = n / len(sinks)
		if i < n%len(sinks) {
			counts[i]++
		}
	}
	expect(sinks, counts)
	if err := p.Burst(ctx, counts); err != nil {
		return err
	}
	return await(ctx, sinks)
}

func askEntry(name string, f Factory, network bool) suite.Entry {
	return suite.Entry{
		Case: name, About: "one question and its answer", Op: "question",
		Start: func(ctx context.Context, _ *suite.Env) (*suite.Round, error) {
			a, err := f.Ask(ctx, network)
			if err != nil {
				return nil, err
			}
			v := 0 // never the same question twice
			r := &suite.Round{
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) error {
						v++
						return ask(ctx, a, v)
					})
				},
				Close: a.Close,
			}
			if err := ask(ctx, a, v); err != nil { // connected
				return nil, closed(a, err)
			}
			return r, nil
		},
	}
}

func ask(ctx context.Context, a Asker, v int) error {
	got, err := a.Ask(ctx, v)
	if err == nil && got != v+1 {
		err = fmt.Errorf("asked %d, the answer is %d, want %d", v, got, v+1)
	}
	return err
}
