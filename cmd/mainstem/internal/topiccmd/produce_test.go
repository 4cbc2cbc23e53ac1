package topiccmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
)

// brokenLog is a log whose commits fail once broken is set.
type brokenLog struct {
	mainstem.Log
	broken error
}

func (l *brokenLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if l.broken != nil {
		return mainstem.Receipt{}, l.broken
	}
	return l.Log.Commit(ctx, b)
}

// produced is what became of the lines of an input.
type produced struct {
	out, errors string
	err         error
}

// produceInto writes the lines of in to a topic whose messages have at most 1000 bytes. broken is the
// error of every commit, nil for none.
func produceInto(ctx context.Context, t *testing.T, in io.Reader, broken error) produced {
	t.Helper()
	memory, err := server.OpenLog(t.Context(), server.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	log := &brokenLog{Log: memory}
	c, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	to, err := c.Create(t.Context(), "lines", topic.Spec{Partitions: 1, Config: map[string]string{"max.message.bytes": "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := to.Producer(nil)
	if err != nil {
		t.Fatal(err)
	}
	maker, err := (&produceFlags{maxLine: "1MiB", compression: "none"}).parse(false)
	if err != nil {
		t.Fatal(err)
	}
	log.broken = broken
	var out, errs strings.Builder
	m := commands{&cli.Main{Stdin: in, Stderr: &errs, Out: bufio.NewWriter(&out)}}
	err = m.produce(ctx, "lines", p, maker, nil, false)
	if ferr := m.Flush(); ferr != nil {
		t.Fatal(ferr)
	}
	return produced{out.String(), errs.String(), err}
}

// TestProduceReportsAnOutageBehindABadLine: a line that can never be written hides nothing.
func TestProduceReportsAnOutageBehindABadLine(t *testing.T) {
	full := mainstem.Refusef(mainstem.KindUnavailable, "commit", "the disk is full")
	r := produceInto(t.Context(), t, strings.NewReader(strings.Repeat("x", 2000)+"\nsecond\n"), full)
	if !errors.Is(r.err, full) || !strings.Contains(r.err.Error(), "line 2: ") || !strings.HasPrefix(r.errors, "line 1: ") {
		t.Errorf("%v and %q, want %v of line 2 and a bad line 1", r.err, r.errors, full)
	}
	if r.out != "0 records, 1 bad lines, 1 failed\n" {
		t.Errorf("counted %q", r.out)
	}
}

// TestInterruptedProduceSaysWhereToGoOn: what it took of its input is sent, and the line behind that named.
func TestInterruptedProduceSaysWhereToGoOn(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	go func() {
		for i := range 6 {
			fmt.Fprintln(feed, i) // returns when it has been read
		}
		cancel(cli.ErrInterrupted)
	}()
	r := produceInto(ctx, t, in, nil)
	var own cli.Resumable
	if !errors.As(r.err, &own) || !errors.Is(r.err, mainstem.ErrCanceled) || !errors.Is(r.err, cli.ErrInterrupted) {
		t.Fatalf("%v does not say where to go on", r.err)
	}
	var written, next int
	if _, err := fmt.Sscanf(r.out, "%d records", &written); err != nil {
		t.Fatalf("%v in %q", err, r.out)
	}
	text := r.err.Error()
	if _, err := fmt.Sscanf(text[strings.Index(text, "before line"):], "before line %d", &next); err != nil || next != written+1 {
		t.Errorf("%d records, and then: %s, %v", written, text, err)
	}
}
