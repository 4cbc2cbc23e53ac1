package rowjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mainstemdev/mainstem"
)

func read(t testing.TB, text string, l *Limits) (string, error) {
	t.Helper()
	r := NewReader(iotest.OneByteReader(strings.NewReader(text)), l)
	p, err := r.Value(nil)
	if err == nil {
		err = r.End()
	}
	return string(p), err
}

func TestValueCompacts(t *testing.T) {
	for in, want := range map[string]string{
		" { \"a\" : [ 1 , -2.50e+3 ,true,\n\tfalse, null ] , \"b\\n\":{ } }\r\n": `{"a":[1,-2.50e+3,true,false,null],"b\n":{}}`,
		`"ü \ud83d\ude00 \/"`: `"ü \ud83d\ude00 \/"`,
		"\"\xff\"":            `"` + "\uFFFD" + `"`,
		`0`:                   `0`,
		`[]`:                  `[]`,
	} {
		if got, err := read(t, in, nil); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

func TestValueRefuses(t *testing.T) {
	for _, in := range []string{`{`, `[1`, `{"a"}`, `{"a":}`, `{a:1}`, `[1,]`, `{"a":1,}`, `[,1]`, `01`, `-`, `1.`, `.5`, `1e`, `+1`, "\"\n\"", `"\x"`, `"\u12g4"`, `tru`, `trux`, `"a`, ``, `1 2`,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)} {
		if got, err := read(t, in, nil); err == nil {
			t.Errorf("%s was read as %s", in, got)
		}
	}
}

func TestTrimsOneNUL(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"x\u0000","b":"\u0000\u0000","c\u0000":"\\u0000","d":"\u0000x"}`: `{"a":"x","b":"\u0000","c\u0000":"\\u0000","d":"\u0000x"}`,
	} {
		if got, err := read(t, in, &Limits{TrimNUL: true}); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

func TestLimits(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 100) + `"}`
	if _, err := read(t, long, &Limits{MaxValue: 50}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Error("a long value:", err)
	}
	if _, err := read(t, long, &Limits{MaxBytes: 50}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Error("a long stream:", err)
	}
	if _, err := read(t, long, &Limits{MaxBytes: int64(len(long)), MaxValue: len(long)}); err != nil {
		t.Error("a value as long as the limit:", err)
	}
	if _, err := read(t, `{"a":1`, nil); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Error("a stream that breaks off:", err)
	}
}

func TestRow(t *testing.T) {
	r := NewRow([]byte(`{"A":"it\"s \u00e4","B":-7,"C":1.5,"D":null,"E":true,"F":{"x":[1,"]"]},"n\u0061me":"12"}`))
	if r.Text("A") != `it"s ä` || r.Int("B") != -7 || r.Real("C") != 1.5 || r.Int("C") != 1 || r.Text("D") != "" || r.Int("E") != 1 || r.Int("name") != 12 || r.Text("missing") != "" || r.Int("missing") != 0 {
		t.Error("values are not what the row says")
	}
	if _, ok := r.Get("missing"); ok {
		t.Error("a column that is not there is there")
	}
	var names []string
	values := map[string]any{}
	for name, v := range r.All() {
		names = append(names, name)
		values[name] = v.Any()
	}
	if strings.Join(names, ",") != "A,B,C,D,E,F,name" || values["B"] != int64(-7) || values["C"] != 1.5 || values["D"] != nil || values["E"] != true {
		t.Error(names, values)
	}
}

func TestArrayAndObject(t *testing.T) {
	r := NewReader(strings.NewReader(`{"n": 5, "rows": [{"a":1}, {"a":2}], "t":"x"} `), nil)
	var n, sum int64
	var text string
	err := r.Object(func(key string) (err error) {
		switch key {
		case "n":
			n, err = r.Int()
		case "t":
			text, err = r.Text()
		case "rows":
			return r.Array(func() error {
				raw, err := r.Value(nil)
				sum += NewRow(raw).Int("a")
				return err
			})
		default:
			return r.Skip()
		}
		return err
	})
	if err != nil || r.End() != nil || n != 5 || sum != 3 || text != "x" {
		t.Error(n, sum, text, err)
	}
}

// FuzzValue compares with encoding/json: what it accepts is accepted (up to the
// limits), what is returned means the same, and is not longer.
func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e-7,"x\u0000",null]}`, `"\ud800"`, `[[],{}]`, " -0 ", `{"":"\\"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(iotest.HalfReader(bytes.NewReader(in)), nil)
		got, err := r.Value(nil)
		if err == nil {
			err = r.End()
		}
		if err != nil {
			if json.Valid(in) && mainstem.KindOf(err) != mainstem.KindCorrupt {
				t.Fatal("refused:", err)
			}
			if json.Valid(in) && !deep(in) && len(in) < maxNumber {
				t.Fatal("refused:", err)
			}
			return
		}
		if !json.Valid(in) || !json.Valid(got) {
			t.Fatalf("%q was accepted as %q", in, got)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, bytes.ToValidUTF8(in, []byte("\uFFFD"))); err != nil || want.String() != string(got) {
			t.Fatalf("got %s, want %s, %v", got, want.String(), err)
		}
		for name, v := range NewRow(got).All() {
			_, _, _, _ = name, v.Any(), v.Int(), v.Text()
		}
	})
}

func deep(p []byte) bool { return bytes.Count(p, []byte("["))+bytes.Count(p, []byte("{")) > MaxDepth }
