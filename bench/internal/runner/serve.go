package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Serve runs entries for another process until in ends: what the process of a
// contender does. A contender must not write to out; the end of in cancels what it
// is doing.
func Serve(ctx context.Context, in io.Reader, out io.Writer, suites []suite.Suite, log *slog.Logger) error {
	l := NewLocal(suites, log)
	l.spawns = true
	replies := json.NewEncoder(out)
	if err := replies.Encode(reply{Version: protocolVersion}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := make(chan request)
	go func() {
		defer close(requests)
		defer cancel()
		for d := json.NewDecoder(in); ; {
			var r request
			if d.Decode(&r) != nil {
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	for r := range requests {
		if err := replies.Encode(l.answer(ctx, r)); err != nil {
			return err
		}
	}
	return l.Close()
}

func (l *Local) answer(ctx context.Context, r request) reply {
	var a reply
	var err error
	switch {
	case r.Open != nil:
		err = l.Open(ctx, *r.Open)
	case r.Round != nil:
		var m Measured
		if m, err = l.Round(ctx, *r.Round); err == nil {
			a.Measured = &m
		}
	default:
		err = l.Shut(ctx)
	}
	if err != nil {
		a.Failure = failure(err)
	}
	return a
}

// ServeServer starts one of the servers of suites with its files in dir, writes its
// address to out, and stops it when in ends: what the process of a server does.
func ServeServer(ctx context.Context, name, dir string, in io.Reader, out io.Writer, suites []suite.Suite) error {
	for _, s := range suites {
		for _, server := range s.Servers {
			if server.Name != name {
				continue
			}
			address, stop, err := server.Start(ctx, dir)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(out, address); err != nil {
				return stop()
			}
			_, _ = io.Copy(io.Discard, in) // until the process that started it closes it, or is gone
			return stop()
		}
	}
	return fmt.Errorf("there is no server %q", name)
}
