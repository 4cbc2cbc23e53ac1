package rows

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// readAll renders every row as "line:text" and every bad line as "line!reason".
func readAll(t *testing.T, r io.Reader, o Options) []string {
	t.Helper()
	rd, err := NewReader(r, o)
	if err != nil {
		return []string{"fatal: " + err.Error()}
	}
	var out []string
	for {
		row, err := rd.Next()
		var bad *LineError
		switch {
		case errors.Is(err, io.EOF):
			return out
		case errors.As(err, &bad):
			out = append(out, fmt.Sprintf("%d!%v", bad.Line, bad.Err))
		case err != nil:
			return append(out, "fatal: "+err.Error())
		default:
			out = append(out, fmt.Sprintf("%d:%s", row.Line, row.Text))
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name, in string
		o        Options
		want     []string
	}{
		{name: "empty", in: ""},
		{name: "only blank lines", in: "\n \n\t\r\n"},
		{name: "json", in: "{\"a\":1}\n{\"a\":2}\n", want: []string{`1:{"a":1}`, `2:{"a":2}`}},
		{name: "json without a last newline", in: "{\"a\":1}\n{\"a\":2}", want: []string{`1:{"a":1}`, `2:{"a":2}`}},
		{name: "json with CRLF, blank lines and a mark", in: "\xEF\xBB\xBF{\"a\":1}\r\n\r\n  {\"a\":2}  \r\n", want: []string{`1:{"a":1}`, `3:{"a":2}`}},
		{name: "json keeps bytes", in: `{"n":1420000000.50, "b" : "\u00e9"}`, want: []string{`1:{"n":1420000000.50, "b" : "\u00e9"}`}},
		{
			name: "bad json costs itself only", o: Options{Format: JSONL},
			in: "{\"a\":1}\n{\"a\":\nnope\n[1]\n7\nnull\n{\"a\":1} {\"a\":2}\n{\"a\":\"\xff\"}\n{\"a\":9}",
			want: []string{
				`1:{"a":1}`, "2!not JSON: the line ends inside the value",
				"3!not JSON: invalid character 'o' in literal null (expecting 'u') at byte 2",
				"4!want a JSON object, got an array", "5!want a JSON object, got a number", "6!want a JSON object, got null",
				`7!not JSON: "{\"a\":2}" follows the value`, "8!the line is not valid UTF-8", `9:{"a":9}`,
			},
		},
		{
			name: "long lines", o: Options{MaxLine: 20}, in: "{\"a\":1}\n{\"a\":\"" + long + "\"}\n{\"a\":\"90123456789\"}\n{\"a\":\"901234567890\"}\n{}",
			want: []string{`1:{"a":1}`, "2!the line is longer than 20 bytes", `3:{"a":"90123456789"}`, `4:{"a":"901234567890"}`, `5:{}`},
		},
		{name: "from a line", o: Options{FromLine: 3}, in: "{}\nbad\n{\"a\":3}\n{\"a\":4}", want: []string{`3:{"a":3}`, `4:{"a":4}`}},
		{name: "utf-16", in: "\xFF\xFE{\x00}\x00", want: []string{"fatal: the input is UTF-16: convert it to UTF-8 first"}},

		{name: "csv", in: "a,b\n1,2\n\"x,\"\"y\"\"\",<z>\n", want: []string{`2:{"a":"1","b":"2"}`, `3:{"a":"x,\"y\"","b":"<z>"}`}},
		{name: "csv with a mark, CRLF and blanks", in: "\xEF\xBB\xBFa,b\r\n\r\n1,2\r\n3,4", want: []string{`3:{"a":"1","b":"2"}`, `4:{"a":"3","b":"4"}`}},
		{name: "csv over lines", in: "a,b\n\"one\ntwo\",2\n3,4\n", want: []string{`2:{"a":"one\ntwo","b":"2"}`, `4:{"a":"3","b":"4"}`}},
		{name: "csv separator", in: "a;b\n1,5;2\n", o: Options{Separator: ';'}, want: []string{`2:{"a":"1,5","b":"2"}`}},
		{
			name: "csv ragged and quoted wrongly", in: "a,b\n1\n1,2,3\nx\"y,2\n\"x\"y,2\n5,6\n",
			want: []string{
				"2!the row has 1 fields, the header has 2", "3!the row has 3 fields, the header has 2",
				`4!not CSV: bare " in non-quoted-field`, `5!not CSV: extraneous or missing " in quoted-field`, `6:{"a":"5","b":"6"}`,
			},
		},
		{
			name: "a csv quote that never closes", in: "a,b\n\"x,2\n3,4\n5,6\n",
			want: []string{"2!a quote is opened and not closed within 16777216 bytes", `3:{"a":"3","b":"4"}`, `4:{"a":"5","b":"6"}`},
		},
		{
			name: "a csv quote that closes in the wrong place", in: "a,b\n\"x,2\n3,4\n\"5\",6\n7,8\n",
			want: []string{`2!not CSV: extraneous or missing " in quoted-field`, `3:{"a":"3","b":"4"}`, `4:{"a":"5","b":"6"}`, `5:{"a":"7","b":"8"}`},
		},
		{
			name: "a csv row beyond the limit", o: Options{MaxLine: 12}, in: "a,b\n\"123456\n123456\n12\",2\n3,4\n",
			want: []string{
				"2!a quote is opened and not closed within 12 bytes", "3!the row has 1 fields, the header has 2",
				`4!not CSV: bare " in non-quoted-field`, `5:{"a":"3","b":"4"}`,
			},
		},
		{name: "a csv line that is too long inside a quote", o: Options{MaxLine: 12}, in: "a,b\n\"1\n" + long + "\n3,4\n",
			want: []string{"2!a quote is opened and not closed within 12 bytes", "3!the line is longer than 12 bytes", `4:{"a":"3","b":"4"}`}},
		{name: "csv from a line", o: Options{FromLine: 4}, in: "a,b\n1\n\"x\ny\",2\n5,6\n", want: []string{`5:{"a":"5","b":"6"}`}},
		{
			name: "csv from a line behind a quote that closes in the wrong place", o: Options{FromLine: 4},
			in: "id,note\n1,\"abc\n2,def\n3,\"ok\"\n4,x\n", want: []string{`4:{"id":"3","note":"ok"}`, `5:{"id":"4","note":"x"}`},
		},
		{name: "csv header twice", in: "a,b,a\n1,2,3\n", want: []string{`fatal: the CSV header: columns 1 and 3 are both called "a"`}},
		{name: "csv header without a name", in: "a,,c\n1,2,3\n", want: []string{`fatal: the CSV header: column 2 has no name`}},
		{name: "csv header alone", in: "a,b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, readAll(t, strings.NewReader(c.in), c.o)); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			slow := readAll(t, iotest.OneByteReader(strings.NewReader(c.in)), c.o)
			if diff := cmp.Diff(c.want, slow); diff != "" {
				t.Errorf("byte by byte, want -, got +:\n%s", diff)
			}
		})
	}
}

