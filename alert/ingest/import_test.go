package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/ingest"
)

const lines = `{"Identifier":"a","node":"n1","severity":"critical","summary":"first","LastOccurrence":1770091506,"labels":{"rack":"r1","tags":["x","y"]}}

{"host":"n2","level":"warning","message":"second","time":"2026-02-03T04:05:07Z"}
nonsense
{"Identifier":"c","Severity":"unheard of","Tally":"x"}
{"Identifier":"d","Severity":9999999999}
{"Identifier":"e","Severity":2,"LastOccurrence":1770091508}
`

func TestImportOfJSONLines(t *testing.T) {
	s, sink := server(t, nil)
	var bad []string
	var steps []int64
	r, err := ingest.Import(t.Context(), strings.NewReader(lines), sink, &ingest.ImportOptions{File: "a.jsonl", SkipBad: true, BatchRows: 2,
		OnBad: func(e *ingest.LineError) { bad = append(bad, e.Error()) }, Progress: func(r ingest.Report) { steps = append(steps, r.Line) }})
	if err != nil || r != (ingest.Report{Line: 7, Bytes: int64(len(lines)), Events: 6, Rows: 3, Bad: 3}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(bad) != 3 || !strings.HasPrefix(bad[0], "a.jsonl:4: ") || !strings.HasPrefix(bad[1], "a.jsonl:5: ") || !strings.Contains(bad[2], "a.jsonl:6: ") {
		t.Errorf("%q", bad)
	}
	if fmt.Sprint(steps) != "[3 7]" {
		t.Errorf("progress %v", steps)
	}
	want(t, query(t, s, "select Identifier, Node, Severity, Summary, LastOccurrence, Type, Tally, Manager, ExtendedAttr from alerts.status order by Serial"),
		`a|n1|5|first|1770091506|1|1|import|labels.rack="r1";labels.tags.0="x";labels.tags.1="y";labels.tags="x,y"`,
		"n2::second:1|n2|2|second|1770091507|1|1|import|", "e||2||1770091508|1|1|import|")
	// Once more: nothing is there twice, nor counted twice.
	before := query(t, s, "select * from alerts.status order by Serial")
	if r, err := ingest.Import(t.Context(), strings.NewReader(lines), sink, &ingest.ImportOptions{SkipBad: true}); err != nil || r.Rows != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	want(t, query(t, s, "select * from alerts.status order by Serial"), before...)
}

// TestABadLineEndsTheImport after what was before it; from there it can go on.
func TestABadLineEndsTheImport(t *testing.T) {
	s, sink := server(t, nil)
	r, err := ingest.Import(t.Context(), strings.NewReader(lines), sink, &ingest.ImportOptions{File: "a.jsonl"})
	var bad *ingest.LineError
	if !errors.Is(err, mainstem.ErrInvalid) || !errors.As(err, &bad) || bad.Line != 4 || r.Line != 3 || r.Rows != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = ingest.Import(t.Context(), strings.NewReader(lines), sink, &ingest.ImportOptions{File: "a.jsonl", After: 6})
	if err != nil || r.Rows != 1 || r.Line != 7 || r.Events != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	want(t, query(t, s, "select Identifier from alerts.status order by Serial"), "a", "n2::second:1", "e")
}

func TestImportOfCSV(t *testing.T) {
	s, sink := server(t, nil)
	text := "\ufeffIdentifier;Node;Severity;\"Sum\"\"mary\";Summary\r\n" +
		"a;n1;5;;\"two\nlines; one \"\"field\"\"\"\r\n\r\n" +
		"b;n2\r\n" +
		"c;n3;4;;\"not closed\r\n" +
		"d;n4;major;;ok\r\n" +
		"e;n\"5;1;;x\r\n" +
		"f;n6;2;rest;last"
	var bad []string
	r, err := ingest.Import(t.Context(), strings.NewReader(text), sink, &ingest.ImportOptions{File: "x.csv", Comma: ';', SkipBad: true,
		OnBad: func(e *ingest.LineError) { bad = append(bad, e.Error()) }})
	if err != nil || r.Rows != 3 || r.Line != 9 || len(bad) != 3 {
		t.Fatalf("%+v, %v, %q", r, err, bad)
	}
	for i, want := range []string{"x.csv:5: 2 fields: the header has 5", `x.csv:6: a quote`, `x.csv:8: `} {
		if !strings.Contains(bad[i], want) {
			t.Errorf("%q, want %q", bad[i], want)
		}
	}
	want(t, query(t, s, "select Identifier, Node, Severity, Summary, ExtendedAttr from alerts.status order by Serial"),
		"a|n1|5|two\nlines; one \"field\"|", "d|n4|4|ok|", `f|n6|2|last|Sum_mary="rest"`)
	for _, text := range []string{"", "\n\n", "a,b,a\n", "a,,b\n1,2,3\n", "\"a\n"} {
		if _, err := ingest.Import(t.Context(), strings.NewReader(text), sink, &ingest.ImportOptions{Format: ingest.CSV, SkipBad: true}); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("the header %q: %v", text, err)
		}
	}
}

