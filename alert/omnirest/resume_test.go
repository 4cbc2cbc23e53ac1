package omnirest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// replica is a client that keeps a copy of a table by its feed, and comes again whenever
// the feed ends.
type replica struct {
	t     *testing.T
	c     *Client
	rows  map[string]int64
	after uint64 // 0: it begins anew
	last  string // the row that ends the test
	begun int    // how often it began anew
}

// follow reads the feed until it ends or stop says so, and reports whether the last row has come.
func (r *replica) follow(stop func() bool) bool {
	o := &ChangeOptions{After: r.after, Columns: []string{"Severity", "ExtendedAttr"}}
	if r.after == 0 {
		r.begun++
		o.Since = time.Unix(1, 0)
		clear(r.rows)
	}
	o.Ready = func(id uint64) { r.after = id }
	for change, err := range r.c.Changes(r.t.Context(), "alerts.status", o) {
		if err != nil {
			if !errors.Is(err, mainstem.ErrUnavailable) {
				r.t.Fatal(err)
			}
			return false
		}
		id := change.Row.Text("Identifier")
		if change.Deleted {
			delete(r.rows, id)
		} else {
			r.rows[id] = change.Row.Int("Severity")
		}
		if change.ID > 0 {
			r.after = change.ID
		}
		if id == r.last {
			return true
		}
		if stop() {
			return false
		}
	}
	return false
}

// TestReadersThatComeAgain has readers of a feed that begin with Since, are slow, leave, or
// are cut off by the server, everywhere in the feed, while rows come, change and go. In the
// end each has what the table has.
func TestReadersThatComeAgain(t *testing.T) {
	server, err := alert.Open(t.Context(), testengines.Memory(t), &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	h, err := omnibus.New(server, &omnibus.Options{WriteTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { comeAgain(t, server, h, seed) })
	}
}

func comeAgain(t *testing.T, server *alert.Server, h http.Handler, seed uint64) {
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	c, err := New(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	rng := rand.New(rand.NewPCG(seed, 1))
	text := strings.Repeat("x", 4000)
	// write changes rows.
	write := func() {
		const rows = 20
		switch id := rng.IntN(rows); rng.IntN(5) {
		case 0:
			run(t, server, fmt.Sprintf("delete from alerts.status where Identifier = 'r%d'", id))
		case 1:
			run(t, server, fmt.Sprintf("update alerts.status set Severity = %d where Severity = %d", rng.IntN(6), rng.IntN(6)))
		default:
			run(t, server, fmt.Sprintf("insert into alerts.status (Identifier, Severity, ExtendedAttr) values ('r%d', %d, '%s') updating (Severity)", id, rng.IntN(6), text))
		}
	}
	for range 30 {
		write()
	}
	r := &replica{t: t, c: c, rows: map[string]int64{}, last: fmt.Sprint("last", seed)}
	for range 12 {
		for range rng.IntN(10) {
			write() // nobody reads
		}
		left := rng.IntN(30) + 1
		r.follow(func() bool {
			for range rng.IntN(4) {
				write() // and the reader is slow
			}
			if rng.IntN(8) == 0 {
				web.CloseClientConnections()
			}
			left--
			return left == 0
		})
	}
	run(t, server, fmt.Sprintf("insert into alerts.status (Identifier, Severity) values ('%s', 1)", r.last))
	for tries := 0; !r.follow(func() bool { return false }); tries++ {
		if tries == 1000 {
			t.Fatal("the last row does not come")
		}
	}
	want := map[string]int64{}
	res, err := server.Query(t.Context(), "select Identifier, Severity from alerts.status")
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range res.All() {
		if err != nil {
			t.Fatal(err)
		}
		want[row.Text("Identifier")] = row.Int("Severity")
	}
	if !maps.Equal(r.rows, want) {
		t.Errorf("began %d times; the reader has %v, the table %v", r.begun, r.rows, want)
	}
}

// A reader whose feed ends before the first change knows from where to go on.
func TestReadyIsWhereToGoOn(t *testing.T) {
	server, h := serveAlerts(t)
	run(t, server, "insert into alerts.status (Identifier) values ('a')")
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	c, err := New(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, since := range []time.Time{{}, time.Unix(1, 0)} {
		ready := uint64(0)
		o := &ChangeOptions{Since: since, Ready: func(id uint64) { ready = id; web.CloseClientConnections() }}
		for _, err := range c.Changes(t.Context(), "alerts.status", o) {
			if err != nil && !errors.Is(err, mainstem.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		run(t, server, "insert into alerts.status (Identifier) values ('b')")
		run(t, server, "delete from alerts.status where Identifier = 'b'")
		for change, err := range c.Changes(t.Context(), "alerts.status", &ChangeOptions{After: ready}) {
			if err != nil || !change.Deleted || change.Row.Text("Identifier") != "b" {
				t.Errorf("after %d: %+v, %v", ready, change, err)
			}
			break
		}
	}
}

// A reader that comes again for a table that was dropped, and created again, is told that
// it has to begin anew: no feed tells of the rows that are gone.
func TestDroppedMeanwhile(t *testing.T) {
	server, h := serveAlerts(t)
	create := "create table alerts.mine persistent (K varchar(10) primary key)"
	run(t, server, create)
	c := connect(t, h, nil)
	after := uint64(0)
	for change, err := range c.Changes(t.Context(), "alerts.mine", &ChangeOptions{Ready: func(uint64) { run(t, server, "insert into alerts.mine (K) values ('a')") }}) {
		if err != nil {
			if after == 0 || !errors.Is(err, mainstem.ErrUnavailable) {
				t.Fatal(err)
			}
			break
		}
		if change.Row.Text("K") != "a" {
			t.Errorf("a row of the new table is told behind those of the dropped one: %s", change.Row.Raw())
			break
		}
		after = change.ID
		run(t, server, "drop table alerts.mine")
		run(t, server, create)
		run(t, server, "insert into alerts.mine (K) values ('b')")
	}
	for change, err := range c.Changes(t.Context(), "alerts.mine", &ChangeOptions{After: after}) {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("after %d: %+v, %v, want Invalid", after, change, err)
		}
		break
	}
	run(t, server, "alter table alerts.mine add column N int")
	for change, err := range c.Changes(t.Context(), "alerts.mine", &ChangeOptions{After: after}) {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("after %d of the table that was altered: %+v, %v, want Invalid", after, change, err)
		}
		break
	}
}
