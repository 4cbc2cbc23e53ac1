package alertcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestStatementsAreCut(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                nil,
		" ;; ; -- nothing\n/* at\nall */": nil,
		"select 1":                        {"select 1"},
		"select 1; select 2;":             {"select 1", "select 2"},
		"select 'a;b', \"c;'d\"; x":       {"select 'a;b', \"c;'d\"", "x"},
		"select 'it''s;'; x":              {"select 'it''s;'", "x"},
		"select 1\n GO \nselect 2\ngo":    {"select 1", "select 2"},
		"select 'a\ngo\nb'\ngo\nselect 2": {"select 'a\ngo\nb'", "select 2"},
		"select 1 -- it's; one\n; x":      {"select 1 -- it's; one", "x"},
		"select /* ; ' \n go \n */ 1; x":  {"select /* ; ' \n go \n */ 1", "x"},
		"select category from t; go":      {"select category from t", "go"},
	} {
		got, err := cut(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is cut into %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := cut(strings.Repeat("'"+strings.Repeat("x", 1023)+"\n", osql.MaxText/1024+1)); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a statement without an end: %v", err)
	}
}

// TestCutAgreesWithTheParser: whatever the server takes for several statements, the
// command line does as well.
func TestCutAgreesWithTheParser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{"select", "1", "'a;''b'", `"x'`, `y"`, ";", "\n", "go", "\ngo\n", "-- ;'\n", "/*", "*/", "'", "-", " "})).Draw(t, "words")
		text := strings.Join(words, " ")
		want, err := osql.Split(text, nil)
		if err != nil {
			return // it will be refused, wherever it is cut
		}
		got, err := cut(text)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q: %q, %v; the parser finds %d", text, got, err, len(want))
		}
	})
}

// scripted is a person who types lines.
type scripted struct {
	lines   []string
	prompts []string
}