// TestAReadErrorWithinARecord is no mistake of the record: an import that goes on from Line reads
// it again.
func TestAReadErrorWithinARecord(t *testing.T) {
	s, sink := server(t, nil)
	text := "Identifier,Summary\na,ok\nb,\"x\ny,z\n"
	away := errors.New("away")
	o := &ingest.ImportOptions{Format: ingest.CSV, SkipBad: true}
	r, err := ingest.Import(t.Context(), io.MultiReader(strings.NewReader(text), iotest.ErrReader(away)), sink, o)
	if !errors.Is(err, away) || !errors.Is(err, mainstem.ErrUnavailable) || r.Bad != 0 || r.Rows != 1 || r.Line != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	o.After = r.Line
	if r, err := ingest.Import(t.Context(), strings.NewReader(text+"end\"\n"), sink, o); err != nil || r.Bad != 0 || r.Rows != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	want(t, query(t, s, "select Identifier, Summary from alerts.status order by Serial"), "a|ok", "b|x\ny,z\nend")
}

// TestLongLineBehindAnOpenQuote is met while the end of the quote is looked for, and counts.
func TestLongLineBehindAnOpenQuote(t *testing.T) {
	_, sink := server(t, nil)
	text := "Identifier,Summary\na,\"not closed\n" + strings.Repeat("x", 3000) + "\nb,ok\nc\nd,ok\n"
	var bad []string
	r, err := ingest.Import(t.Context(), strings.NewReader(text), sink, &ingest.ImportOptions{File: "x.csv", SkipBad: true, MaxLine: 2000,
		OnBad: func(e *ingest.LineError) { bad = append(bad, e.Error()) }})
	if err != nil || r.Events != 5 || r.Rows != 2 || r.Line != 6 || r.Bad != 3 {
		t.Fatalf("%+v, %v, %q", r, err, bad)
	}
	for i, want := range []string{"x.csv:2: a quote", "x.csv:3: the line is too long", "x.csv:5: 1 fields"} {
		if !strings.HasPrefix(bad[i], want) {
			t.Errorf("%q, want %q", bad[i], want)
		}
	}
}

// TestRefusedRows: of a batch that the sink refuses only those to blame are left out.
func TestRefusedRows(t *testing.T) {
	sink := &memory{fail: func(rows [][]any) error {
		for _, row := range rows {
			for _, v := range row {
				if s, ok := v.(string); ok && strings.HasPrefix(s, "bad") {
					return &mainstem.Error{Kind: mainstem.KindInvalid, Err: errors.New("no")}
				}
			}
		}
		return nil
	}}
	var text strings.Builder
	for i := range 100 {
		name := "good"
		if i == 7 || i == 8 || i == 99 {
			name = "bad"
		}
		fmt.Fprintf(&text, "{\"Identifier\":\"%s%d\"}\n", name, i)
	}
	var bad []int64
	r, err := ingest.Import(t.Context(), strings.NewReader(text.String()), sink, &ingest.ImportOptions{SkipBad: true, OnBad: func(e *ingest.LineError) { bad = append(bad, e.Line) }})
	if err != nil || r.Rows != 97 || r.Bad != 3 || r.Line != 100 || fmt.Sprint(bad) != "[8 9 100]" {
		t.Errorf("%+v, %v, %v", r, err, bad)
	}
	sink.rows = nil
	r, err = ingest.Import(t.Context(), strings.NewReader(text.String()), sink, nil)
	if !errors.Is(err, mainstem.ErrInvalid) || r.Line != 7 || len(sink.rows) != 7 {
		t.Errorf("%+v, %v, %d rows", r, err, len(sink.rows))
	}
}

