package cli

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBytesInJSON(t *testing.T) {
	for in, want := range map[string]string{
		"":                     `"v":""`,
		"text":                 `"v":"text"`,
		"42":                   `"v":"42"`,
		`"quoted"`:             `"v":"\"quoted\""`,
		`{"a": 1.50, "b":[1]}`: `"v":{"a":1.50,"b":[1]}`,
		"[1, 2]":               `"v":[1,2]`,
		"{broken":              `"v":"{broken"`,
		"<&>":                  `"v":"<&>"`,
		"\xff\x00":             `"v_base64":"/wA="`,
		"{\"a\":\"\xff\"}":     `"v_base64":"eyJhIjoi/yJ9"`,
	} {
		if got := new(Fields).Bytes("v", []byte(in)).buf.String(); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if got := new(Fields).Bytes("v", nil).buf.String(); got != `"v":null` {
		t.Errorf("nil: %s", got)
	}
}

func TestTextsInJSON(t *testing.T) {
	for _, c := range []struct {
		in   map[string]string
		want string
	}{
		{nil, ``},
		{map[string]string{"b": "2", "a": ""}, `"m":{"a":"","b":"2"}`},
		{map[string]string{"a": "1", "b": "\xff\x00"}, `"m":{"a":"1"},"m_base64":{"b":"/wA="}`},
		{map[string]string{"b": "\xff"}, `"m_base64":{"b":"/w=="}`},
	} {
		if got := new(Fields).Texts("m", c.in).buf.String(); got != c.want {
			t.Errorf("%q: got %s, want %s", c.in, got, c.want)
		}
	}
	if got := new(Fields).OptText("none", "").OptText("t", "x").OptText("b", "\xff").buf.String(); got != `"t":"x","b_base64":"/w=="` {
		t.Errorf("got %s", got)
	}
}

// TestObjectsAreAlwaysJSON: whatever a log holds, a line of --json parses.
func TestObjectsAreAlwaysJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes")
		f := new(Fields).Add("n", 1).Text("key", string(b)).Bytes("value", b).Time("t", time.Now()).Time("none", time.Time{})
		Opt(f, "absent", "")
		var got map[string]any
		if err := json.Unmarshal([]byte("{"+f.buf.String()+"}"), &got); err != nil {
			rt.Fatalf("%v: %s", err, f.buf.String())
		}
		if _, ok := got["absent"]; ok || got["none"] != nil {
			rt.Errorf("fields that are zero are there: %v", got)
		}
	})
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä": "plain ä", "tab\t": `"tab\t"`, "line\n": `"line\n"`, "\x1b[31m": `"\x1b[31m"`, "\xff": `"\xff"`, "": "",
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}
