package natskv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

// The end of an answer to many keys says whether those without a message have none.
func TestAnswersToManyEnd(t *testing.T) {
	tests := []struct {
		status, description, pending string
		answered                     int
		left                         bool
	}{
		{status: "404", description: statusNoResults},
		{status: "404", description: "Message Not Found", left: true},
		{status: "404", description: "Message Not Found", answered: 1, left: true},
		{status: "204", description: "EOB", pending: "0", answered: 1},
		{status: "204", description: "EOB", pending: "1", answered: 1, left: true},
	}
	for _, test := range tests {
		g := getter{places: map[string][]int{"a": {0}, "b": {1}}, found: []*message{nil, nil}}
		var want []string
		if test.answered > 0 {
			g.found[0] = &message{seq: 1}
		} else if test.left {
			want = append(want, "a")
		}
		if test.left {
			want = append(want, "b")
		}
		m := &nats.Msg{Header: nats.Header{"Status": {test.status}, "Description": {test.description}, headerPending: {test.pending}}}
		left, err := g.end(m, test.status, []string{"a", "b"}, test.answered)
		if err != nil || !slices.Equal(left, want) {
			t.Errorf("%s %s after %d: left are %q, %v; want %q", test.status, test.description, test.answered, left, err, want)
		}
	}
}

// through returns the prefix of an API that is that of a server, except for the requests that
// answer takes.
func through(t *testing.T, url string, answer func(request string, m *nats.Msg) bool) string {
	t.Helper()
	stub := "STUB" + rand.Text() + "." // a request has one answer
	nc := connectTo(t, url)
	must[*nats.Subscription](t)(nc.Subscribe(stub+">", func(m *nats.Msg) {
		subject := strings.TrimPrefix(m.Subject, stub)
		if answer(subject, m) {
			return
		}
		if !strings.HasPrefix(subject, "$KV.") {
			subject = defaultAPI + subject
		}
		if answer, err := nc.Request(subject, m.Data, testnats.Patience); err == nil {
			m.RespondMsg(&nats.Msg{Header: answer.Header, Data: answer.Data})
		}
	}))
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return stub
}

// openBehind returns the table b, for which direct answers direct gets in the place of the
// server.
func openBehind(t *testing.T, url string, o *Options, direct func(m *nats.Msg)) *Bucket[string] {
	t.Helper()
	o.APIPrefix = through(t, url, func(request string, m *nats.Msg) bool {
		ours := strings.HasPrefix(request, "DIRECT.GET.")
		if ours {
			direct(m)
		}
		return ours
	})
	return openTable(t, url, o)
}

// read returns what GetMany tells of keys.
func read(t *testing.T, b *Bucket[string], keys ...string) string {
	t.Helper()
	got := ""
	for _, e := range must[[]kv.Entry[string]](t)(b.GetMany(t.Context(), keys...)) {
		got += fmt.Sprint(e.Key, "=", e.Value, " ")
	}
	return got
}

// Keys are there although a server answers a request for many with an error half way.
func TestGetManyAfterAnErrorOfTheServer(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := openBehind(t, srv.URL(), &Options{}, func(m *nats.Msg) {
		m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
	})
	for _, key := range []string{"a", "b", "c"} {
		must[kv.Revision](t)(b.Put(t.Context(), key, "v"))
	}
	if got, want := read(t, b, "a", "b", "c", "never"), "a=v b=v c=v never= "; got != want {
		t.Errorf("read %q; want %q", got, want)
	}
}

// A mirror that is behind answers direct gets of the bucket. What it says is not taken for
// the newest.
func TestMirrorsAreNotBelieved(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	mirror := func(m *nats.Msg) {
		m.RespondMsg(&nats.Msg{Data: []byte("old"), Header: nats.Header{
			headerStream: {"KV_mirror"}, headerSubject: {"$KV.b.k"}, headerSequence: {"1"}, headerTime: {"2026-01-02T03:04:05Z"},
		}})
		if strings.Count(m.Subject, ".") == 3 { // many
			m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"204"}, headerPending: {"0"}}})
		}
	}
	for range 2 {
		must[kv.Revision](t)(openTable(t, srv.URL(), nil).Put(ctx, "k", "new"))
	}
	one := openBehind(t, srv.URL(), &Options{}, mirror)
	for range 2 {
		if e := must[kv.Entry[string]](t)(one.Get(ctx, "k")); e.Value != "new" {
			t.Errorf("read %q at %d", e.Value, e.Revision)
		}
	}
	many := openBehind(t, srv.URL(), &Options{}, mirror)
	for range 2 {
		if got := read(t, many, "k", "never"); got != "k=new never= " {
			t.Errorf("read %q", got)
		}
	}
}

// What a store has written, it reads, although a server with one replica or its mirror says
// that there is nothing.
func TestAbsenceIsComparedWithWhatIsKnown(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := openBehind(t, srv.URL(), &Options{AnyReplica: true}, func(m *nats.Msg) {
		m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {statusNoResults}}})
	})
	must[int64](t)(b.Count(ctx, nil)) // has the index begun
	must[kv.Revision](t)(b.Put(ctx, "k", "v"))
	if e := must[kv.Entry[string]](t)(b.Get(ctx, "k")); e.Value != "v" {
		t.Errorf("read %q", e.Value)
	}
	if got := read(t, b, "k"); got != "k=v " {
		t.Errorf("read %q", got)
	}
}

// A database is not dropped while a bucket that may be its own does not answer.
func TestDropDatabaseWantsAllAnswers(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	layout := must[Layout](t)(GoOrb(OrbDefaults()))
	api := through(t, srv.URL(), func(request string, m *nats.Msg) bool {
		if request != "STREAM.LIST" {
			return false
		}
		m.Respond([]byte(`{"total":3,"limit":256,"streams":[],"missing":["KV_app_t","KV_base","OBJ_other"]}`))
		return true
	})
	s := openStore(t, srv.URL(), &Options{Layout: layout, APIPrefix: api})
	for database, want := range map[string]error{
		"app": mainstem.ErrUnavailable, "base": mainstem.ErrUnavailable, "app2": mainstem.ErrNotFound, "other": mainstem.ErrNotFound,
	} {
		if err := s.DropDatabase(t.Context(), database); !errors.Is(err, want) {
			t.Errorf("dropping %s: %v; want %v", database, err, want)
		}
	}
}

// Of two values of a key the second stays, though nobody took the first at first.
func TestPutManyKeepsTheOrderOfAKey(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	refused := false
	o := &Options{APIPrefix: through(t, srv.URL(), func(request string, m *nats.Msg) bool {
		if refused || request != "$KV.b.k" {
			return false
		}
		refused = true
		m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}})
		return true
	})}
	b := openTable(t, srv.URL(), o)
	pairs := []kv.Pair[string]{{Key: "k", Value: "first"}, {Key: "other", Value: "v"}, {Key: "k", Value: "second"}}
	revisions := must[[]kv.Revision](t)(b.PutMany(t.Context(), pairs))
	e := must[kv.Entry[string]](t)(b.Get(t.Context(), "k"))
	if e.Value != "second" || e.Revision != revisions[2] || revisions[0] >= revisions[2] {
		t.Errorf("read %q at %d after writes at %d", e.Value, e.Revision, revisions)
	}
}
