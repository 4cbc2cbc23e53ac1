package omnirest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func serveAlerts(t *testing.T) (*alert.Server, http.Handler) {
	t.Helper()
	server, err := alert.Open(t.Context(), testengines.Memory(t), &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	h, err := omnibus.New(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return server, h
}

func run(t *testing.T, server *alert.Server, statement string) {
	t.Helper()
	if _, err := server.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestChanges(t *testing.T) {
	server, h := serveAlerts(t)
	run(t, server, "insert into alerts.status (Identifier, Node, Severity) values ('a', 'web1', 5)")
	c := connect(t, h, nil)

	// The rows that are there, then what comes: a change, and a deletion.
	step, last := 0, uint64(0)
	for change, err := range c.Changes(t.Context(), "alerts.status", &ChangeOptions{Since: time.Unix(1, 0), Columns: []string{"Severity"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if change.Row.Text("Identifier") != "a" {
			t.Fatalf("step %d: %s", step, change.Row.Raw())
		}
		switch step {
		case 0:
			if change.ID != 0 || change.Deleted || change.Row.Int("Severity") != 5 || change.Row.Text("Node") != "" {
				t.Errorf("the row that is there: %+v %s", change, change.Row.Raw())
			}
			run(t, server, "update alerts.status set Severity = 3 where Identifier = 'a'")
		case 1:
			if change.ID == 0 || change.Deleted || change.Row.Int("Severity") != 3 {
				t.Errorf("the change: %+v %s", change, change.Row.Raw())
			}
			last = change.ID
			run(t, server, "delete from alerts.status where Identifier = 'a'")
		case 2:
			if change.ID <= last || !change.Deleted {
				t.Errorf("the deletion: %+v %s", change, change.Row.Raw())
			}
		}
		if step++; step == 3 {
			break
		}
	}

	// A client that comes again misses nothing.
	for change, err := range c.Changes(t.Context(), "alerts.status", &ChangeOptions{After: last}) {
		if err != nil || !change.Deleted || change.Row.Text("Identifier") != "a" {
			t.Errorf("after %d: %+v, %v", last, change, err)
		}
		break
	}
}

func TestChangesEnd(t *testing.T) {
	server, h := serveAlerts(t)
	run(t, server, "insert into alerts.status (Identifier) values ('a')")
	run(t, server, "insert into alerts.status (Identifier) values ('b')")
	c := connect(t, h, nil)
	n := 0
	for _, err := range c.Changes(t.Context(), "alerts.status", &ChangeOptions{Since: time.Unix(1, 0), NoFollow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d rows without following", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range c.Changes(ctx, "alerts.status", &ChangeOptions{Since: time.Unix(1, 0)}) {
		if err == nil {
			cancel() // it was the first row, or the second
			continue
		}
		if !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("a context that ended: %v", err)
		}
	}
	first := func(table string, o *ChangeOptions) error {
		for _, err := range c.Changes(t.Context(), table, o) {
			return err
		}
		return nil
	}
	if err := first("alerts.status", &ChangeOptions{After: 1 << 40}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("behind the end of the log: %v", err)
	}
	if err := first("alerts.nothing", nil); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a table that is not there: %v", err)
	}
	if err := first("alerts.status", &ChangeOptions{After: 1, NoFollow: true}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("After and NoFollow: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		for _, err := range c.Changes(t.Context(), "alerts.status", &ChangeOptions{Since: time.Unix(1, 0)}) {
			if err != nil {
				done <- err
				return
			}
			_ = h.(*omnibus.Handler).Close()
		}
	}()
	if err := <-done; !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a server that stops: %v", err)
	}
}

func TestChangesThatMakeNoSense(t *testing.T) {
	for body, want := range map[string]error{
		"event: change\ndata: [1]\n\n":                mainstem.ErrCorrupt,
		"event: change\ndata: {\n\n":                  mainstem.ErrCorrupt,
		"event: change\nid: x\ndata: {}\n\n":          mainstem.ErrCorrupt,
		"event: error\ndata: {\"message\":\"x\"}\n\n": mainstem.ErrUnavailable,
		"event: error\ndata: x\n\n":                   mainstem.ErrCorrupt,
		"event: new\ndata: x\n\n":                     mainstem.ErrUnavailable, // it ends behind what is not known
	} {
		c := connect(t, &scripted{status: 200, body: body, header: map[string]string{"Content-Type": "text/event-stream"}}, nil)
		c.mainstem.Store(1)
		for _, err := range c.Changes(t.Context(), "alerts.status", nil) {
			if !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", body, err, want)
			}
		}
	}
	c := connect(t, &scripted{status: 404}, nil)
	for _, err := range c.Changes(t.Context(), "alerts.status", nil) {
		if !errors.Is(err, mainstem.ErrUnsupported) {
			t.Errorf("a server that is not Mainstem: %v", err)
		}
	}
}
