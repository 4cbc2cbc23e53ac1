package ingest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/ingest"
)

// event is a JSON Lines event with fields "name=value".
func event(fields ...string) *ingest.Event {
	e := ingest.NewEvent(ingest.JSONLines)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		e.Set(name, value)
	}
	return e
}

// fill returns what a rule makes of an event in a column.
func fill(t testing.TB, column, rule string, e *ingest.Event) (string, error) {
	t.Helper()
	text := fmt.Sprintf("jsonl:\n  inherit: false\n  columns:\n    Identifier: x\n    %s: %s\n", column, rule)
	m := mapping(t, ingest.JSONLines, text)
	row, ok, err := m.Row(e)
	if err != nil {
		return "", err
	}
	if !ok {
		t.Fatal("dropped")
	}
	for i, name := range m.Columns() {
		if name == column {
			return fmt.Sprint(row[i]), nil
		}
	}
	t.Fatalf("no column %s", column)
	return "", nil
}

func TestRules(t *testing.T) {
	e := event("host=Web-01.Example.com", "level=ERROR", "n=42", "empty=", "msg=Interface ge-0/0/1, changed state to down",
		"a.b=nested", "when=2026-02-03T04:05:06Z", "ms=1767323045123", "day=03/Feb/2026", "de=03.02.2026", "price=5$", "Sev=7")
	for _, c := range []struct{ column, rule, want string }{
		{"Summary", `"plain"`, "plain"},
		{"Summary", `"${host} ${n}!"`, "Web-01.Example.com 42!"},
		{"Summary", `"${HOST}"`, "Web-01.Example.com"},
		{"Summary", `"${none}"`, ""},
		{"Summary", `"${none:-nothing}"`, "nothing"},
		{"Summary", `"${empty:-nothing}"`, "nothing"},
		{"Summary", `"${none:-${empty:-${a.b}}}"`, "nested"},
		{"Summary", `"costs 5$$ or ${price}"`, "costs 5$ or 5$"},
		{"Summary", `"${host|lower}"`, "web-01.example.com"},
		{"Summary", `"${host:-x|upper|cut:6}"`, "WEB-01"},
		{"Summary", `'${host|s/\..*//}'`, "Web-01"},
		{"Summary", `'${host|s/^(\w+)-(\d{2})/$2.$1/}'`, "01.Web.Example.com"},
		{"Summary", `'${host|s#/#_#}'`, "Web-01.Example.com"},
		{"Summary", `'${n|s/4\/?/\//}'`, "/2"},
		{"Summary", `["${host}", "${n}", "${none}", end]`, "Web-01.Example.com:42::end"},
		{"Summary", `{parts: ["${n}", x], join: "/"}`, "42/x"},
		{"Summary", `{field: msg, match: 'Interface (\S+),'}`, "ge-0/0/1"},
		{"Summary", `{field: msg, match: '(?P<if>ge\S+),.* (?P<state>\w+)$', to: '${state} ${if}'}`, "down ge-0/0/1"},
		{"Summary", `{field: msg, match: 'nothing like it', default: 'none of ${n}'}`, "none of 42"},
		{"Summary", `{field: host, case: upper}`, "WEB-01.EXAMPLE.COM"},
		{"Summary", `{field: host, replace: [{match: '\.', with: '_'}, {match: '^W', with: w}]}`, "web-01_Example_com"},
		{"Severity", `3`, "3"},
		{"Severity", `{field: level}`, "4"},
		{"Severity", `{field: n, default: 1}`, "42"},
		{"Severity", `{field: none, default: 1}`, "1"},
		{"Severity", `{field: host, default: critical}`, "5"},
		{"Severity", `"${none}"`, "0"},
		{"Type", `resolved`, "2"},
		{"Acknowledged", `true`, "1"},
		{"LastOccurrence", `"${when}"`, "1770091506"},
		{"LastOccurrence", `"${ms}"`, "1767323045"},
		{"LastOccurrence", `{field: n, time: unix}`, "42"},
		{"LastOccurrence", `{field: day, time: 02/Jan/2006, zone: Europe/Berlin}`, "1770073200"},
		{"LastOccurrence", `{field: de, time: [auto, 02.01.2006]}`, "1770076800"},
		{"LastOccurrence", `{field: when, time: [02.01.2006, Auto]}`, "1770091506"},
		{"LastOccurrence", `{field: ms, time: [auto, 02.01.2006]}`, "1767323045"},
		{"LastOccurrence", `{field: when, time: auto}`, "1770091506"},
		{"LastOccurrence", `""`, "0"},
		{"ExpireTime", `" 60 "`, "60"},
	} {
		if got, err := fill(t, c.column, c.rule, e); err != nil || got != c.want {
			t.Errorf("%s: %s is %q, %v; want %q", c.column, c.rule, got, err, c.want)
		}
	}
	for _, c := range []struct{ column, rule, want string }{
		{"Severity", `"${host}"`, "is not in the table severity"},
		{"Tally", `"${host}"`, "is no number"},
		{"LastOccurrence", `"${host}"`, "no time"},
		{"Tally", `"${ms}"`, "out of range"},
	} {
		if got, err := fill(t, c.column, c.rule, e); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.column) {
			t.Errorf("%s: %s is %q, %v; want an error with %q", c.column, c.rule, got, err, c.want)
		}
	}
}

