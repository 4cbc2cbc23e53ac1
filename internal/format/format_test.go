package format_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew: only for a new format version")

// golden is one thing of every kind that is persisted.
func golden() []struct {
	name  string
	bytes []byte
} {
	headers := mainstem.Headers{{Name: "type", Value: []byte("commit")}, {Name: "nil"}, {Name: "empty", Value: []byte{}}}
	body := format.Body{Version: 300, Position: 70_000, Time: 1_700_000_000_123_456_789, Count: 1, Value: []byte("value")}
	full := format.Body{Version: 9, Position: 5, Time: 1, Expires: 2, Count: 3, Value: []byte{}}
	tomb := format.Body{Version: 2, Position: 3, Time: 4, Count: 1, Tombstone: mainstem.Expired}
	marker := format.Body{Version: 2, Time: 4, Count: 1, VersionMarker: true}
	written := format.Body{Version: 2, Time: 4, Count: 1, VersionMarker: true}
	written.SetWritten(70_000)
	external := format.Body{Version: 1, Position: 1, Time: 1, Count: 1, Value: []byte("left out"), External: true}
	plain := format.AppendBody(nil, &body, nil)
	policy := mainstem.Policy{
		History: 5, MaxAge: time.Hour, MaxBytes: 1 << 30, TombstoneAge: -1, NoFeed: true,
		Metadata: map[string]string{"b": "2", "a": "1"},
	}
	return []struct {
		name  string
		bytes []byte
	}{
		{"space key", format.AppendSpaceKey(nil, "kv/db/t")},
		{"totals key", format.AppendTotalsKey(nil, 7)},
		{"slot key", format.AppendSlotKey(nil, 7, []byte("k\x00y"))},
		{"version prefix", format.AppendPrefix(nil, format.TagVersion, 7, []byte("k\x00y"))},
		{"version key", format.AppendVersion(format.AppendPrefix(nil, format.TagVersion, 7, []byte("k\x00y")), 258)},
		{"older key", format.AppendVersion(format.AppendPrefix(nil, format.TagOlder, 7, []byte("key")), 1)},
		{"feed key", format.AppendFeedKey(nil, 7, 70_000)},
		{"expiry key", format.AppendExpiryKey(nil, 1_700_000_000_000_000_000, 7, []byte("key"), 3)},
		{"receipt key", format.AppendReceiptKey(nil, "id-1")},
		{"id order key", format.AppendIDOrderKey(nil, 1_700_000_000_000_000_000, "id-1")},
		{"body", plain},
		{"body with everything", format.AppendBody(nil, &full, headers)},
		{"tombstone", format.AppendBody(nil, &tomb, nil)},
		{"version marker", format.AppendBody(nil, &marker, nil)},
		{"version marker with a position", format.AppendBody(nil, &written, nil)},
		{"external body", format.AppendBody(nil, &external, nil)},
		{"feed block", format.AppendFeedEntry(format.AppendFeedEntry(nil, []byte("a"), plain), []byte("b"), plain)},
		{"space", format.AppendSpace(nil, &format.Space{ID: 7, Created: 1, Policy: policy})},
		{"totals", format.AppendTotals(nil, &format.Totals{Last: 70_000, Keys: 1, Records: 2, Bytes: 300, Floor: 4, Updated: 5})},
		{"counters", format.AppendCounters(nil, format.Counters{Last: 70_000, NextSpace: 8, Time: 5})},
		{"receipt", format.AppendReceipt(nil, &format.Receipt{First: 1, Last: 300, Time: 5, Versions: []mainstem.Version{1, 0, 300}})},
		{"identity", format.AppendIdentity(nil, format.Identity{Format: 1, ID: "01890a5d-ac96-774b-bcce-b302099a8057", Created: time.Unix(1_700_000_000, 0)})},
	}
}