// TestSlowInputIsWrittenAsItComes: a reader that waits for more keeps nothing back.
func TestSlowInputIsWrittenAsItComes(t *testing.T) {
	for format, text := range map[ingest.Source][]string{
		ingest.JSONLines: {`{"Identifier":"a"}` + "\n" + `{"Identi`, `fier":"b"}` + "\n", `{"Identifier":"c"}`},
		ingest.CSV:       {"Identifier,Summary\na,x\nb,\"two", "\nlines\"\n", "c,y"},
	} {
		s, sink := server(t, nil)
		in, feed := io.Pipe()
		written := make(chan int64, 100)
		ended := make(chan error, 1)
		go func() {
			r, err := ingest.Import(t.Context(), in, sink, &ingest.ImportOptions{Format: format, Idle: time.Millisecond, Progress: func(r ingest.Report) { written <- r.Rows }})
			if err == nil && r.Rows != 3 {
				err = fmt.Errorf("%+v", r)
			}
			ended <- err
		}()
		for i, part := range text {
			if _, err := io.WriteString(feed, part); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				_ = feed.Close()
			}
			for n := int64(0); n < int64(i+1); n = <-written { // it may be told more than once
			}
		}
		if err := <-ended; err != nil {
			t.Error(format, err)
		}
		want(t, query(t, s, "select Identifier from alerts.status order by Serial"), "a", "b", "c")
	}
}

func TestSlowInputEndsWithItsContextAndItsSink(t *testing.T) {
	in, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = io.WriteString(feed, `{"Identifier":"a"}`+"\n") }()
	ctx, cancel := context.WithCancel(t.Context())
	sink := &memory{}
	r, err := ingest.Import(ctx, in, sink, &ingest.ImportOptions{Idle: time.Millisecond, SkipBad: true, Progress: func(ingest.Report) { cancel() }})
	if !errors.Is(err, mainstem.ErrCanceled) || r.Rows != 1 || r.Line != 1 || r.Bad != 0 {
		t.Errorf("a context that ended while nothing came: %+v, %v", r, err)
	}
	in, other := io.Pipe() // what waited for the first one would take from it
	defer other.Close()
	go func() { _, _ = io.WriteString(other, `{"Identifier":"b"}`+"\n") }()
	sink.fail = func([][]any) error { return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "test"} }
	r, err = ingest.Import(t.Context(), in, sink, &ingest.ImportOptions{Idle: time.Millisecond})
	if !errors.Is(err, mainstem.ErrUnavailable) || strings.Contains(err.Error(), "reading") || r.Rows != 0 || r.Line != 0 {
		t.Errorf("a sink that failed while nothing came: %+v, %v", r, err)
	}
}

