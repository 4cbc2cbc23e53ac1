package frameworks

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/contrib/natskv"
)

// Patience is how long Eventually waits.
const Patience = 20 * time.Second

// Eventually asks until ok is true.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(Patience)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("after %v: %s", Patience, what)
		}
	}
}

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Connect returns a connection, closed when the test ends.
func Connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// OpenStore opens a store on a connection of its own: another process, as far as the
// server can tell.
func OpenStore(t testing.TB, url string, l natskv.Layout) *natskv.Store {
	t.Helper()
	s, err := natskv.OpenStore(t.Context(), Connect(t, url), &natskv.Options{Layout: l})
	NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Stored returns what a bucket holds, by subject: for each the headers and the body
// of its newest message.
func Stored(t testing.TB, url, bucket string) map[string]string {
	t.Helper()
	js, err := jetstream.New(Connect(t, url))
	NoError(t, err)
	s, err := js.Stream(t.Context(), "KV_"+bucket)
	NoError(t, err)
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	NoError(t, err)
	all := make(map[string]string)
	for subject := range info.State.Subjects {
		m, err := s.GetLastMsgForSubject(t.Context(), subject)
		NoError(t, err)
		for _, added := range []string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"} {
			m.Header.Del(added) // by the server, to its answer
		}
		all[subject] = fmt.Sprintf("%v %q", m.Header, m.Data)
	}
	return all
}

// SameStored compares two buckets, of two servers, byte for byte.
func SameStored(t *testing.T, theirs, ours map[string]string) {
	t.Helper()
	if len(theirs) == 0 {
		t.Fatal("nothing was Stored")
	}
	for subject, want := range theirs {
		if got, ok := ours[subject]; !ok {
			t.Errorf("the plug-in stores %s, the adapter does not", subject)
		} else if got != want {
			t.Errorf("%s\nplug-in %.300s\nadapter %.300s", subject, want, got)
		}
	}
	for subject := range ours {
		if _, ok := theirs[subject]; !ok {
			t.Errorf("the adapter stores %s, the plug-in does not", subject)
		}
	}
}

// values are what tests write.
var values = [][]byte{
	[]byte("a value"),
	{0, 1, 2, 0xff, 0xfe, '\r', '\n', 0},
	[]byte(`<a href="x">&'</a>`),
	{},
	bytes.Repeat([]byte("0123456789abcdef"), 8<<10),
	[]byte(`{"key":"x","data":"eA==","metadata":null}`),
}

// Value returns the value to write to key number i: each kind of value comes by.
func Value(i int) []byte { return values[i%len(values)] }

// plainKeys are keys that NATS takes as they are, encodedKeys others.
var (
	plainKeys   = []string{"a", "key-0", "Test_Key", "with.dots.in", "path/to=x", "_lead", "users", "9"}
	encodedKeys = []string{"user:1", "mail@example.org", "with blank", "ünïcödé 😀", `q"uo\te<&>`, "star*.>", ".dot.", strings.Repeat("long", 100)}
)

// Keys returns keys of all kinds that a layout takes.
func Keys(encoded bool) []string {
	if encoded {
		return slices.Concat(plainKeys, encodedKeys)
	}
	return plainKeys
}

// Sorted returns a sorted copy.
func Sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