func TestWritten(t *testing.T) {
	for _, p := range []uint64{1, 127, 128, 70_000, 1<<63 - 1} {
		b := format.Body{Version: 2, Time: 4, Count: 1, VersionMarker: true}
		if b.Written() != 0 {
			t.Fatalf("a marker that does not say gives position %d", b.Written())
		}
		b.SetWritten(p)
		got, err := format.DecodeBody(format.AppendBody(nil, &b, nil))
		if err != nil || got.Written() != p {
			t.Fatalf("a marker of position %d gives %d, %v", p, got.Written(), err)
		}
	}
}

// TestGolden pins every persisted byte. A difference means that logs written by
// released versions can no longer be read: raise format.Version instead.
func TestGolden(t *testing.T) {
	var got strings.Builder
	for _, g := range golden() {
		fmt.Fprintf(&got, "%s: %s\n", g.name, hex.EncodeToString(g.bytes))
	}
	compare(t, "testdata/format1.golden", got.String())
}

// TestGoldenClock pins what format 2 adds.
func TestGoldenClock(t *testing.T) {
	body := format.Body{Version: 1, Position: 70_000, Time: 1_700_000_000_000_000_000, Clock: 1_699_999_999_999_999_700, Count: 1, Value: []byte("value")}
	full := format.Body{Version: 9, Position: 5, Time: 2000, Clock: 1000, Expires: 3, Count: 3, Value: []byte{}}
	var got strings.Builder
	for _, g := range []struct {
		name  string
		bytes []byte
	}{
		{"body behind its time", format.AppendBody(nil, &body, nil)},
		{"body behind its time, with everything", format.AppendBody(nil, &full, mainstem.Headers{{Name: "a", Value: []byte("b")}})},
		{"totals behind their time", format.AppendTotals(nil, &format.Totals{Last: 70_000, Keys: 1, Records: 2, Bytes: 300, Floor: 4, Updated: 5, Clock: 3})},
		{"counters behind their time", format.AppendCounters(nil, format.Counters{Last: 70_000, NextSpace: 8, Time: 5, Clock: 3})},
		{"clock key", format.AppendClockKey(nil, 70_000)},
		{"clock mark", format.AppendClockMark(nil, 7, 6)},
	} {
		fmt.Fprintf(&got, "%s: %s\n", g.name, hex.EncodeToString(g.bytes))
	}
	compare(t, "testdata/format2.golden", got.String())
	position, high, clock, err := format.DecodeClockMark(format.AppendClockKey(nil, 70_000), format.AppendClockMark(nil, 7, 6))
	if err != nil || position != 70_000 || high != 7 || clock != 6 {
		t.Errorf("a mark came back as %d, %d, %d, %v", position, high, clock, err)
	}
}

// TestGoldenJournaled pins what format 3 adds, the journal aside.
func TestGoldenJournaled(t *testing.T) {
	compare(t, "testdata/format3.golden", fmt.Sprintf("frame number: %x\n", format.AppendFrameNumber(nil, 70_000)))
	for _, n := range []uint64{0, 1, 70_000, math.MaxUint64} {
		if got, err := format.DecodeFrameNumber(format.AppendFrameNumber(nil, n)); err != nil || got != n {
			t.Errorf("frame number %d came back as %d, %v", n, got, err)
		}
	}
	for _, bad := range [][]byte{nil, {0x80}, {1, 2}} {
		if _, err := format.DecodeFrameNumber(bad); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%x: %v, want ErrCorrupt", bad, err)
		}
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("persisted bytes changed (-golden +now):\n%s", diff)
	}
}

