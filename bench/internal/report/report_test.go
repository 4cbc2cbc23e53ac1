package report_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

var pictures = []report.Picture{
	{Suite: "kv", Title: "kv: time", Path: "kv-time.png", SVG: []byte("<?xml version=\"1.0\"?>\n<svg></svg>")},
	{Suite: "kv", Case: "set", Title: "kv/set: latency", SVG: []byte("<svg></svg>")},
}

func TestGolden(t *testing.T) {
	f := runnertest.Results()
	for name, write := range map[string]func(io.Writer) error{
		"tables.txt":   func(w io.Writer) error { return report.Cases(w, f.Cases()) },
		"verdicts.txt": func(w io.Writer) error { return report.Verdicts(w, f) },
		"report.md":    func(w io.Writer) error { return report.Markdown(w, f, pictures) },
		"report.html":  func(w io.Writer) error { return report.HTML(w, f, pictures) },
		"gobench.txt":  func(w io.Writer) error { return report.GoBench(w, f) },
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *rewrite {
				if err := os.WriteFile(path, got.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s is not what is written (go test -rewrite changes it):\n%s", path, got.Bytes())
			}
		})
	}
}

// TestVerdictsSayTheTransport: a call compared with a socket has a mark and a legend in
// every form of the report; two of the same transport have neither.
func TestVerdictsSayTheTransport(t *testing.T) {
	mixed := runnertest.Results()
	same := runnertest.Results()
	unknown := runnertest.Results()
	served := runnertest.Results()
	for i := range same.Rows {
		same.Rows[i].Transport, unknown.Rows[i].Transport, served.Rows[i].Transport = "in process", "", "loopback TCP"
	}
	for name, write := range map[string]func(io.Writer, *result.File) error{
		"terminal": report.Verdicts,
		"markdown": func(w io.Writer, f *result.File) error { return report.Markdown(w, f, nil) },
		"html":     func(w io.Writer, f *result.File) error { return report.HTML(w, f, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			text := func(f *result.File) string {
				var b strings.Builder
				if err := write(&b, f); err != nil {
					t.Fatal(err)
				}
				return b.String()
			}
			// The three of the durability memory, the count, and the legend.
			if got := strings.Count(text(mixed), "†"); got != 5 {
				t.Errorf("the mark is there %d times, want 5:\n%s", got, text(mixed))
			}
			if got := text(same); strings.Contains(got, "†") || strings.Contains(got, "reached in the same way") {
				t.Errorf("the same transport is marked:\n%s", got)
			}
			if text := text(mixed); !strings.Contains(text, "Servers against servers") {
				t.Errorf("servers are not compared with servers:\n%s", text)
			}
			for _, f := range []*result.File{same, unknown, served} {
				if text := text(f); strings.Contains(text, "Servers against servers") {
					t.Errorf("a table is empty, or there twice:\n%s", text)
				}
			}
			if got := text(unknown); strings.Contains(got, "†") || !strings.Contains(got, "? The results do not say how both are reached") {
				t.Errorf("an unknown transport is not said to be unknown:\n%s", got)
			}
		})
	}
}

// TestOldResultsAreUnknown: rows of a file that does not have the transport say so.
func TestOldResultsAreUnknown(t *testing.T) {
	f, err := result.ReadFile(filepath.Join("..", "result", "testdata", "version-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tables, lines bytes.Buffer
	if err := report.Cases(&tables, f.Cases()); err != nil {
		t.Fatal(err)
	}
	if err := report.GoBench(&lines, f); err != nil {
		t.Fatal(err)
	}
	if strings.Count(tables.String(), "unknown") == 0 || strings.Count(lines.String(), "transport: unknown\n") != 1 {
		t.Errorf("it is not said to be unknown:\n%s%s", tables.String(), lines.String())
	}
}

// TestBenchstatReads: the lines are what the reader of benchstat takes, with the
// transport as configuration that changes where it does.
func TestBenchstatReads(t *testing.T) {
	var b bytes.Buffer
	if err := report.GoBench(&b, runnertest.Results()); err != nil {
		t.Fatal(err)
	}
	over := map[string]string{}
	for r := benchfmt.NewReader(&b, "results"); r.Scan(); {
		switch line := r.Result().(type) {
		case *benchfmt.Result:
			over[string(line.Name.Full())] = line.GetConfig("transport")
		case *benchfmt.SyntaxError:
			t.Error(line)
		}
	}
	for name, want := range map[string]string{
		"Kv/set/durability=memory/server-2":                            "loopback TCP",
		"Kv/set/durability=fsync/bbolt-2":                              "in process",
		"Kv/set/8-clients/durability=os/pebble-os-2":                   "in process",
		"Footprint/idle/durability=os/other-2":                         "loopback HTTP",
		"Kv/scale/set/durability=os/mainstem-pebble-os-2":              "in process",
		"Kv/set/32-clients/durability=memory/mainstem-pebble-memory-2": "in process",
	} {
		if over[name] != want {
			t.Errorf("%s has transport %q, want %q", name, over[name], want)
		}
	}
}

// TestPageLoadsNothing: the page is readable without a network.
func TestPageLoadsNothing(t *testing.T) {
	var b bytes.Buffer
	if err := report.HTML(&b, runnertest.Results(), pictures); err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?i)(src|href)\s*=|@import|url\(|<script`).Find(b.Bytes()); found != nil {
		t.Errorf("the page has %q", found)
	}
	if strings.Count(b.String(), "<svg>") != 2 || strings.Contains(b.String(), "<?xml") {
		t.Error("the plots are not in the page as they should be")
	}
	d := xml.NewDecoder(strings.NewReader(strings.Replace(b.String(), "<!DOCTYPE html>", "", 1)))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestValue(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "ns", "0 ns"}, {1.234, "ns", "1.23 ns"}, {999.6, "ns", "1 µs"}, {1500, "ns", "1.5 µs"}, {2.5e9, "ns", "2.5 s"},
		{1 << 20, "B", "1 MiB"}, {100, "B/record", "100 B/record"}, {12345, "1", "12.3k"}, {3, "x", "3×"}, {7, "files", "7 files"},
		{0.0004, "1", "0.0004"}, {99.96, "ns", "100 ns"},
	} {
		if got := report.Value(c.v, c.unit); got != c.want {
			t.Errorf("Value(%v, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestPlural(t *testing.T) {
	for noun, want := range map[string]string{"event": "events", "query": "queries", "key": "keys", "batch": "batches"} {
		if got := report.Plural(noun); got != want {
			t.Errorf("Plural(%q) = %q, want %q", noun, got, want)
		}
	}
}
