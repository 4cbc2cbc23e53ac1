package kv

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flag"

	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// The bytes of entries stay what they are: those of older logs are read by newer programs.
func TestEntriesAreStoredAsBefore(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		name  string
		parts []Part
	}{
		{"nothing", nil},
		{"null", []Part{Null()}},
		{"bools", []Part{Bool(false), Bool(true)}},
		{"ints", []Part{Int(0), Int(1), Int(-1), Int(math.MaxInt64), Int(math.MinInt64), Int(1<<53 + 1), Int(-1<<53 - 1)}},
		{"uint", []Part{Uint(math.MaxUint64)}},
		{"floats", []Part{Float(1.5), Float(-1.5), Float(math.Inf(1)), Float(math.Inf(-1)), Float(math.NaN())}},
		{"texts", []Part{Text(""), Text("ada"), Text("a\x00b\x00\xff")}},
		{"bytes", []Part{Bytes(nil), Bytes([]byte{0, 1, 255})}},
		{"times", []Part{Time(time.Unix(0, 0)), Time(time.Unix(1700000000, 5)), Time(time.Time{})}},
	} {
		out.WriteString(c.name + "\t" + hex.EncodeToString(entryKey(c.parts, "key\x00", false)) + "\n")
		out.WriteString(c.name + " unique\t" + hex.EncodeToString(entryKey(c.parts, "key", true)) + "\n")
	}
	path := filepath.Join("testdata", "entries.golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("entries are now\n%s\nthey were\n%s", out.String(), want)
	}
}

// plain is a value that a part was made of, for the order that it should have.
type plain struct {
	class  int
	number *big.Float // nil: NaN
	text   string
	at     time.Time
	part   Part
}

func (a plain) compare(b plain) int {
	if a.class != b.class {
		return cmp.Compare(a.class, b.class)
	}
	switch {
	case a.class == 3 && (a.number == nil || b.number == nil):
		return boolInt(a.number != nil) - boolInt(b.number != nil)
	case a.class == 3:
		return a.number.Cmp(b.number)
	case a.class == 6:
		return a.at.Compare(b.at)
	}
	return strings.Compare(a.text, b.text)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func bigFloat(f float64) *big.Float {
	if math.IsNaN(f) {
		return nil
	}
	return new(big.Float).SetPrec(200).SetFloat64(f)
}

var (
	edges     = []int64{0, 1, -1, 1 << 53, 1<<53 + 1, 1<<53 - 1, -1<<53 - 1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, 1<<62 + 511}
	anyText   = rapid.OneOf(rapid.StringOf(rapid.SampledFrom([]rune{0, 1, 'a', 'b', 0xff})), rapid.String())
	anyNumber = rapid.Custom(func(t *rapid.T) plain {
		switch rapid.IntRange(0, 3).Draw(t, "kind of number") {
		case 0:
			v := rapid.OneOf(rapid.Int64(), rapid.SampledFrom(edges)).Draw(t, "int")
			return plain{class: 3, number: new(big.Float).SetPrec(200).SetInt64(v), part: Int(v)}
		case 1:
			v := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{math.MaxUint64, math.MaxUint64 - 1, 1 << 63, 1<<63 + 1})).Draw(t, "uint")
			return plain{class: 3, number: new(big.Float).SetPrec(200).SetUint64(v), part: Uint(v)}
		case 2:
			v := float64(rapid.SampledFrom(edges).Draw(t, "near")) + rapid.SampledFrom([]float64{0, 0.5, -0.5}).Draw(t, "off")
			return plain{class: 3, number: bigFloat(v), part: Float(v)}
		}
		v := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64})).Draw(t, "float")
		return plain{class: 3, number: bigFloat(v), part: Float(v)}
	})
	anyPart = rapid.Custom(func(t *rapid.T) plain {
		switch class := rapid.IntRange(0, 6).Draw(t, "class"); class {
		case 1:
			return plain{class: 1, part: Bool(false)}
		case 2:
			return plain{class: 2, part: Bool(true)}
		case 3:
			return anyNumber.Draw(t, "number")
		case 4:
			s := anyText.Draw(t, "text")
			return plain{class: 4, text: s, part: Text(s)}
		case 5:
			s := anyText.Draw(t, "bytes")
			return plain{class: 5, text: s, part: Bytes([]byte(s))}
		case 6:
			at := time.Unix(rapid.OneOf(rapid.Int64Range(-1<<40, 1<<40), rapid.SampledFrom([]int64{0, -1})).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds"))
			return plain{class: 6, at: at, part: Time(at)}
		}
		return plain{part: Null()}
	})
)

