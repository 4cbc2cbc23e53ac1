package main

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/event"
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
		if got := new(fields).bytes("v", []byte(in)).buf.String(); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if got := new(fields).bytes("v", nil).buf.String(); got != `"v":null` {
		t.Errorf("nil: %s", got)
	}
}

// TestObjectsAreAlwaysJSON: whatever a log holds, a line of --json parses.
func TestObjectsAreAlwaysJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes")
		f := new(fields).add("n", 1).text("key", string(b)).bytes("value", b).time("t", time.Now()).time("none", time.Time{})
		opt(f, "absent", "")
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
		if got := printable([]byte(in)); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestParseExpected(t *testing.T) {
	for in, want := range map[string]event.Expected{
		"any": event.AnyVersion, "none": event.NoStream, "exists": event.StreamExists, "0": event.NoStream, "7": 7, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := parseExpected(in); err != nil || got != want {
			t.Errorf("parseExpected(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "some", "9223372036854775808", "1.5"} {
		if got, err := parseExpected(in); err == nil {
			t.Errorf("parseExpected(%q) = %v", in, got)
		}
	}
}

func TestParseFrom(t *testing.T) {
	for _, in := range []string{"start", "end", "0", "17", "2026-01-31T08:00:00Z", "2026-01-31T08:00:00+02:00", "90m", "1h30m"} {
		if _, err := parseFrom(in, nil, 3); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"", "-1", "-1h", "begin", "2026-01-31", "99999999999999999999"} {
		if _, err := parseFrom(in, nil, 3); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}
