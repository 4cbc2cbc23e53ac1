package binary_test

import (
	"bufio"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem/codec/binary"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing with them")

const goldenFile = "testdata/golden.txt"

func pointerTo[T any](v T) *T { return &v }

// golden are values of each kind, with names that do not change.
var golden = []struct {
	name  string
	value any // a pointer
}{
	{"true", pointerTo(true)}, {"false", pointerTo(false)},
	{"int-min", pointerTo(math.MinInt64)}, {"int8", pointerTo(int8(-2))}, {"int32", pointerTo(int32(64))},
	{"uint", pointerTo(uint(300))}, {"uint64-max", pointerTo(uint64(math.MaxUint64))},
	{"float32", pointerTo(float32(1.5))}, {"float64", pointerTo(1.5)}, {"minus-zero", pointerTo(math.Copysign(0, -1))},
	{"complex64", pointerTo(complex64(1 + 2i))}, {"complex128", pointerTo(1 + 2i)},
	{"string", pointerTo("hi")}, {"string-empty", pointerTo("")}, {"string-long", pointerTo(strings.Repeat("x", 130))},
	{"bytes", pointerTo([]byte{0, 255})}, {"bytes-empty", pointerTo([]byte{})}, {"bytes-nil", pointerTo([]byte(nil))},
	{"byte-array", pointerTo([3]byte{1, 2, 3})},
	{"list", pointerTo([]int{1, -1, 300})}, {"list-empty", pointerTo([]int{})}, {"list-nil", pointerTo([]int(nil))},
	{"array", pointerTo([2]string{"a", "b"})}, {"list-of-pointers", pointerTo([]*leaf{nil, {A: 1}})},
	{"list-of-lists", pointerTo([][]uint{nil, {}, {7}})},
	{"map", pointerTo(map[string]uint{"b": 11, "a": 0})}, {"map-nil", pointerTo(map[string]uint(nil))},
	{"map-of-maps", pointerTo(map[int]map[string]string{-1: {"k": "v"}, 2: nil})},
	{"struct", &leaf{-1, 5, "z"}}, {"struct-zero", &leaf{}},
	{"struct-in-struct", &tree{Name: "t", Children: []*tree{nil, {Name: "k"}}, By: map[string]*tree{}}},
	{"pointer", pointerTo(&leaf{S: "p"})}, {"pointer-nil", pointerTo((*leaf)(nil))}, {"pointer-int", pointerTo(pointerTo(7))},
	{"time", pointerTo(time.Unix(1_700_000_000, 5).UTC())}, {"time-east", pointerTo(time.Unix(-120, 0).In(time.FixedZone("", 3600)))},
	{"time-zero", pointerTo(time.Time{})}, {"duration", pointerTo(time.Second)},
	{"marshaler", &pair{1, 2}}, {"addr", pointerTo(netip.MustParseAddr("127.0.0.1"))},
	{"any-nil", pointerTo(any(nil))}, {"any-int", pointerTo(any(7))}, {"any-string", pointerTo(any("x"))},
	{"any-named", pointerTo(any(leaf{A: 1}))}, {"any-numbered", pointerTo(any(&leaf{A: 1}))}, {"any-number-of-two-bytes", pointerTo(any(lone{}))},
	{"any-list", pointerTo(any([]any{true, nil, map[string]any{"k": uint8(1)}}))},
	{"error-registered", pointerTo[error](io.EOF)}, {"error-of-registered-type", pointerTo[error](failure{404})},
	{"derived-numbers", &struct {
		ID   int
		Name string
	}{1, "n"}},
	{"widest-number", &struct {
		Last bool `bin:"262143"`
	}{true}},
}

// TestGolden keeps the bytes of the format: what is written today must be read by
// all versions to come, and equal bytes by a program that follows docs/codec.md.
func TestGolden(t *testing.T) {
	r := registry(t, &binary.Options{SortMaps: true})
	if *rewrite {
		writeGolden(t, r)
	}
	want := readGolden(t)
	if len(want) != len(golden) {
		t.Errorf("%s has %d values, want %d", goldenFile, len(want), len(golden))
	}
	for _, g := range golden {
		got, err := r.Append(nil, g.value)
		if err != nil || hex.EncodeToString(got) != want[g.name] {
			t.Errorf("%s: Append = %x, %v; want %s", g.name, got, err, want[g.name])
		}
		src, err := hex.DecodeString(want[g.name])
		out := reflect.New(reflect.TypeOf(g.value).Elem())
		if err == nil {
			err = r.Decode(src, out.Interface())
		}
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
		} else if diff := cmp.Diff(g.value, out.Interface(), same...); diff != "" {
			t.Errorf("%s (-want +got):\n%s", g.name, diff)
		}
	}
}

func writeGolden(t *testing.T, r *binary.Registry) {
	var s strings.Builder
	for _, g := range golden {
		buf, err := r.Append(nil, g.value)
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		fmt.Fprintf(&s, "%-26s %x\n", g.name, buf)
	}
	if err := os.WriteFile(goldenFile, []byte(s.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readGolden(t *testing.T) map[string]string {
	f, err := os.Open(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	values := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, bytes, _ := strings.Cut(lines.Text(), " ")
		values[name] = strings.TrimSpace(bytes)
	}
	return values
}
