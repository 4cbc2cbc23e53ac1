package natslog

import (
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")

// example is a frame with every kind of fact.
func example() *frame {
	value := &record{version: 7, pos: 101, time: 5000, clock: 5000, expires: 9000, count: 3, size: 9}
	tombstone := &record{version: 8, pos: 102, time: 5000, clock: 5000, count: 1, tomb: mainstem.Deleted, size: 5}
	moved := &record{version: 2, pos: 55, time: 4000, clock: 4000, count: 1, size: 3}
	return &frame{nonce: 0x0102030405060708, time: 5000, clock: 5000, head: 102, nextID: 4, facts: []fact{
		{kind: factSpace, space: 3, name: "orders", last: 90, floor: 2, updated: 4500,
			def: format.Space{ID: 3, Created: 1000, Policy: mainstem.Policy{History: 2, MaxAge: time.Hour, TombstoneAge: -1, Metadata: map[string]string{"view": "kv"}}}},
		{kind: factRecord, space: 3, key: []byte("k\x00"), rec: value, floor: 4, value: []byte("value"), headers: mainstem.Headers{{Name: "h", Value: []byte("1")}}},
		{kind: factRecord, space: 3, key: []byte("k\x00"), rec: tombstone, floor: 7},
		{kind: factRestated, erase: true, space: 1, key: []byte("old"), rec: moved, value: nil},
		{kind: factKey, erase: true, space: 1, key: []byte("gone"), head: 12, floor: 13},
		{kind: factHole, space: 1, key: []byte("old"), version: 1},
		{kind: factDrop, space: 2},
		{kind: factReceipt, receipt: &receipt{id: "\xff", first: 101, last: 102, time: 5000, versions: []mainstem.Version{7, 8, 0}}},
	}}
}

// clocked is the same frame, written while the clock was behind.
func clocked() *frame {
	f := example()
	f.clock = 4000
	for i := range f.facts {
		if r := f.facts[i].rec; r != nil {
			r.clock -= 1000
		}
	}
	return f
}

// repassed is the same frame, written after the clock had passed an earlier reading.
func repassed() *frame {
	f := clocked()
	f.passed = 9000
	return f
}

// split is a frame with a receipt in two facts.
func split() *frame {
	f := example()
	f.facts = append(f.facts, fact{kind: factReceipt, receipt: &receipt{id: "\xff", first: 101, last: 102, time: 5000, versions: []mainstem.Version{9}}})
	return f
}

// plain leaves of a fact what a message carries.
func plain(f *frame) *frame {
	out := *f
	out.facts = nil
	for _, ft := range f.facts {
		ft.value, ft.headers, ft.body = nil, nil, nil
		if ft.rec != nil {
			r := *ft.rec
			ft.rec = &r
		}
		if ft.kind == factRestated {
			ft.floor = 0
		}
		out.facts = append(out.facts, ft)
	}
	return &out
}

// decoded puts the parts of a frame together as a reader does.
func decoded(t interface {
	Fatalf(format string, args ...any)
}, parts []part,
) *frame {
	var f *frame
	for i, p := range parts {
		got, err := decodePart(p.meta)
		if err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
		if int(got.part) != i || int(got.parts) != len(parts) {
			t.Fatalf("part %d of %d says it is %d of %d", i, len(parts), got.part, got.parts)
		}
		if f == nil {
			f = &got.frame
			continue
		}
		f.facts = append(f.facts, got.facts...)
	}
	return f
}

func TestFrameComesBack(t *testing.T) {
	for _, example := range []func() *frame{example, clocked, repassed, split} {
		for _, limit := range []int{1 << 20, envelope + 300, 1} {
			f := example()
			parts := f.encode(limit, 100)
			if got, want := decoded(t, parts), plain(f); !reflect.DeepEqual(got, want) {
				t.Errorf("in messages of %d bytes:\n got %+v\nwant %+v", limit, got, want)
			}
			if limit == 1 && len(parts) != len(f.facts) {
				t.Errorf("%d parts, want one for each of %d facts", len(parts), len(f.facts))
			}
		}
	}
}

// TestLargestReceipt has the largest versions there are in a receipt of the most writes. Its
// facts fit into messages, and the state puts them together.
func TestLargestReceipt(t *testing.T) {
	want := &receipt{id: strings.Repeat("i", mainstem.MaxBatchID), first: 1, last: maxVersion, time: 5000, versions: make([]mainstem.Version, mainstem.DefaultMaxBatchWrites)}
	for i := range want.versions {
		want.versions[i] = mainstem.Version(maxVersion - i)
	}
	s := newState()
	tx := newTx(&s, wallclock.Moment{}, 1<<20)
	tx.acknowledge(want)
	f := &frame{time: 5000, clock: 5000, facts: tx.facts}
	parts := f.encode(1<<20, 0)
	for i, p := range parts {
		if n := encodedLen(len(p.meta)) + envelope; n > maxHeaders {
			t.Errorf("the headers of part %d of %d take %d bytes", i, len(parts), n)
		}
	}
	for range 2 { // the second time it is stated again
		s.apply(decoded(t, parts), &unit{seq: s.seq + 1, parts: uint32(len(parts))})
		if got := s.receipts[want.id]; !slices.Equal(got.versions, want.versions) || got.last != want.last {
			t.Fatalf("the receipt has %d versions, want the %d of the batch", len(got.versions), len(want.versions))
		}
	}
}

// What is written today must always be readable.
func TestFrameGolden(t *testing.T) {
	for file, example := range map[string]func() *frame{"frame1.hex": example, "frame2.hex": clocked, "frame3.hex": repassed, "frame4.hex": split} {
		t.Run(file, func(t *testing.T) { checkGolden(t, file, example) })
	}
}

func checkGolden(t *testing.T, file string, example func() *frame) {
	parts := example().encode(1<<20, 100)
	got := hex.EncodeToString(parts[0].meta) + "\n" + hex.EncodeToString(parts[0].payload) + "\n"
	path := filepath.Join("testdata", file)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Fatalf("frames are written differently now: give the format a new version\n got %s\nwant %s", got, want)
	}
	meta, err := hex.DecodeString(strings.Split(string(want), "\n")[0])
	if err != nil {
		t.Fatal(err)
	}
	p, err := decodePart(meta)
	if err != nil || !reflect.DeepEqual(&p.frame, plain(mustEncode(example()))) {
		t.Fatalf("the golden frame reads as %+v, %v", p.frame, err)
	}
}

