package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// The records of an index are persisted: this is all of them, of an event from before the
// index was built, of one since, of one that is gone, and of what belongs to the index.
func TestPersistedIndex(t *testing.T) {
	log := testengines.Memory(t)
	s, err := Open(log, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	appendOne := func(stream string) {
		t.Helper()
		if _, err := s.Append(t.Context(), stream, AnyVersion, []Event{{Type: "A", Tags: []string{"x:1", "y"}}}); err != nil {
			t.Fatal(err)
		}
	}
	appendOne("order-1")
	if err := s.CreateIndex(t.Context(), &IndexOptions{All: true, Pairs: []Pair{{Type: "A", Prefix: "x:"}}}); err != nil {
		t.Fatal(err)
	}
	appendOne("order-2")
	appendOne("order-3")
	appendOne("order-2")
	if err := errors.Join(s.Forget(t.Context(), "order-3"), s.Delete(t.Context(), "order-2", AnyVersion)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.SweepIndex(t.Context()); err != nil || n != 15 {
		t.Fatalf("swept %d, %v", n, err)
	}
	appendOne("order-4")
	appendOne("order-5")
	if err := s.Forget(t.Context(), "order-5"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.SweepIndex(t.Context()); err != nil || n != 0 {
		t.Fatalf("swept %d, %v", n, err)
	}
	if err := s.Truncate(t.Context(), "order-4", 1); err != nil {
		t.Fatal(err)
	}
	info, err := log.Space(t.Context(), "event.tag/orders")
	if err != nil || info.Policy.History != 0 || !info.Policy.NoFeed {
		t.Fatalf("%+v, %v", info, err)
	}
	var got strings.Builder
	for head, err := range log.Scan(t.Context(), info.Name, mainstem.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		for rec, err := range log.Read(t.Context(), info.Name, head.Key, mainstem.Versions{}) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "%+q %+q\n", rec.Key, rec.Value)
		}
	}
	const want = `"*" "\x01\x01order-4"
"*" "\x01\x01"
"anchor" ""
"build" "{\"step\":\"trim\",\"anchor\":3}"
"g:pV\\j\x8bg\x84:\xe6\xaeak\x15\xec\u0661\xf9{Z\xb2\x13\x8d\xc8\xfc\xfe]<\xab\xe9\xf3=\xfd" "order-4"
"index" "{\"format\":1,\"state\":\"building\",\"since\":0,\"anchor\":0,\"max_tags\":8,\"all\":true,\"pairs\":[{\"type\":\"A\",\"prefix\":\"x:\"}]}"
"index" "{\"format\":1,\"state\":\"ready\",\"since\":3,\"anchor\":3,\"max_tags\":8,\"all\":true,\"pairs\":[{\"type\":\"A\",\"prefix\":\"x:\"}]}"
"o*" "\x02\x01order-1"
"ot:x:1" "\x02\x01order-1"
"ot:y" "\x02\x01order-1"
"oty:A\x00x:1" "\x02\x01order-1"
"oy:A" "\x02\x01order-1"
"t:x:1" "\x01\x04order-4"
"t:x:1" "\x01\x04"
"t:y" "\x01\x02order-4"
"t:y" "\x01\x02"
"ty:A\x00x:1" "\x01\x03order-4"
"ty:A\x00x:1" "\x01\x03"
"y:A" "\x01\x05order-4"
"y:A" "\x01\x05"
`
	if got.String() != want {
		t.Errorf("persisted:\n%s\nwant:\n%s", got.String(), want)
	}
}

// FuzzEntry decodes arbitrary records of an index: Corrupt, or what is written the same.
func FuzzEntry(f *testing.F) {
	f.Add([]byte("\x01\x03order-1"), uint64(9))
	f.Add([]byte("\x02\x83\x01order-1"), uint64(999))
	f.Add([]byte("\x01\x01"), uint64(1))
	f.Add([]byte("\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), uint64(1))
	f.Fuzz(func(t *testing.T, value []byte, at uint64) {
		rec := &mainstem.Record{Space: "event.tag/x", Key: []byte("t:a"), Version: 1, Position: mainstem.Position(at % (1 << 62)), Value: value}
		p, stream, err := decodeEntry(rec)
		if err != nil {
			if !errors.Is(err, mainstem.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		n := uint64(p)
		if value[0] == entryDistance {
			n -= uint64(rec.Position)
		}
		if again := appendEntry(nil, value[0], n, stream); len(again) > len(value) {
			t.Fatalf("%q is position %d of %q, which is %q", value, p, stream, again)
		} else if rec.Value = again; true {
			if q, same, err := decodeEntry(rec); err != nil || q != p || string(same) != string(stream) {
				t.Fatalf("%q came back as %d of %q, %v", again, q, same, err)
			}
		}
	})
}

// FuzzTagHeader decodes arbitrary values of $tags: refused, or tags that are written the same.
func FuzzTagHeader(f *testing.F) {
	for _, s := range []string{"", "a", "a\nb", "\n", "a\n", strings.Repeat("x", 257), strings.Repeat("a\n", 32) + "b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if checkTagHeader(value) != nil {
			return
		}
		tags := splitTags(string(value))
		var enc encoder
		enc.tags(tags)
		if len(tags) > MaxTags || string(enc.headers[0].Value) != string(value) || len(value) != tagBytes(tags) {
			t.Fatalf("%q is %q", value, tags)
		}
		for _, tag := range tags {
			if !hasTag(value, tag) || len(tag) > MaxTag {
				t.Fatalf("%q lacks %q", value, tag)
			}
		}
		if hasTag(value, string(value)) != slices.Contains(tags, string(value)) {
			t.Fatalf("%q has itself", value)
		}
	})
}

// FuzzControl decodes arbitrary control records: Corrupt, Unsupported, or one that is written the same.
func FuzzControl(f *testing.F) {
	f.Add([]byte(`{"format":1,"state":"ready","since":3,"anchor":4,"max_tags":8,"pairs":[{"type":"A"}]}`))
	f.Add([]byte(`{"format":2,"inline":[{"name":"totals","version":1,"state":"on","since":7}]}`))
	f.Add([]byte(`{"format":3,"state":"building","max_tags":8}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := decodeControl(&mainstem.Record{Space: "event.tag/x", Key: controlKey, Value: value})
		if err != nil {
			if !errors.Is(err, mainstem.ErrCorrupt) && !errors.Is(err, mainstem.ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := decodeControl(&mainstem.Record{Value: again})
		if err != nil || !d.equal(&c.IndexOptions) || d.State != c.State || d.Since != c.Since {
			t.Fatalf("%+v came back as %+v, %v", c, d, err)
		}
	})
}