func TestReaderReportsTheErrorOfItsInput(t *testing.T) {
	broken := errors.New("the cable is out")
	got := readAll(t, io.MultiReader(strings.NewReader("{}\n{}\n"), iotest.ErrReader(broken)), Options{})
	want := []string{"1:{}", "2:{}", "fatal: the cable is out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// endless yields one line that does not end.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.left -= n
	return n, nil
}

func TestHugeLineIsNotHeld(t *testing.T) {
	lines := newLineReader(&endless{left: 64 << 20}, 1<<10)
	perRun := testing.AllocsPerRun(1, func() {
		ln, err := lines.next()
		if err == nil && ln.err == nil {
			t.Errorf("a line of 64 MiB passed the limit of 1 KiB")
		}
	})
	if perRun > 64 {
		t.Errorf("%v allocations for one line that is thrown away", perRun)
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]Format{
		"a.jsonl": JSONL, "b.NDJSON": JSONL, "c.json": JSONL, "d.csv": CSV, "e.tsv": CSV, "f.txt": Auto, "-": Auto,
	} {
		if got := FormatOf(name); got != want {
			t.Errorf("FormatOf(%q) = %s, want %s", name, got, want)
		}
	}
	if _, err := ParseFormat("xml"); err == nil {
		t.Error("xml is a format")
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n\"x\ny\",\"\"\"\"\n"))
	f.Add([]byte("a\n\"\n\"\n"))
	f.Add([]byte("a,b\n\"1\"2,\n,\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var got [][]string
		rd, err := NewReader(bytes.NewReader(in), Options{Format: CSV, MaxLine: 1 << 16})
		if err != nil {
			return
		}
		bad := 0
		for {
			row, err := rd.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				bad++
				continue
			}
			if !json.Valid(row.Text) {
				t.Fatalf("the text of a row is not JSON: %q", row.Text)
			}
			got = append(got, valuesOf(row, rd.decode.(*csvDecoder).header))
		}
		if bad > 0 || hasBlankField(in) {
			return
		}
		// What has no bad line must read as encoding/csv reads it.
		std := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(in, byteOrderMarks[0].mark)))
		want, err := std.ReadAll()
		if err != nil {
			t.Fatalf("encoding/csv finds an error that rows does not: %v", err)
		}
		if len(want) > 0 {
			want = want[1:]
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("encoding/csv -, rows +:\n%s", diff)
		}
	})
}

// hasBlankField reports whether a line is blank without being empty: a row of one
// field to encoding/csv, nothing to rows.
func hasBlankField(in []byte) bool {
	for ln := range bytes.Lines(in) {
		if text := trimEnd(ln); len(text) > 0 && blank(text) {
			return true
		}
	}
	return false
}

func valuesOf(row Row, header []string) []string {
	var values []string
	for _, h := range header {
		values = append(values, row.Fields[h].(string))
	}
	return values
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{}\n[1]\n"))
	f.Add([]byte("{\"a\":{\"b\":[null,1e400]}}\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		rd, err := NewReader(bytes.NewReader(in), Options{Format: JSONL, MaxLine: 1 << 12})
		if err != nil {
			return
		}
		last := int64(0)
		for {
			row, err := rd.Next()
			var bad *LineError
			if errors.Is(err, io.EOF) {
				return
			}
			if errors.As(err, &bad) {
				row.Line = bad.Line
			} else if err != nil {
				t.Fatal(err)
			} else if !json.Valid(row.Text) {
				t.Fatalf("a row that is not JSON: %q", row.Text)
			}
			if row.Line <= last {
				t.Fatalf("line %d after line %d", row.Line, last)
			}
			last = row.Line
		}
	})
}