func TestImportEndsWithItsSink(t *testing.T) {
	gone := &mainstem.Error{Kind: mainstem.KindUnavailable, Err: errors.New("gone")}
	sink := &memory{}
	sink.fail = func([][]any) error {
		if sink.inserts == 2 {
			return gone
		}
		return nil
	}
	text := strings.Repeat("{\"Identifier\":\"a\"}\n", 10)
	r, err := ingest.Import(t.Context(), strings.NewReader(text), sink, &ingest.ImportOptions{BatchRows: 2})
	if !errors.Is(err, mainstem.ErrUnavailable) || r.Line != 4 || r.Rows != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = ingest.Import(t.Context(), io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("the disk is broken"))), &memory{}, nil)
	if !errors.Is(err, mainstem.ErrUnavailable) || r.Line != 10 || r.Rows != 10 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err = ingest.Import(ctx, strings.NewReader(text), &memory{}, &ingest.ImportOptions{BatchRows: 3, Progress: func(ingest.Report) { cancel() }})
	if !errors.Is(err, mainstem.ErrCanceled) || r.Line != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, o := range []ingest.ImportOptions{{Format: "xml"}, {BatchRows: -1}, {BatchRows: 1e6}, {MaxLine: -1}, {After: -1}, {Comma: '"'}} {
		if _, err := ingest.Import(t.Context(), strings.NewReader(text), sink, &o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestLimitsOfLines(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	var wide strings.Builder
	for i := range ingest.MaxFields + 1 {
		fmt.Fprintf(&wide, `%q:1,`, fmt.Sprint("f", i))
	}
	text := strings.Join([]string{`{"Identifier":"1"}`, `{"Identifier":"` + strings.Repeat("x", 60_000) + `"}`, deep, "{" + wide.String() + `"z":1}`, `{"Identifier":"2"}{}`, `[1]`, `{"a":1`, `{"Identifier":"3"}`}, "\n")
	sink := &memory{}
	var bad []string
	r, err := ingest.Import(t.Context(), strings.NewReader(text), sink, &ingest.ImportOptions{SkipBad: true, MaxLine: 50_000, OnBad: func(e *ingest.LineError) { bad = append(bad, e.Error()) }})
	if err != nil || r.Bad != 6 || fmt.Sprint(sink.all("Identifier")) != "[1 3]" {
		t.Errorf("%+v, %v, %q", r, err, bad)
	}
	for i, want := range []string{"line:2: the line is too long", "line:3: more than 32", "line:4: more than 2000 fields", "line:5: there is something behind", "line:6: want a JSON object", "line:7: the JSON object is not complete"} {
		if i < len(bad) && !strings.HasPrefix(bad[i], want) {
			t.Errorf("%.80q, want %q", bad[i], want)
		}
	}
}

// TestNoLineIsLost: whatever the lines are, each is written, dropped or bad, and going
// on after any line leads to the same rows.
func TestNoLineIsLost(t *testing.T) {
	m := mapping(t, ingest.JSONLines, "jsonl: {drop: [{field: drop, exists: true}], columns: {LastOccurrence: 1}}")
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "lines")
		var text, want strings.Builder
		for i := range n {
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				text.WriteString("{broken\n")
			case 1:
				text.WriteString(`{"drop":1}` + "\n")
			case 2:
				text.WriteString("\n")
			default:
				fmt.Fprintf(&text, "{\"Identifier\":\"%d\"}\n", i)
				fmt.Fprintf(&want, "%d ", i)
			}
		}
		sink := &memory{}
		batch := rapid.IntRange(1, 10).Draw(rt, "batch")
		broken := rapid.IntRange(0, 10).Draw(rt, "inserts")
		sink.fail = func([][]any) error {
			if sink.inserts == broken {
				broken = -1
				return errors.New("once")
			}
			return nil
		}
		o := &ingest.ImportOptions{Mapping: m, SkipBad: true, BatchRows: batch}
		r, err := ingest.Import(context.Background(), strings.NewReader(text.String()), sink, o)
		if err != nil {
			o.After = r.Line
			if _, err = ingest.Import(context.Background(), strings.NewReader(text.String()), sink, o); err != nil {
				rt.Fatal(err)
			}
		} else if r.Rows+r.Dropped+r.Bad != r.Events {
			rt.Fatalf("%+v", r)
		}
		if got := strings.Join(append(sink.all("Identifier"), ""), " "); got != want.String() {
			rt.Fatalf("%q, want %q", got, want.String())
		}
	})
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(lines), false)
	f.Add([]byte("a,b\n1,\"2\n3\"\n\"x\n"), true)
	f.Add([]byte("Identifier;x\n\"\"\"a;\"\"\";2\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, asCSV bool) {
		o := &ingest.ImportOptions{SkipBad: true, MaxLine: 4096, Format: ingest.JSONLines}
		if asCSV {
			o.Format = ingest.CSV
		}
		r, err := ingest.Import(t.Context(), strings.NewReader(string(text)), &memory{}, o)
		if err == nil && (r.Events != r.Rows+r.Bad+r.Dropped || r.Bytes > int64(len(text))) {
			t.Fatalf("%+v", r)
		}
		if err != nil && !errors.Is(err, mainstem.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

func BenchmarkImport(b *testing.B) {
	line := `{"Identifier":"node-%d:disk","Node":"node-%d","Severity":4,"AlertGroup":"disk","AlertKey":"/","Summary":"the disk is full","LastOccurrence":%d}` + "\n"
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, line, i, i, time.Now().Unix())
	}
	_, sink := server(b, nil)
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := ingest.Import(b.Context(), strings.NewReader(text.String()), sink, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/10_000, "µs/line")
}
