package omnibus

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// subscription reads a feed.
type subscription struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
}

type sseEvent struct{ id, name, data string }

func (s *site) subscribe(t *testing.T, path string, header ...string) *subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := s.request("GET", path, "", append(header, "Accept", "text/event-stream")...).WithContext(ctx)
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		p, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, p)
	}
	sub := &subscription{t, resp.Body, bufio.NewReader(resp.Body)}
	t.Cleanup(sub.close)
	return sub
}

func (s *subscription) close() { _ = s.body.Close() }

// next returns the next event. ok is false at the end of the feed.
func (s *subscription) next() (e sseEvent, ok bool) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, false
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e, true
			}
		}
	}
}

func (s *subscription) want(name, data string) sseEvent {
	s.t.Helper()
	e, ok := s.next()
	if !ok || e.name != name || data != "" && e.data != data {
		s.t.Fatalf("got %+v (%v), want %s %s", e, ok, name, data)
	}
	return e
}

func TestFeed(t *testing.T) {
	s := serve(t, nil)
	s.sql("insert into alerts.status (Identifier, Severity) values ('old', 1)")
	f := s.subscribe(t, collection+"?collist=Severity")
	f.want(eventReady, "")
	s.sql("insert into alerts.status (Identifier, Severity) values ('a', 5)")
	f.want(eventChange, `{"Identifier":"a","Severity":5}`)
	s.sql("update alerts.status set Severity = 0 where Identifier = 'a'")
	last := f.want(eventChange, `{"Identifier":"a","Severity":0}`)
	f.close()

	// What happens meanwhile is told to a client that comes again.
	s.sql("delete from alerts.status where Identifier = 'a'")
	s.sql("insert into alerts.status (Identifier, Severity) values ('b', 2)")
	f = s.subscribe(t, collection+"?collist=Severity", "Last-Event-ID", last.id)
	f.want(eventReady, last.id)
	if e := f.want(eventDelete, `{"Identifier":"a"}`); e.id == "" || e.id == last.id {
		t.Errorf("the id of an event: %q, before it %q", e.id, last.id)
	}
	f.want(eventChange, `{"Identifier":"b","Severity":2}`)

	// A column that comes in the meantime is shown from then on.
	all := s.subscribe(t, collection+"?after="+last.id)
	all.want(eventReady, "")
	all.want(eventDelete, "")
	all.want(eventChange, "")
	s.sql("alter table alerts.status add column Extra integer")
	s.sql("insert into alerts.status (Identifier, Extra) values ('c', 7)")
	if e := all.want(eventChange, ""); !strings.HasSuffix(e.data, `,"Extra":7}`) {
		t.Errorf("after ALTER TABLE: %s", e.data)
	}
	f.want(eventChange, `{"Identifier":"c","Severity":0}`)
}

func TestFeedSince(t *testing.T) {
	s := serve(t, nil)
	for i := range 4 {
		s.sql(fmt.Sprintf("insert into alerts.status (Identifier) values ('%d')", i))
		s.clock.Advance(10 * time.Second)
	}
	f := s.subscribe(t, collection+"?collist=StateChange&since=1700000020")
	for i := 2; i < 4; i++ {
		if e := f.want(eventChange, fmt.Sprintf(`{"Identifier":"%d","StateChange":%d}`, i, 1700000000+10*i)); e.id != "" {
			t.Errorf("a row of the beginning has the id %s: a client that breaks off would miss the others", e.id)
		}
	}
	ready := f.want(eventReady, "")
	s.sql("delete from alerts.status where Identifier = '0'")
	f.want(eventDelete, `{"Identifier":"0"}`)
	again := s.subscribe(t, collection+"?since=1", "Last-Event-ID", ready.id)
	again.want(eventReady, ready.id)
	again.want(eventDelete, `{"Identifier":"0"}`)
}