// A frame of a version that is not known is refused as that, whatever is in it.
func TestFrameOfALaterVersion(t *testing.T) {
	meta := example().encode(1<<20, 100)[0].meta
	meta[0] = frameSplit + 1
	if _, err := decodePart(meta); !errors.Is(err, errFrame) || !strings.Contains(err.Error(), "version 5, this engine knows 1 to 4") {
		t.Errorf("a frame of version 5: %v", err)
	}
}

// mustEncode sets in f what encoding sets.
func mustEncode(f *frame) *frame {
	f.encode(1<<20, 100)
	return f
}

// Frames of any facts come back, and no message is larger than the limit unless one
// fact alone is.
func TestFramesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &frame{nonce: rapid.Uint64().Draw(t, "nonce"), time: rapid.Int64Range(1, 1<<62).Draw(t, "time"), nextID: rapid.Uint32().Draw(t, "next")}
		f.clock = f.time - rapid.SampledFrom([]int64{0, 1, 1 << 60}).Draw(t, "lag")
		if lead := rapid.SampledFrom([]int64{0, 1, 1 << 60}).Draw(t, "lead"); lead > 0 {
			f.passed = f.clock + lead
		}
		before := rapid.Uint64Range(0, 1<<60).Draw(t, "head")
		f.head = before
		for range rapid.IntRange(0, 20).Draw(t, "facts") {
			ft := fact{space: rapid.Uint32().Draw(t, "space"), key: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "key")}
			version := rapid.Uint64Range(1, maxVersion).Draw(t, "version")
			switch ft.kind = rapid.SampledFrom([]factKind{factRecord, factRestated, factKey, factHole}).Draw(t, "kind"); ft.kind {
			case factRecord, factRestated:
				ft.rec = &record{version: version, count: uint32(min(version, rapid.Uint64Range(1, 9).Draw(t, "count"))), size: 1, time: f.time, clock: f.clock, pos: before}
				ft.value = rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value")
				if ft.kind == factRecord {
					f.head++
					ft.rec.pos = f.head
					ft.floor = rapid.Uint64Range(0, version).Draw(t, "floor")
				} else {
					ft.rec.pos = rapid.Uint64Range(1, 1<<60).Draw(t, "pos")
				}
			case factKey:
				ft.head, ft.floor = version, version+1
			case factHole:
				ft.version = version
			}
			f.facts = append(f.facts, ft)
		}
		limit := rapid.IntRange(envelope+600, 4000).Draw(t, "limit")
		parts := f.encode(limit, before)
		for i, p := range parts {
			if n := encodedLen(len(p.meta)) + len(p.payload); n > limit {
				t.Fatalf("part %d takes %d bytes, the limit is %d", i, n, limit)
			}
		}
		got, want := decoded(t, parts), plain(f)
		if len(got.facts) != len(want.facts) || len(want.facts) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