func partList(list []plain) (parts []Part) {
	for _, p := range list {
		parts = append(parts, p.part)
	}
	return parts
}

// The order of stored entries is that of their values, part by part, and then that of the keys.
func TestEntriesAreOrderedAsTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(anyPart, 0, 3)
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		if rapid.Bool().Draw(t, "related") {
			b = append(slices.Clone(a[:rapid.IntRange(0, len(a)).Draw(t, "shared")]), b...)
		}
		ka, kb := anyText.Draw(t, "key of a"), anyText.Draw(t, "key of b")
		want := slices.CompareFunc(a, b, plain.compare)
		if want == 0 {
			want = strings.Compare(ka, kb)
		}
		ea, eb := entryKey(partList(a), ka, false), entryKey(partList(b), kb, false)
		if got := bytes.Compare(ea, eb); got != want {
			t.Fatalf("%v %q and %v %q compare as %d, want %d:\n%x\n%x", partList(a), ka, partList(b), kb, got, want, ea, eb)
		}
		parts, key, err := decodeEntry(ea)
		if err != nil || key != ka || !slices.Equal(parts, partList(a)) {
			t.Fatalf("%v %q was read as %v %q, %v", partList(a), ka, parts, key, err)
		}
	})
}

// A prefix of a text is a prefix of the entries of all texts that begin with it, and of no others.
func TestTextPrefixesArePrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := anyText.Draw(t, "text"), anyText.Draw(t, "prefix")
		if rapid.Bool().Draw(t, "related") {
			s = p + s
		}
		got := bytes.HasPrefix(entryKey([]Part{Text(s)}, "k", false), appendParts(nil, []Part{TextPrefix(p)}))
		if want := strings.HasPrefix(s, p); got != want {
			t.Fatalf("the entry of %q begins with the prefix of %q: %v, want %v", s, p, got, want)
		}
	})
}

func TestPartsHaveATextForm(t *testing.T) {
	for want, p := range map[string]Part{
		"null": Null(), "true": Bool(true), "false": Bool(false), "42": Int(42), "-9007199254740993": Int(-1<<53 - 1),
		"18446744073709551615": Uint(math.MaxUint64), "1.5": Float(1.5), "NaN": Float(math.NaN()), `"a\x00b"`: Text("a\x00b"),
		`"ad"...`: TextPrefix("ad"), "00ff": Bytes([]byte{0, 255}), "2023-11-14T22:13:20Z": Time(time.Unix(1700000000, 0)),
	} {
		if got := p.String(); got != want {
			t.Errorf("the part is shown as %s, want %s", got, want)
		}
	}
}

// Whatever bytes stand where an entry should be, they are refused or are exactly one entry.
func FuzzDecodeEntry(f *testing.F) {
	f.Add(entryKey([]Part{Null(), Bool(true), Int(-5), Uint(math.MaxUint64), Float(1.5), Text("a\x00"), Bytes([]byte{1}), Time(time.Unix(1, 2))}, "key", false))
	f.Add([]byte{tagText, 0, escaped})
	f.Add([]byte{tagNumber, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, key, err := decodeEntry(b)
		end, endErr := entryEnd(b)
		if (err == nil) != (endErr == nil) {
			t.Fatalf("%x: decoded %v, its end %v", b, err, endErr)
		}
		if err != nil {
			return
		}
		for _, p := range parts {
			_ = p.String()
		}
		if again := entryKey(parts, key, false); !bytes.Equal(again, b) || end != len(b)-len(key)-1 {
			t.Fatalf("%x was read as %v %q, which is stored as %x; its parts end at %d", b, parts, key, again, end)
		}
	})
}