func TestFeedRefused(t *testing.T) {
	s := serve(t, &Options{MaxSubscribers: 1})
	accept := []string{"Accept", "text/event-stream"}
	for path, status := range map[string]int{
		"alerts/nothing": 404, collection + "?filter=Severity%3D1": 400, collection + "?since=x": 400, collection + "?after=x": 400,
		collection + "?after=-1": 400, collection + "?after=0": 400, collection + "?after=99999999": 410, collection + "?collist=Nothing": 400, "catalog/tables": 400,
	} {
		s.want(status, "GET", path, "", accept...)
	}
	f := s.subscribe(t, collection)
	f.want(eventReady, "")
	resp, _ := s.do("GET", collection, "", accept...)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a feed too many: %s", resp.Status)
	}
	f.close()
	testkit.Eventually(t, "a feed's place is free again", func() bool { return len(s.handler.feeds) == 0 })
	s.subscribe(t, collection).want(eventReady, "")
}

// behindLog is a log of which a server sees no changes until it is told to.
type behindLog struct {
	mainstem.Log
	asked chan struct{} // gets a value when the server wants changes before that
	show  chan struct{}
}

func (l *behindLog) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if !f.Follow {
			select {
			case l.asked <- struct{}{}:
			default:
			}
		}
		select {
		case <-l.show:
			l.Log.Feed(ctx, f)(yield)
		case <-ctx.Done():
			yield(mainstem.Record{}, ctx.Err())
		}
	}
}

// TestFeedOfATableAlteredElsewhere begins at a server that has not come to the alteration.
func TestFeedOfATableAlteredElsewhere(t *testing.T) {
	log := testengines.Memory(t)
	late := &behindLog{log, make(chan struct{}, 1), make(chan struct{})}
	s, other := serveLog(t, late, nil), serveLog(t, log, nil)
	other.sql("alter table alerts.status add column Extra integer")
	status := make(chan int, 1)
	events := make(chan *subscription, 1)
	r := s.request("GET", collection+"?collist=Extra", "", "Accept", "text/event-stream")
	go func() {
		resp, err := s.client.Do(r)
		if err != nil {
			status <- 0
			return
		}
		events <- &subscription{t, resp.Body, bufio.NewReader(resp.Body)}
		status <- resp.StatusCode
	}()
	select {
	case <-late.asked:
	case got := <-status:
		status <- got
	}
	close(late.show)
	if got := <-status; got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	f := <-events
	defer f.close()
	f.want(eventReady, "")
	other.sql("insert into alerts.status (Identifier, Extra) values ('a', 7)")
	f.want(eventChange, `{"Identifier":"a","Extra":7}`)
}

// TestFeedEnds ends feeds from the other side.
func TestFeedEnds(t *testing.T) {
	users := staff(t)
	s := serve(t, &Options{Users: users, Heartbeat: 10 * time.Millisecond}).as("reader", "reader")
	f := s.subscribe(t, collection)
	f.want(eventReady, "")
	users.Remove("reader")
	if e, ok := f.next(); ok {
		t.Errorf("the feed of a removed user goes on: %v", e)
	}
	admin := s.as("admin", "admin")
	admin.sql("create table alerts.mine persistent (K varchar(10) primary key)")
	f = admin.subscribe(t, "alerts/mine")
	f.want(eventReady, "")
	admin.sql("drop table alerts.mine")
	f.want(eventError, "")
	f = admin.subscribe(t, collection)
	f.want(eventReady, "")
	if err := s.handler.Close(); err != nil {
		t.Fatal(err)
	}
	if e, ok := f.next(); ok {
		t.Errorf("a feed goes on after Close: %v", e)
	}
	admin.want(http.StatusServiceUnavailable, "GET", collection, "")
}

// TestFeedSlow has a client that takes nothing until much more has changed than is
// kept for it, and loses nothing.
func TestFeedSlow(t *testing.T) {
	s := serve(t, nil)
	s.handler.maxPending = 4 << 10
	f := s.subscribe(t, collection)
	f.want(eventReady, "")
	const rounds, rows = 10, 50
	text := strings.Repeat("x", 4000)
	for i := range rounds {
		var b strings.Builder
		for j := range rows {
			fmt.Fprintf(&b, `,{"Identifier":"%d-%d","ExtendedAttr":"%s"}`, i, j, text)
		}
		s.want(201, "POST", collection, `{"rowset":{"rows":[`+b.String()[1:]+`]}}`)
	}
	for i := range rounds {
		for j := range rows {
			if e := f.want(eventChange, ""); !strings.HasPrefix(e.data, fmt.Sprintf(`{"Identifier":"%d-%d"`, i, j)) {
				t.Fatalf("got %.60s, want %d-%d", e.data, i, j)
			}
		}
	}
}
