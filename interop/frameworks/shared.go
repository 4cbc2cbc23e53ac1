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
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NATSOptions are those of a plug-in's connections, which may take all the time that a test waits.
func NATSOptions() nats.Options {
	o := nats.GetDefaultOptions()
	o.Timeout = testkit.Patience
	return o
}

// OpenStore opens a store on a connection of its own: another process, as far as the
// server can tell.
func OpenStore(t testing.TB, url string, l natskv.Layout) *natskv.Store {
	t.Helper()
	s, err := natskv.OpenStore(t.Context(), testnats.Connect(t, url), &natskv.Options{Layout: l, Timeout: testkit.Patience})
	NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// WhileItLives has a value written, to live as long as life, and read before that time is over. read
// returns false if the value was not there. If that is because the test came late, all is done again
// with another key. The keys are returned.
func WhileItLives(t testing.TB, life time.Duration, write func(key string), read func(key string) bool) (keys []string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("a value is read within %v", life), func() bool {
		key := fmt.Sprint("goes", len(keys))
		keys = append(keys, key)
		begun := time.Now()
		write(key)
		ok := read(key)
		if took := time.Since(begun); !ok && took < life {
			t.Fatalf("%s is not there %v after the test began to write it, to live for %v", key, took, life)
		}
		return ok
	})
	return keys
}

// Stored returns what a bucket holds, by subject: for each the headers and the body
// of its newest message.
func Stored(t testing.TB, url, bucket string) map[string]string {
	t.Helper()
	s, err := testnats.JetStream(t, testnats.Connect(t, url)).Stream(t.Context(), "KV_"+bucket)
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
