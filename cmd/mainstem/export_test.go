package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

// TestInterruptedExportSaysWhereToGoOn: both parts together are all events, each once.
func TestInterruptedExportSaysWhereToGoOn(t *testing.T) {
	n := startNode(t)
	store, err := event.Open(n.Log(), "events", nil)
	if err != nil {
		t.Fatal(err)
	}
	const events = 3000
	for i := range events / 100 {
		batch := make([]event.Event, 100)
		for j := range batch {
			batch[j] = event.Event{Type: "A", Data: fmt.Append(nil, i*100+j)}
		}
		if _, err := store.Append(t.Context(), fmt.Sprintf("s-%d", i%7), event.AnyVersion, batch); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	out, in := io.Pipe()
	done := make(chan result, 1)
	go func() {
		r := run(ctx, func(m *cli.Main) { m.Stdout = in }, "event", "export", "--log", n.URL())
		in.Close()
		done <- r
	}()
	var lines []string
	for scan := bufio.NewScanner(out); scan.Scan(); {
		if lines = append(lines, scan.Text()); len(lines) == 10 {
			cancel(cli.ErrInterrupted)
		}
	}
	first := <-done
	if first.status != cli.ExitInterrupted || len(lines) == events {
		t.Fatalf("%d lines: %+v", len(lines), first)
	}
	i := strings.Index(first.errors, "go on with --after ")
	var after uint64
	if i < 0 {
		t.Fatalf("it does not say where to go on: %q", first.errors)
	}
	if _, err := fmt.Sscanf(first.errors[i:], "go on with --after %d", &after); err != nil {
		t.Fatal(err)
	}
	rest := run(t.Context(), nil, "event", "export", "--log", n.URL(), "--after", fmt.Sprint(after))
	if rest.status != cli.ExitOK {
		t.Fatalf("%+v", rest)
	}
	lines = append(lines, strings.Split(strings.TrimSpace(rest.out), "\n")...)
	if len(lines) != events {
		t.Fatalf("%d events in both parts", len(lines))
	}
	for i, line := range lines {
		var e struct{ Data string }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Data != fmt.Sprint(i) {
			t.Fatalf("event %d is %s: %v", i, line, err)
		}
	}
}

// TestAPersonAgreesToWhatWasShown: events that come in between are not deleted.
func TestAPersonAgreesToWhatWasShown(t *testing.T) {
	n := startNode(t)
	store, err := event.Open(n.Log(), "events", nil)
	if err != nil {
		t.Fatal(err)
	}
	add := func() {
		if _, err := store.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{{Type: "A"}}); err != nil {
			t.Error(err)
		}
	}
	add()
	line := []string{"event", "delete", "order-1", "--log", n.URL()}
	person := func(in io.Reader) func(*cli.Main) {
		return func(m *cli.Main) { m.Stdin, m.Terminal, m.Person = in, true, true }
	}
	if r := run(t.Context(), person(strings.NewReader("no\n")), line...); r.status != cli.ExitFailed || !strings.Contains(r.errors, "nothing was changed") {
		t.Errorf("refused: %+v", r)
	}
	r := run(t.Context(), person(readerFunc(func(b []byte) (int, error) {
		add() // after the question, and before the answer
		return copy(b, "yes\n"), nil
	})), line...)
	if r.status != cli.ExitConflict || !strings.Contains(r.errors, "this would delete order-1 of the store events: 1 event\nType yes to go on: ") {
		t.Errorf("after another event came: %+v", r)
	}
	if r := run(t.Context(), person(strings.NewReader("yes\n")), line...); r.status != cli.ExitOK {
		t.Errorf("agreed: %+v", r)
	}
	if in, err := store.StreamInfo(t.Context(), "order-1"); err != nil || !in.Deleted {
		t.Errorf("%+v, %v", in, err)
	}
}

// readerFunc is a reader made of its method.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
