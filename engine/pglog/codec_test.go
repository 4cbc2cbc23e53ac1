package pglog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
)

// golden are headers and the bytes that they have been stored as since format 1.
var golden = []struct {
	headers mainstem.Headers
	bytes   string
}{
	{mainstem.Headers{{Name: "a", Value: []byte("xy")}}, "0001" + "0001" + "61" + "00000003" + "7879"},
	{mainstem.Headers{{Name: "", Value: nil}, {Name: "b", Value: []byte{}}}, "0002" + "0000" + "00000000" + "0001" + "62" + "00000001"},
}

func TestHeadersGolden(t *testing.T) {
	for _, g := range golden {
		if got := hex.EncodeToString(appendHeaders(nil, g.headers)); got != g.bytes {
			t.Errorf("%v is stored as %s, was %s", g.headers, got, g.bytes)
		}
		b, err := hex.DecodeString(g.bytes)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeHeaders(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(g.headers, got); d != "" {
			t.Error(d)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	for _, g := range golden {
		f.Add(appendHeaders(nil, g.headers))
	}
	f.Add([]byte{0xff, 0xff, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeaders(b)
		if err != nil || len(b) == 0 {
			return
		}
		if again := appendHeaders(nil, h); !bytes.Equal(again, b) {
			t.Errorf("%x is read as %v, which is %x", b, h, again)
		}
	})
}

func FuzzInt8s(f *testing.F) {
	a := newArray(oidInt8, 2, 16)
	a.int8(1)
	a.int8(-1)
	f.Add(a.param())
	f.Add(make([]byte, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeInt8s(b)
		if err != nil || v == nil {
			return
		}
		a := newArray(oidInt8, len(v), 8*len(v))
		for _, n := range v {
			a.int8(n)
		}
		if len(v) > 0 && !bytes.Equal(a.param()[arrayHead:], b[arrayHead:]) {
			t.Errorf("%x is read as %v", b, v)
		}
	})
}

// A server, or what answers in its place, must not be able to bring a client down.
func FuzzResult(f *testing.F) {
	f.Add(make([]byte, 8), []byte(nil), []byte("\x01[{\"batch\":1,\"condition\":1}]"), []byte(nil), []byte(nil))
	f.Fuzz(func(_ *testing.T, n, versions, failures, repeats, heads []byte) {
		c := &call{keys: []int32{0, 1}, upto: []int64{1, 1}}
		r, err := decodeResult(c, [][]byte{n, n, versions, failures, repeats, heads})
		if err != nil {
			return
		}
		b := mainstem.NewBatch()
		b.Put("s", []byte("k"), nil)
		b.IfAbsent("s", []byte("k"))
		if f, ok := r.failures[0]; ok && f.Space == 0 {
			_ = f.explain(b, 0).Error()
		}
		_, _ = r.receipt(2)
	})
}

func FuzzPage(f *testing.F) {
	eight := binary.BigEndian.AppendUint64(nil, 7)
	f.Add(eight, eight, []byte{0, 1}, []byte("k"), []byte{0, 0}, []byte("v"))
	f.Fuzz(func(t *testing.T, extra, version, tomb, key, headers, value []byte) {
		p := page{space: "s"}
		row := [][]byte{extra, version, version, version, version, nil, tomb, headers, value, key, nil}
		if p.add(row) != nil || len(p.records) == 0 {
			return
		}
		if r := p.records[0]; !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value) || (r.Value == nil) != (value == nil) {
			t.Errorf("key %q and value %q became %+v", key, value, r)
		}
	})
}

// longKey draws keys around the length that an index takes, with long common beginnings.
func longKey(t *rapid.T, label string) []byte {
	key := bytes.Repeat([]byte{rapid.SampledFrom([]byte{0, 'a', 0xff}).Draw(t, label+" of")}, rapid.SampledFrom([]int{0, 1, nameMax - 1, nameMax, nameMax + 1, 4000}).Draw(t, label+" length"))
	return append(key, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, label+" end")...)
}

func TestSplitKeysKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := longKey(t, "a"), longKey(t, "b")
		x, y := split(a), split(b)
		order := bytes.Compare(x.first, y.first)
		if order == 0 {
			order = bytes.Compare(x.rest, y.rest)
		}
		if order != bytes.Compare(a, b) {
			t.Fatalf("%d bytes and %d bytes are in order %d, split in %d", len(a), len(b), bytes.Compare(a, b), order)
		}
		if same := bytes.Equal(x.first, y.first) && bytes.Equal(x.mark, y.mark); same != bytes.Equal(a, b) {
			t.Fatalf("the index takes %q and %q for equal: %v", a, b, same)
		}
	})
}

func TestSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff}), 1, 4).Draw(t, "prefix")
		key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff}), 0, 6).Draw(t, "key")
		b := prefixBounds(prefix)
		inside := bytes.Compare(key, b.lower) >= 0 && (b.upper == nil || bytes.Compare(key, b.upper) < 0)
		if inside != bytes.HasPrefix(key, prefix) {
			t.Fatalf("%x is between %x and %x: %v", key, b.lower, b.upper, inside)
		}
	})
}

func TestDurabilityIsSynchronousCommit(t *testing.T) {
	l := &Log{opts: (*Options)(nil).withDefaults(), server: serverSettings{walDelay: 200e6}}
	for want, durabilities := range map[string][]mainstem.Durability{
		"":      {mainstem.Fsync, mainstem.DefaultDurability},
		"local": {mainstem.OS, mainstem.Interval(599e6)},
		"off":   {mainstem.Interval(600e6), mainstem.Interval(3600e9)},
	} {
		for _, d := range durabilities {
			group := []*mainstem.Batch{{Durability: mainstem.Interval(3600e9)}, {Durability: d}}
			if got := string(l.synchronous(group)); got != want {
				t.Errorf("%v with others is %q, want %q", d, got, want)
			}
		}
	}
}

// A batch with a condition on what another one of the group writes must wait for the next.
func TestGroups(t *testing.T) {
	put := func(key string, conditions ...string) *waiter {
		b := mainstem.NewBatch()
		b.Put("s", []byte(key), nil)
		for _, c := range conditions {
			b.IfAbsent("s", []byte(c))
		}
		return &waiter{batch: b, writes: 1, bytes: len(key)}
	}
	same := func() *waiter { w := put("id"); w.batch.ID, w.id = "id", "id"; return w }
	edit := put("edit")
	edit.alone = true
	gone := put("gone")
	gone.stage = left
	a, b, c, d, e, f, g := put("a"), put("b", "a"), put("c", "c"), put("a"), same(), same(), put("g")
	l := &Log{}
	l.committer.start(l)
	l.committer.close()
	l.committer.mu.queue = []*waiter{a, b, gone, c, d, e, f, edit, g}
	for i, want := range [][]*waiter{{a, c, d, e}, {b, f}, {edit}, {g}, nil} {
		if got := l.committer.pickLocked(); !slices.Equal(got, want) {
			t.Errorf("group %d has %d batches, want %d", i, len(got), len(want))
		}
	}
}
