package natskv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

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

// Keys are there although a server answers a request for many with an error half way.
func TestGetManyAfterAnErrorOfTheServer(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := openTable(t, srv.URL(), nil)
	keys := []string{"a", "b", "c"}
	for _, key := range keys {
		must[kv.Revision](t)(b.Put(ctx, key, "v"))
	}
	// A server's place is taken by one that always answers with an error: only the leader,
	// asked for each key, tells what there is.
	const stub = "STUB."
	nc := connectTo(t, srv.URL())
	must[*nats.Subscription](t)(nc.Subscribe(stub+">", func(m *nats.Msg) {
		api := strings.TrimPrefix(m.Subject, stub)
		if strings.HasPrefix(api, "DIRECT.GET.") {
			m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
			return
		}
		if answer, err := nc.Request(defaultAPI+api, m.Data, DefaultTimeout); err == nil {
			m.Respond(answer.Data)
		}
	}))
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	s := must[*Store](t)(OpenStore(ctx, connectTo(t, srv.URL()), &Options{APIPrefix: stub}))
	t.Cleanup(func() { s.Close() })
	other := must[*Bucket[string]](t)(Open[string](s, "b", nil))
	entries := must[[]kv.Entry[string]](t)(other.GetMany(ctx, append(keys, "never")...))
	got := ""
	for _, e := range entries {
		got += fmt.Sprint(e.Key, "=", e.Value, " ")
	}
	if want := "a=v b=v c=v never= "; got != want {
		t.Errorf("read %q; want %q", got, want)
	}
}
