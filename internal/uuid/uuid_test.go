package uuid

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// UUIDs of times sort as the times do, and are of version 7.
func TestSortedAt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 999_999_000, time.UTC)
	var before UUID
	for range 5000 {
		id := SortedAt(at)
		if bytes.Compare(id[:8], before[:8]) <= 0 || id[6]>>4 != 7 || id[8]>>6 != 2 {
			t.Fatalf("%s at %v is not above %s", id, at, before)
		}
		before, at = id, at.Add(245*time.Nanosecond)
	}
}

// TestVersions: the bits of version and variant are those of RFC 9562, and the rest varies.
func TestVersions(t *testing.T) {
	for version, make := range map[byte]func() UUID{
		4: Random,
		5: func() UUID { return Named(Random(), []byte("x")) },
		7: func() UUID { return Sorted(1_700_000_000_000) },
	} {
		var ones, zeros UUID
		for range 200 {
			id := make()
			if id[6]>>4 != version || id[8]>>6 != 2 {
				t.Fatalf("version %d: %s", version, id)
			}
			for i := range id {
				ones[i] |= id[i]
				zeros[i] |= ^id[i]
			}
		}
		from := map[byte]int{7: 6}[version] // what comes before is the time
		for i := from; i < len(ones); i++ {
			want := map[int]byte{6: 0x0f, 8: 0x3f}[i]
			if want == 0 {
				want = 0xff
			}
			if ones[i]&zeros[i] != want {
				t.Errorf("version %d, byte %d: bits %08b vary, want %08b", version, i, ones[i]&zeros[i], want)
			}
		}
	}
}

func TestSorted(t *testing.T) {
	const ms = 0x0188_90ab_cdef
	a, b := Sorted(ms), Sorted(ms+1)
	if bytes.Compare(a[:], b[:]) >= 0 {
		t.Errorf("%s, made earlier, sorts after %s", a, b)
	}
	if !strings.HasPrefix(a.String(), "018890ab-cdef-7") {
		t.Error(a)
	}
}

// TestNamed compares with the example of RFC 9562, appendix A.4: www.example.com in the
// namespace of domain names.
func TestNamed(t *testing.T) {
	dns, err := Parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	if err != nil {
		t.Fatal(err)
	}
	if got := Named(dns, []byte("www.example.com")).String(); got != "2ed6657d-e927-568b-95e1-2665a8aea6a2" {
		t.Error(got)
	}
}

func TestParse(t *testing.T) {
	const text = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, s := range []string{text, strings.ToUpper(text)} {
		if id, err := Parse(s); err != nil || id.String() != text {
			t.Errorf("%s: %s, %v", s, id, err)
		}
	}
	for _, s := range []string{"", text[1:], text + "0", strings.ReplaceAll(text, "-", "+"), "g" + text[1:], "{" + text + "}", "urn:uuid:" + text} {
		if id, err := Parse(s); err == nil {
			t.Errorf("%q is taken for %s", s, id)
		}
	}
}