// Whatever a header holds, decoding it returns facts or an error.
func FuzzDecodePart(f *testing.F) {
	for _, limit := range []int{1 << 20, 1} {
		for _, example := range []func() *frame{example, clocked, repassed, split} {
			for _, p := range example().encode(limit, 100) {
				f.Add(p.meta)
			}
		}
	}
	f.Fuzz(func(t *testing.T, meta []byte) {
		p, err := decodePart(meta)
		if err != nil {
			return
		}
		end := uint64(0)
		for _, ft := range p.facts {
			if r := ft.rec; r != nil {
				if uint64(r.off) != end || r.version == 0 || uint64(r.count) > r.version {
					t.Fatalf("a record of version %d with %d items at offset %d, want %d", r.version, r.count, r.off, end)
				}
				end += uint64(r.len)
			}
		}
		s := newState() // facts of any content do not break the state
		s.apply(&p.frame, &unit{seq: 1, parts: p.parts})
	})
}

// A prefix of any bytes selects what starts with it.
func TestBeyond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 0xfe, 0xff}), 1, 4)
		prefix, name := string(b.Draw(t, "prefix")), string(b.Draw(t, "key"))
		end, bounded := beyond([]byte(prefix))
		if in := name >= prefix && (!bounded || name < end); in != strings.HasPrefix(name, prefix) {
			t.Fatalf("prefix %q ends before %q (%v): key %q is in it: %v", prefix, end, bounded, name, in)
		}
	})
}

func TestIndexIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x keyIndex
		have := map[string]*key{}
		for range rapid.IntRange(0, 2000).Draw(t, "keys") {
			name := rapid.StringMatching(`[a-d]{1,6}`).Draw(t, "name")
			if k := have[name]; k != nil {
				x.remove(k)
				delete(have, name)
				continue
			}
			have[name] = &key{name: name}
			x.insert(have[name])
		}
		start, end := rapid.StringMatching(`[a-d]{0,6}`).Draw(t, "start"), rapid.StringMatching(`[a-d]{0,6}`).Draw(t, "end")
		n, last := 0, ""
		x.ascend(start, func(k *key) bool {
			if k.name < start || k.name <= last || have[k.name] != k {
				t.Fatalf("ascending from %q: %q after %q", start, k.name, last)
			}
			n, last = n+1, k.name
			return true
		})
		m, next := 0, "z"
		x.descend(end, true, func(k *key) bool {
			if k.name >= end || k.name >= next || have[k.name] != k {
				t.Fatalf("descending from %q: %q after %q", end, k.name, next)
			}
			m, next = m+1, k.name
			return true
		})
		for name := range have {
			if name >= start {
				n--
			}
			if name < end {
				m--
			}
		}
		if n != 0 || m != 0 {
			t.Fatalf("%d keys too many from %q on, %d too many below %q", n, start, m, end)
		}
	})
}