// TestMistakes: all of them at once, each with its line.
func TestMistakes(t *testing.T) {
	text := `
syslog:
  colums: {}
  drop:
    - {field: a}
    - {field: a, match: '('}
  columns:
    Nod: x
    severity: 3
    Serial: 5
    Tally: many
    Summary: "${a"
    Node: "$a"
    Agent: "${a|nothing}"
    Manager: {field: a, value: b}
    Location: {field: a, tabel: b}
    Customer: {field: a, table: b}
    Service: {field: a, to: x}
    Summary: again
    Grade: [1, {}]
    AlertKey: "${=Nobody}"
  extract:
    - {field: a, match: 'x'}
  unmapped: Tally
kafka: {}
csv: []
jsonl:
  table: alerts.nothing
`
	_, err := ingest.ParseMappings("my.yaml", []byte(text), nil)
	if !errors.Is(err, mainstem.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`my.yaml:3: unknown key "colums"`, `my.yaml:5: drop: want`, `my.yaml:6: error parsing regexp`,
		`my.yaml:8: alerts.status has no column "Nod"`, `my.yaml:9: alerts.status has no column "severity": did you mean Severity?`,
		`my.yaml:10: the server gives the values of the column Serial`, `my.yaml:11: `, `my.yaml:12: "${a": ${a is not closed`,
		`my.yaml:13: "$a": a dollar sign`, `my.yaml:14: "${a|nothing}": there is no filter "nothing"`,
		`my.yaml:15: column Manager: want one of value, field and parts`, `my.yaml:16: unknown key "tabel"`,
		`my.yaml:17: there is no table of words "b"`, `my.yaml:18: to: needs match`, `my.yaml:19: the key "Summary" is there twice, in line 12 too`,
		`my.yaml:20: want a text or a number here`, `my.yaml:23: extract: the expression has no named groups`,
		`my.yaml:24: unmapped: want ignore, error or a text column`, `my.yaml:25: unknown key "kafka"`, `my.yaml:26: want keys`,
		`my.yaml:28: jsonl: there is no table "alerts.nothing"`, `syslog: column AlertKey: ${=Nobody} is no column`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in\n%v", want, err)
		}
	}
	_, err = ingest.ParseMappings("my.yaml", []byte("---\njsonl: {}\n---\nsyslog: {columns: {Node: x}}\n"), nil)
	if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "my.yaml:3: a second document") {
		t.Error(err)
	}
	if _, err := ingest.ParseMappings("my.yaml", []byte("---\njsonl: {}\n...\n# end\n"), nil); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"a: &x [*x]", "jsonl: *x", "jsonl: {columns: {Node: &a x, Agent: *a}}", "- 1", "jsonl:\n  columns:\n    Node: \"${=Agent}\"\n    Agent: \"${=Node}\"", "\x00", "jsonl: {columns: {Identifier: null}, by_name: false}"} {
		if _, err := ingest.ParseMappings("my.yaml", []byte(text), nil); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "my.yaml") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ingest.LoadMappings("testdata/nothing.yaml", nil); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
}

func TestDropAndExtract(t *testing.T) {
	m := mapping(t, ingest.JSONLines, `
jsonl:
  extract:
    - {field: msg, match: 'user=(?P<user>\w+)'}
  drop:
    - {field: level, in: [Debug, trace]}
    - [{field: host, match: '^test-'}, {field: level, equals: critical, not: true}]
    - {value: "${=Severity}", equals: 0}
    - {field: keep, exists: false}
  columns:
    Identifier: "${host}"
    Customer: "${user}"
`)
	for _, c := range []struct {
		e  *ingest.Event
		ok bool
	}{
		{event("keep=1", "level=info", "host=a"), true},
		{event("level=info", "host=a"), false},
		{event("keep=1", "level=DEBUG", "host=a"), false},
		{event("keep=1", "level=major", "host=test-1"), false},
		{event("keep=1", "level=critical", "host=test-1"), true},
		{event("keep=1", "level=clear", "host=a"), false},
	} {
		if _, ok, err := m.Row(c.e); ok != c.ok || err != nil {
			t.Errorf("%v: %v, %v", c.e, ok, err)
		}
	}
	if got := column(t, m, event("keep=1", "host=a", "msg=login user=root"), "Customer"); got != "root" {
		t.Errorf("Customer is %q", got)
	}
}

