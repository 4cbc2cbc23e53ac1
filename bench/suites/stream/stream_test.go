package stream_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a small round of each case that begins with a name, and returns the
// first error.
func run(t *testing.T, f stream.Factory, cases string) error {
	t.Helper()
	n := 0
	for _, e := range stream.Entries(f) {
		if !strings.HasPrefix(e.Case, cases) {
			continue
		}
		n++
		if err := runnertest.Try(t, &e, 2, 11); err != nil {
			return err
		}
	}
	if n == 0 {
		t.Fatal("no case begins with", cases)
	}
	return nil
}

type messages = []stream.Message

// changed returns ms with another last byte in the value of the last one.
func changed(ms messages) messages {
	out := slices.Clone(ms)
	last := clone(out[len(out)-1])
	last.Value[len(last.Value)-1] ^= 1
	out[len(out)-1] = last
	return out
}

// cheats are what contenders do wrong, and cases in which it must show.
var cheats = []struct {
	name   string
	cases  []string
	change func(*memory)
}{
	{"stores nothing", []string{"client/send/1k", "client/send-batch", "client/fetch/", "client/end-to-end", "storage/append", "storage/read", "storage/index"},
		func(m *memory) { m.send = func(messages) messages { return nil } }},
	{"loses the first of a batch", []string{"client/send-batch", "client/fetch/", "storage/append/5"},
		func(m *memory) { m.send = func(ms messages) messages { return ms[1:] } }},
	{"stores twice", []string{"client/send/1k", "client/end-to-end", "storage/append/8b"},
		func(m *memory) { m.send = func(ms messages) messages { return slices.Concat(ms, ms) } }},
	{"turns the order of a batch round", []string{"client/send-batch", "storage/append/100"}, func(m *memory) {
		m.send = func(ms messages) messages {
			out := slices.Clone(ms)
			slices.Reverse(out)
			return out
		}
	}},
	{"changes a byte", []string{"client/send/43b", "client/fetch/", "client/end-to-end", "storage/append/39b", "storage/read", "storage/index"},
		func(m *memory) { m.send = changed }},
	{"fetches nothing", []string{"client/fetch/", "client/send/1k", "client/end-to-end", "storage/read", "storage/index"},
		func(m *memory) { m.fetch = func(messages) messages { return nil } }},
	{"fetches the first again and again", []string{"client/fetch/", "storage/read"}, func(m *memory) {
		m.fetch = func(ms messages) messages { return slices.Repeat(ms[:1], len(ms)) }
	}},
	{"fetches one less", []string{"client/fetch/", "storage/read"},
		func(m *memory) { m.fetch = func(ms messages) messages { return ms[:len(ms)-1] } }},
	{"forgets keys", []string{"client/send/43b", "storage/append/8b"}, func(m *memory) {
		m.send = func(ms messages) messages { return messages{{Value: ms[0].Value}} }
	}},
	{"puts nothing", []string{"storage/table-put", "storage/table-get", "storage/table-scan"},
		func(m *memory) { m.stored = func([]byte) []byte { return nil } }},
	{"gets what is old", []string{"storage/table-get", "storage/table-scan"},
		func(m *memory) { m.got = func([]byte) []byte { return []byte("value0-0000") } }},
	{"scans one less", []string{"storage/table-scan", "storage/table-put"},
		func(m *memory) { m.rows = func(keys []string) []string { return keys[1:] } }},
	{"scans in another order", []string{"storage/table-scan"}, func(m *memory) {
		m.rows = func(keys []string) []string { keys = slices.Clone(keys); slices.Reverse(keys); return keys }
	}},
	{"decodes no message", []string{"protocol/decode-produce-1", "protocol/encode-produce-100"},
		func(m *memory) { m.frame = func(f *frame) { f.Messages = nil } }},
	{"decodes another topic", []string{"protocol/decode-produce-1", "protocol/decode-fetch", "protocol/encode-fetch"},
		func(m *memory) { m.frame = func(f *frame) { f.Topic, f.Fetch.Topic = "x", "x" } }},
	{"knows what is asked for", []string{"protocol/decode-fetch", "protocol/encode-fetch"},
		func(m *memory) {
			m.frame = func(f *frame) { f.Fetch = stream.Fetch{Topic: "test-topic", Offset: 100, Max: 1 << 20} }
		}},
	{"decodes other values", []string{"protocol/decode-produce-100"},
		func(m *memory) { m.frame = func(f *frame) { f.Messages = changed(f.Messages) } }},
}

func TestCheats(t *testing.T) {
	defer stream.SetPatience(20 * time.Millisecond)()
	for _, c := range cheats {
		for _, name := range c.cases {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				if err := run(t, factory(c.change), name); err == nil {
					t.Fatal("was not caught")
				}
			})
		}
	}
}

func TestHonest(t *testing.T) {
	for _, cases := range []string{"client/", "storage/", "protocol/"} {
		if err := run(t, factory(func(*memory) {}), cases); err != nil {
			t.Error(err)
		}
	}
}

// A message that is lost in the middle of a round is missed.
func TestLostLater(t *testing.T) {
	defer stream.SetPatience(20 * time.Millisecond)()
	sends := 0
	f := factory(func(m *memory) {
		m.send = func(ms messages) messages {
			if sends++; sends == 9 {
				return nil
			}
			return ms
		}
	})
	if err := run(t, f, "client/send/100b"); err == nil {
		t.Fatal("a message that was lost in the middle was not missed")
	}
}

// The bytes that are sent must not compress, or who compresses wins.
func TestIncompressible(t *testing.T) {
	var values []byte
	f := factory(func(m *memory) {
		m.send = func(ms messages) messages {
			values = append(values[:0], ms[0].Value...)
			return ms
		}
	})
	if err := run(t, f, "client/send/10k"); err != nil {
		t.Fatal(err)
	}
	for b := range 256 {
		if n := bytes.Count(values, []byte{byte(b)}); n > len(values)/64 {
			t.Errorf("byte %d is there %d times in %d", b, n, len(values))
		}
	}
}
