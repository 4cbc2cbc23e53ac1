package producer

import (
	"bytes"
	"encoding/hex"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// examples are values of each kind.
func examples() map[string][]byte {
	e := newProducer(7)
	e.epoch, e.last, e.first, e.time, e.vague = 3, 41, 40, 1_700_000_000_000, true
	e.n = 2
	e.window[0] = sent{lastSeq: 0x7fffffff, delta: 1, base: 30, stamp: -1}
	e.window[1] = sent{lastSeq: 1, delta: 1, base: 40, stamp: 1_700_000_000_001}
	s := &txnState{status: statusOngoing, implicit: true, pid: 9, epoch: 2, lastPID: -1, lastEpoch: 1, timeout: 60_000, serial: 4, started: 5, changed: 6}
	s.add(place{topic.ID{2}, 1}, "orders")
	s.add(place{topic.ID{1}, 0}, "a")
	s.add(place{topic.ID{2}, 0}, "orders")
	s.addGroup("h")
	s.addGroup("g")
	ended := s.ended(statusCommitted, 7)
	return map[string][]byte{
		"head":        encodeOffset(4711),
		"producer":    e.encode(),
		"aborted":     encodeAborted([]Aborted{{1, 2, 3}, {4, 5, 60}}),
		"transaction": s.encode(),
		"ended":       ended.encode(),
		"offsets": encodeOffsets(3, map[place]txnOffset{
			{topic.ID{3}, 1}: {name: "b", Offset: topic.Offset{Next: 8, LeaderEpoch: -1, Metadata: "m"}},
			{topic.ID{3}, 0}: {name: "b", Offset: topic.Offset{Next: 9}},
		}),
	}
}

// decodeAny decodes a value of the kind that the name says, and encodes it again.
func decodeAny(name string, b []byte) ([]byte, error) {
	switch name {
	case "head":
		n, err := decodeOffset(b)
		return encodeOffset(n), err
	case "producer":
		e, err := decodeProducer(7, b)
		return e.encode(), err
	case "aborted":
		run, err := decodeAborted(b)
		return encodeAborted(run), err
	case "offsets":
		serial, offsets, err := decodeOffsets(b)
		return encodeOffsets(serial, offsets), err
	}
	s, err := decodeTransaction(b)
	return s.encode(), err
}

// TestGolden fixes the stored form: a change here needs a new format number.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "stored.golden")
	all := examples()
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		got.WriteString(name + " " + hex.EncodeToString(all[name]) + "\n")
	}
	for _, k := range [][]byte{idsKey, transactionKey("x"), offsetsKey("x", "g"), headKey(place{topic.ID{1}, 2}), partKey(place{topic.ID{1}, 2}, producerPart, 7), partKey(place{topic.ID{1}, 2}, abortedPart, 8)} {
		got.WriteString("key " + hex.EncodeToString(k) + "\n")
	}
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// TestDecode checks that encoded values are decoded, and that their prefixes, and values with more
// bytes at the end, are errors. Values without a number of entries may end after any entry.
func TestDecode(t *testing.T) {
	for name, b := range examples() {
		again, err := decodeAny(name, b)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: got %x (%v), want %x", name, again, err, b)
		}
		for n := range b {
			if out, err := decodeAny(name, b[:n]); err == nil && !(bytes.Equal(out, b[:n]) && (name == "aborted" || name == "offsets")) {
				t.Errorf("%s: the first %d of %d bytes are decoded", name, n, len(b))
			}
		}
		if _, err := decodeAny(name, append(slices.Clone(b), 0)); err == nil {
			t.Errorf("%s: a byte too many is decoded", name)
		}
		other := slices.Clone(b)
		other[0] = format + 1
		if _, err := decodeAny(name, other); err == nil || !strings.Contains(err.Error(), "format") {
			t.Errorf("%s: another format gives %v", name, err)
		}
	}
}

func TestDecodedProducer(t *testing.T) {
	b := examples()["producer"]
	e, err := decodeProducer(7, b)
	if err != nil {
		t.Fatal(err)
	}
	if e.epoch != 3 || e.n != 2 || !e.vague || e.first != 40 || e.window[1].base != 40 || e.bound != -1 {
		t.Errorf("got %+v", e)
	}
}

func TestKeys(t *testing.T) {
	id, group, err := splitOffsetsKey(offsetsKey("x", "g\x00"))
	if id != "x" || group != "g\x00" || err != nil {
		t.Errorf("got %q, %q, %v", id, group, err)
	}
	for _, bad := range [][]byte{nil, {'o'}, {'o', 0, 5, 'x'}, {'t', 0, 0}} {
		if _, _, err := splitOffsetsKey(bad); err == nil {
			t.Errorf("%q passes for the key of offsets", bad)
		}
	}
	p := place{topic.ID{1}, 2}
	if kind, n, err := splitPartKey(partKey(p, abortedPart, 8)); kind != abortedPart || n != 8 || err != nil {
		t.Errorf("got %d, %d, %v", kind, n, err)
	}
	for _, bad := range [][]byte{nil, headKey(p)[:20], append(headKey(p), 1), partKey(p, 3, 1)} {
		if _, _, err := splitPartKey(bad); err == nil {
			t.Errorf("%q passes for the key of a partition", bad)
		}
	}
	if a, b := (place{topic.ID{1}, 5}), (place{topic.ID{2}, 1}); a.compare(b) >= 0 || b.compare(a) <= 0 || a.compare(a) != 0 {
		t.Error("places are not in order")
	}
}

// TestCorrupt checks that damaged records are errors, and not handled as an empty state.
func TestCorrupt(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("x")
	f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 0)
	f.wantCode("offset", f.offset("x", p, 5, "g", "t", 0, 1), nil)
	at := place{tp.ID(), 0}
	for _, key := range [][]byte{headKey(at), partKey(at, producerPart, 1), partKey(at, abortedPart, 1), append(headKey(at), 9)} {
		old := f.damage(key)
		f.reopen(false)
		tp, _ = f.catalog.Topic(t.Context(), "t")
		if _, err := f.m.Stable(t.Context(), tp, 0, 2); err == nil || !strings.Contains(err.Error(), "corrupt") {
			t.Errorf("key %x: got %v, want that it is corrupt", key, err)
		}
		f.put(key, old)
	}
	for _, key := range [][]byte{transactionKey("x"), offsetsKey("x", "g"), offsetsKey("nobody", "g"), {'o'}} {
		old := f.damage(key)
		if m, err := Open(t.Context(), f.catalog, &f.o); err == nil {
			m.stop()
			t.Errorf("key %x: a damaged state was opened", key)
		}
		f.put(key, old)
	}
}

// damage replaces the value of a key by an invalid one, and returns the former value.
func (f *fixture) damage(key []byte) []byte {
	f.Helper()
	var old []byte
	if rec, err := f.log.Get(f.Context(), Space, key); err == nil {
		old = rec.Value
	}
	f.put(key, []byte{format, 1, 2, 3})
	return old
}

// put stores a value; nil deletes the key.
func (f *fixture) put(key, value []byte) {
	f.Helper()
	b := mainstem.NewBatch()
	if value == nil {
		b.Delete(Space, key)
	} else {
		b.Put(Space, key, value)
	}
	if _, err := f.log.Commit(f.Context(), b); err != nil {
		f.Fatal(err)
	}
}