// column returns what a mapping puts into one column.
func column(t testing.TB, m *ingest.Mapping, e *ingest.Event, name string) string {
	t.Helper()
	row, ok, err := m.Row(e)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for i, c := range m.Columns() {
		if c == name {
			return fmt.Sprint(row[i])
		}
	}
	t.Fatalf("no column %s", name)
	return ""
}

func TestInheritance(t *testing.T) {
	m := mapping(t, ingest.JSONLines, "jsonl: {columns: {Manager: mine, Agent: null}}")
	e := event("host=h", "msg=m", "other=o", "third=t=\"3\"")
	for name, want := range map[string]string{"Manager": "mine", "Agent": "", "Node": "h", "Summary": "m", "Type": "1", "ExtendedAttr": `other="o";third="t=""3"""`} {
		if got := column(t, m, e, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	m = mapping(t, ingest.JSONLines, "jsonl: {unmapped: error}")
	if _, _, err := m.Row(e); err == nil || !strings.Contains(err.Error(), `"other" is not mapped`) {
		t.Error(err)
	}
	m = mapping(t, ingest.CSV, "csv: {table: alerts.journal, columns: {KeyField: \"${k}\", Text1: x}, updating: Text1}")
	if fmt.Sprintf("%s %v %v", m.Table(), m.Columns(), m.Updating()) != "alerts.journal [KeyField Text1] [Text1]" {
		t.Error(m.Table(), m.Columns(), m.Updating())
	}
}

// TestLongKeys: two alerts that differ only behind the end of the column stay two.
func TestLongKeys(t *testing.T) {
	m := mapping(t, ingest.JSONLines, "")
	long := strings.Repeat("ü", 200)
	a, b := column(t, m, event("Identifier="+long+"a"), "Identifier"), column(t, m, event("Identifier="+long+"b"), "Identifier")
	if a == b || len(a) > 255 || len(a) < 250 || !strings.HasPrefix(a, "üü") {
		t.Errorf("%d bytes %q\n%d bytes %q", len(a), a, len(b), b)
	}
}

func TestDirtyTexts(t *testing.T) {
	m := mapping(t, ingest.JSONLines, "")
	if got := column(t, m, event("Identifier=1", "Summary=a\x00b\x1b[31m\xff\n"), "Summary"); got != "a b [31m\uFFFD\n" {
		t.Errorf("%q", got)
	}
}

// TestColumnsOfAServer: columns that were added can be mapped, those that were
// dropped cost the built-in mappings nothing.
func TestColumnsOfAServer(t *testing.T) {
	s, _ := server(t, nil)
	for _, text := range []string{"alter table alerts.status add column Rack varchar(8)", "alter table alerts.status drop column ExtendedAttr", "alter table alerts.status drop column URL"} {
		if _, err := s.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	o := &ingest.MappingOptions{Columns: ingest.ServerColumns(s)}
	m, err := ingest.ParseMappings("f", []byte("syslog: {columns: {Rack: r1}}"), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := column(t, m.For(ingest.Syslog), event("message=x", "severity=err"), "Rack"); got != "r1" {
		t.Errorf("Rack is %q", got)
	}
	if _, err := ingest.ParseMappings("f", []byte("syslog: {columns: {URL: x}}"), o); err == nil {
		t.Error("a column that was dropped is mapped")
	}
}

func TestExamplesOfMappings(t *testing.T) {
	for _, name := range []string{"network.yaml", "kubernetes.yaml", "tickets.yaml"} {
		if _, err := ingest.LoadMappings("testdata/"+name, &ingest.MappingOptions{Columns: alert.StandardColumns}); err != nil {
			t.Error(err)
		}
	}
}

func FuzzMappings(f *testing.F) {
	for _, s := range ingest.Sources {
		text, err := ingest.BuiltinMapping(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("jsonl: {columns: {Node: '${a:-${b|s/x/y/}|cut:3}', Severity: {field: x, match: '(a)', to: '$1', table: severity, default: 1}}}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ingest.ParseMappings("f.yaml", []byte(text), nil)
		if err != nil {
			if !errors.Is(err, mainstem.ErrInvalid) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		for _, s := range ingest.Sources {
			row, ok, err := m.For(s).Row(event("a=b", "message=text 1", "severity=err", "x=1"))
			if ok && err == nil && len(row) != len(m.For(s).Columns()) {
				t.Fatalf("%d values", len(row))
			}
		}
	})
}