func (s *scripted) readLine(_ context.Context, prompt string) (string, error) {
	s.prompts = append(s.prompts, prompt)
	if len(s.lines) == 0 {
		return "", io.EOF
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	return line, nil
}

func TestConsole(t *testing.T) {
	var out, errs testkit.Lines
	m := &cli.Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	p := &resultPrinter{m: m, format: "table"}
	tables := openTestTables(t)
	m.Out = bufio.NewWriter(&out)
	s := &scripted{lines: []string{"insert into alerts.status (Identifier, Severity)", "values ('a', 3);", "selekt;", "select Identifier,", "Severity from alerts.status; select 2 as n;", "QUIT;", "never"}}
	err := (&console{m: m, lines: s}).loop(t.Context(), func(text string) error {
		if err := tables.each(t.Context(), text, p.print); err != nil {
			return err
		}
		return m.Flush()
	})
	if err != nil || len(s.lines) != 1 {
		t.Fatalf("%v, %q is left", err, s.lines)
	}
	want := "1 row affected\nIdentifier  Severity\n----------  --------\na                  3\n(1 row)\n\nn\n-\n2\n(1 row)\n"
	if out.String() != want {
		t.Errorf("it shows\n%s\nwant\n%s", out.String(), want)
	}
	if !strings.Contains(errs.String(), "SELEKT") {
		t.Errorf("the mistake is shown as %q", errs.String())
	}
	if got := fmt.Sprint(s.prompts); got != fmt.Sprint([]string{promptFirst, promptMore, promptFirst, promptFirst, promptMore, promptFirst}) {
		t.Errorf("prompts %s", got)
	}
}

// openTestTables returns tables in a log in memory.
func openTestTables(t *testing.T) alertTables {
	t.Helper()
	m := commands{&cli.Main{Stderr: io.Discard}}
	tables, err := m.openAlerts(t.Context(), testengines.Memory(t), cli.Writing, &alertFlags{app: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tables.close(); err != nil {
			t.Error(err)
		}
	})
	return tables
}

// fakeDisplay is a terminal of 60 by 6.
type fakeDisplay struct {
	pages   chan []string
	pressed chan key
}

func (d *fakeDisplay) size() (width, height int) { return 60, 6 }
func (d *fakeDisplay) keys() <-chan key          { return d.pressed }
func (d *fakeDisplay) draw(lines []string) error {
	select {
	case <-d.pages: // only the newest counts
	default:
	}
	d.pages <- lines
	return nil
}

// lateTables tell changes from when late is closed on.
type lateTables struct {
	alertTables
	late chan struct{}
}

func (t lateTables) changes(ctx context.Context, table string, o *alert.ChangeOptions) iter.Seq2[alertChange, error] {
	return func(yield func(alertChange, error) bool) {
		<-t.late
		t.alertTables.changes(ctx, table, o)(yield)
	}
}

func TestWatcherShowsWhatChanges(t *testing.T) {
	tables := lateTables{openTestTables(t), make(chan struct{})}
	run := func(text string) {
		t.Helper()
		if err := tables.each(t.Context(), text, func(*alertResult) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	run("insert into alerts.status (Identifier, Node, Severity, Summary) values ('a', 'web1', 3, 'first'), ('b', 'web2', 5, 'second')")
	d := &fakeDisplay{pages: make(chan []string, 1), pressed: make(chan key)}
	w := &watcher{tables: tables, board: newBoard(&changeFlags{}, false), screen: d, every: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- w.run(t.Context()) }()
	shows := func(what string, texts ...string) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			select {
			case page := <-d.pages:
				all := strings.Join(page, "\n")
				return len(page) == 6 && !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(all, s) })
			default:
				return false
			}
		})
	}
	shows("the first page", "2 alerts  1 critical  1 minor", "critical ", "web2", "second", "first")
	run("update alerts.status set Severity = 0 where Identifier = 'b'")
	run("insert into alerts.status (Identifier, Severity) values ('c', 4), ('d', 2)")
	close(tables.late)                                                     // the changes came between the first page and the feed
	shows("the changes", "4 alerts  1 major  1 minor  1 warning  1 clear") // by the feed: nobody asks for an hour
	run("delete from alerts.status where Identifier = 'c'")
	shows("a deletion", "3 alerts  1 minor  1 warning  1 clear")
	run("insert into alerts.status (Identifier, Severity) values ('c', 4)")
	shows("a row that is back", "4 alerts  1 major")
	d.pressed <- keyEnd
	shows("the last rows", "from 2 of 4", "clear")
	d.pressed <- keyQuit
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// brokenTables answer nothing.
type brokenTables struct{ alertTables }

func (brokenTables) each(context.Context, string, func(*alertResult) error) error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "ask", Err: errors.New("nobody answers")}
}

func (brokenTables) changes(context.Context, string, *alert.ChangeOptions) iter.Seq2[alertChange, error] {
	return func(func(alertChange, error) bool) {}
}

func TestWatcherKeepsItsRowsInTrouble(t *testing.T) {
	b := newBoard(&changeFlags{}, true)
	w := &watcher{tables: brokenTables{}, board: b}
	b.rows = []boardRow{{severity: 5, values: map[string]alert.Value{"Summary": alert.Text("there\x1b[2J")}}}
	b.trouble = w.ask(t.Context())
	page := strings.Join(b.lines(80, 5, time.Unix(1000, 0)), "\n")
	if !strings.Contains(page, `"there\x1b[2J"`) || !strings.Contains(page, "nobody answers") || strings.Contains(page, "\x1b[2J") {
		t.Errorf("%q", page)
	}
	if err := w.run(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a watch that never saw anything: %v", err)
	}
}

func TestBoardFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBoard(&changeFlags{}, rapid.Bool().Draw(t, "colour"))
		for i := range rapid.IntRange(0, 20).Draw(t, "rows") {
			b.rows = append(b.rows, boardRow{
				severity: rapid.Int64Range(-1, 7).Draw(t, "severity"), serial: int64(i), cluster: rapid.SampledFrom([]string{"", "AGG1"}).Draw(t, "cluster"),
				values: map[string]alert.Value{"Node": alert.Text(rapid.String().Draw(t, "node")), "Summary": alert.Text(rapid.StringN(0, 200, -1).Draw(t, "summary"))},
			})
		}
		width, height := rapid.IntRange(0, 200).Draw(t, "width"), rapid.IntRange(0, 30).Draw(t, "height")
		for range 3 {
			b.press(key(rapid.IntRange(int(keyUp), int(keyEnd)).Draw(t, "key")), height)
		}
		b.colour = false
		page := b.lines(width, height, time.Now())
		if len(page) > height {
			t.Fatalf("%d lines on %d", len(page), height)
		}
		for _, line := range page {
			if textWidth(line) > width || strings.ContainsAny(line, "\x1b\r\n") {
				t.Fatalf("a line of %d on %d: %q", textWidth(line), width, line)
			}
		}
	})
}

func TestColours(t *testing.T) {
	b := newBoard(&changeFlags{}, true)
	b.rows, b.counts = []boardRow{{severity: 5}}, map[int64]int64{5: 1}
	if page := b.lines(80, 5, time.Now()); !strings.HasPrefix(page[2], "\x1b[1;31mcritical") || !strings.HasSuffix(page[2], "\x1b[0m") {
		t.Errorf("%q", page)
	}
	b.colour = false
	if page := strings.Join(b.lines(80, 5, time.Now()), ""); strings.Contains(page, "\x1b") {
		t.Errorf("colours although nobody wants them: %q", page)
	}
}

func TestKeys(t *testing.T) {
	pressed := make(chan key, 20)
	readKeys(strings.NewReader("x\x1b[A\x1b[6~jG\x1b[H\x1b[Zq"), pressed)
	var got []key
	for k := range pressed {
		got = append(got, k)
	}
	if want := []key{keyOther, keyUp, keyPageDown, keyDown, keyEnd, keyHome, keyOther}; !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 3 * time.Hour: "3h00m",
		49 * time.Hour: "2d01h", time.Since(time.Time{}): "-",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// TestTailTellsWhatLeaves follows rows that meet a condition until they do not.
func TestTailTellsWhatLeaves(t *testing.T) {
	tables := openTestTables(t)
	s, err := newSeen(t.Context(), tables, &changeFlags{table: statusTable, filter: "Severity > 3"})
	if err != nil || !slices.Equal(s.keys, []string{"Identifier"}) {
		t.Fatalf("%v, %q", err, s.keys)
	}
	var got []string
	for _, text := range []string{
		"insert into alerts.status (Identifier, Severity) values ('it''s', 5)",
		"insert into alerts.status (Identifier, Severity) values ('b', 1)",
		"update alerts.status set Severity = 4 where Severity = 5",
		"update alerts.status set Severity = 2 where Severity = 4",
		"update alerts.status set Severity = 3 where Severity = 2",
		"update alerts.status set Severity = 5 where Severity = 1",
		"delete from alerts.status",
	} {
		head, err := tables.(*logTables).server.Log().Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := tables.each(t.Context(), text, func(*alertResult) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for c, err := range tables.changes(t.Context(), statusTable, &alert.ChangeOptions{After: head, NoFollow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			what, err := s.judge(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if what != "" {
				got = append(got, what+" "+c.get("Identifier").String())
			}
		}
	}
	want := []string{"change it's", "change it's", "leave it's", "change b", "delete b"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// outcome is what a command line did.
type outcome struct {
	status      int
	out, errors string
}

// runAlerts runs a command line in this process, on nothing but what change gives it.
func runAlerts(ctx context.Context, change func(*cli.Main), line ...string) outcome {
	var out, errs testkit.Lines
	m := &cli.Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	if change != nil {
		change(m)
	}
	status := m.Run(ctx, m.Root([]*cobra.Command{New(m)}, nil), line)
	return outcome{status, out.String(), errs.String()}
}