func bodyGen(t *rapid.T) (format.Body, mainstem.Headers) {
	b := format.Body{
		Version:       rapid.Uint64().Draw(t, "version"),
		Position:      rapid.Uint64().Draw(t, "position"),
		Time:          rapid.Int64().Draw(t, "time"),
		Expires:       rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "expires"),
		Count:         rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Min(1)).Draw(t, "count"),
		Tombstone:     mainstem.Tombstone(rapid.IntRange(0, 3).Draw(t, "tombstone")),
		VersionMarker: rapid.Bool().Draw(t, "version marker"),
	}
	b.Clock = b.Time
	if lag := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Min(0)).Draw(t, "lag"); b.Time >= 0 && lag < b.Time {
		b.Clock -= lag
	}
	b.Value = nilOr(t, "value")
	var h mainstem.Headers
	for range rapid.IntRange(0, 4).Draw(t, "headers") {
		h = append(h, mainstem.Header{Name: rapid.String().Draw(t, "name"), Value: nilOr(t, "header")})
	}
	return b, h
}

func nilOr(t *rapid.T, label string) []byte {
	if rapid.Bool().Draw(t, label+" is nil") {
		return nil
	}
	return append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, label)...)
}

func TestBodyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, headers := bodyGen(t)
		p := format.AppendBody(nil, &want, headers)
		got, err := format.DecodeBody(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(headers, got.Headers(nil, false)); diff != "" {
			t.Fatalf("headers (-want +got):\n%s", diff)
		}
		size := int64(len(want.Value))
		for _, h := range headers {
			size += int64(len(h.Name) + len(h.Value))
		}
		if got.Size() != size {
			t.Fatalf("size %d, want %d", got.Size(), size)
		}
		if pos, err := format.PeekPosition(p); err != nil || pos != want.Position {
			t.Fatalf("peeked position %d, %v", pos, err)
		}
		got.DropHeaders()
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(format.Body{})); diff != "" {
			t.Fatalf("body (-want +got):\n%s", diff)
		}
	})
}

// TestKeyOrder checks that engine keys sort as the user's keys and versions do,
// and that no key lies inside the range of another's versions.
func TestKeyOrder(t *testing.T) {
	small := rapid.SliceOfN(rapid.SampledFrom([]byte{0x00, 0x01, 0x02, 'a', 0xfe, 0xff}), 1, 12)
	rapid.Check(t, func(t *rapid.T) {
		a, b := small.Draw(t, "a"), small.Draw(t, "b")
		va, vb := rapid.Uint64().Draw(t, "va"), rapid.Uint64().Draw(t, "vb")
		pa := format.AppendPrefix(nil, format.TagVersion, 1, a)
		pb := format.AppendPrefix(nil, format.TagVersion, 1, b)
		ka, kb := format.AppendVersion(pa[:len(pa):len(pa)], va), format.AppendVersion(pb[:len(pb):len(pb)], vb)
		want := bytes.Compare(a, b)
		if want == 0 {
			want = bytes.Compare(ka[len(pa):], kb[len(pb):])
		}
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("compare %x %x: %d, want %d", ka, kb, got, want)
		}
		if format.PrefixLen(ka) != len(pa) || format.PrefixLen(pa) != len(pa) {
			t.Fatalf("prefix of %x: %d, of %x: %d, want %d", ka, format.PrefixLen(ka), pa, format.PrefixLen(pa), len(pa))
		}
		if end := format.AppendPrefixEnd(nil, pa); bytes.Compare(ka, end) >= 0 || !bytes.Equal(a, b) && (bytes.Compare(kb, pa) >= 0) && bytes.Compare(kb, end) < 0 {
			t.Fatalf("%x or %x is on the wrong side of %x", ka, kb, end)
		}
		back, err := format.AppendUnescaped(nil, pa)
		if err != nil || !bytes.Equal(back, a) {
			t.Fatalf("unescaped %x, %v, want %x", back, err, a)
		}
	})
}

// TestPrefixOrder checks what Pebble demands of a comparer: prefixes sort as their
// keys do, for keys and for the bounds that scans use.
func TestPrefixOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := func(label string) []byte {
			raw := rapid.SliceOfN(rapid.SampledFrom([]byte{0x00, 0x01, 'a', 0xff}), 1, 10).Draw(t, label)
			id := rapid.SampledFrom([]uint32{1, 0x00010001, 0x01000100}).Draw(t, label+" space")
			p := format.AppendPrefix(nil, format.TagVersion, id, raw)
			switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
			case 0:
				return p
			case 1:
				return format.AppendPrefixEnd(nil, p)
			case 2:
				return format.AppendEscaped(format.AppendHead(nil, format.TagVersion, id), raw)
			}
			return format.AppendVersion(p, rapid.Uint64().Draw(t, label+" version"))
		}
		a, b := key("a"), key("b")
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		if pa, pb := a[:format.PrefixLen(a)], b[:format.PrefixLen(b)]; bytes.Compare(pa, pb) > 0 {
			t.Fatalf("%x < %x, but the prefix of the first is larger: %x > %x", a, b, pa, pb)
		}
	})
}

func TestSuccessor(t *testing.T) {
	for _, c := range []struct{ in, want string }{{"a", "b"}, {"a\xff", "b"}, {"a\xff\xff", "b"}, {"\xff", ""}, {"", ""}, {"az", "a{"}} {
		if got := format.AppendSuccessor(nil, []byte(c.in)); string(got) != c.want {
			t.Errorf("successor of %q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestSmallStructsRoundTrip(t *testing.T) {
	space := format.Space{ID: math.MaxUint32, Created: -5, Policy: mainstem.Policy{
		History: 3, MaxAge: time.Hour, MaxBytes: math.MaxInt64, TombstoneAge: -time.Hour, NoFeed: true, Metadata: map[string]string{"": "x", "y": ""},
	}}
	gotSpace, err := format.DecodeSpace(format.AppendSpace(nil, &space))
	if diff := cmp.Diff(space, gotSpace); err != nil || diff != "" {
		t.Errorf("space: %v\n%s", err, diff)
	}
	totals := format.Totals{Last: math.MaxUint64, Keys: 1, Records: 2, Bytes: math.MaxInt64, Floor: 4, Updated: -1, Clock: -2}
	gotTotals, err := format.DecodeTotals(format.AppendTotals(nil, &totals))
	if err != nil || gotTotals != totals {
		t.Errorf("totals: %+v, %v", gotTotals, err)
	}
	counters := format.Counters{Last: 1, NextSpace: math.MaxUint32, Time: 3, Clock: 2}
	gotCounters, err := format.DecodeCounters(format.AppendCounters(nil, counters))
	if err != nil || gotCounters != counters {
		t.Errorf("counters: %+v, %v", gotCounters, err)
	}
	receipt := format.Receipt{First: 1, Last: 2, Time: 3, Versions: []mainstem.Version{4, 0, math.MaxUint64}}
	gotReceipt, err := format.DecodeReceipt(format.AppendReceipt(nil, &receipt))
	if diff := cmp.Diff(receipt, gotReceipt); err != nil || diff != "" {
		t.Errorf("receipt: %v\n%s", err, diff)
	}
}

func TestIdentity(t *testing.T) {
	want := format.Identity{Format: 1, ID: "some-id", Created: time.Unix(1_700_000_000, 0).UTC()}
	p := format.AppendIdentity(nil, want)
	got, err := format.DecodeIdentity(p)
	if err != nil || got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i := range p {
		for bit := range 8 {
			q := slices.Clone(p)
			q[i] ^= 1 << bit
			if id, err := format.DecodeIdentity(q); err == nil {
				t.Errorf("byte %d, bit %d flipped: accepted as %+v", i, bit, id)
			}
		}
	}
	newer := format.AppendIdentity(nil, format.Identity{Format: 99, ID: "x", Created: want.Created})
	if id, err := format.DecodeIdentity(newer); !errors.Is(err, format.ErrTooRecent) || id.Format != 99 {
		t.Errorf("newer format: %+v, %v", id, err)
	}
}
