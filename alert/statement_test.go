package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// TestNoStatementRunsIfOneCannotBeParsed: a mistake anywhere in a text is found before
// anything is changed.
func TestNoStatementRunsIfOneCannotBeParsed(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	const insert = "insert into alerts.status (Identifier) values ('a'); "
	exec(t, s, "select 1") // known statements are not parsed again
	for _, text := range []string{
		insert + "update alerts.status set Severity = where 1 = 1",
		insert + "select 1; selekt 2",
		insert + "grant x to y",
		"select 1; " + insert + "delete alerts.status",
	} {
		for name, run := range map[string]func() error{
			"Exec":  func() error { _, err := s.Exec(t.Context(), text); return err },
			"Query": func() error { _, err := s.Query(t.Context(), text); return err },
		} {
			err := run()
			var e *mainstem.Error
			var at *StatementError
			if !errors.As(err, &e) || e.Outcome != mainstem.NotWritten || !errors.As(err, &at) || at.Ran != 0 || at.Statement != at.Of {
				t.Errorf("%s %q: %v (%v, %+v)", name, text, err, e.Outcome, at)
			}
			if want := fmt.Sprintf("statement %d of %[1]d: ", at.Of); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "none was carried out") {
				t.Errorf("%s %q: %v, want %s", name, text, err, want)
			}
		}
	}
	want(t, s, "[[0]]", "select count(*) from alerts.status")
}

// TestErrorSaysWhichStatementsRan: the outcome of a text is unknown only if that of a
// statement is.
func TestErrorSaysWhichStatementsRan(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	for i, c := range []struct {
		text    string
		want    string
		outcome mainstem.Outcome
		at      StatementError
	}{
		{"update alerts.status set Nothing = 1; delete from alerts.status", "statement 1 of 2: ", mainstem.NotWritten, StatementError{Statement: 1, Of: 2}},
		{"select 1; delete from alerts.nothing", "statement 1 was carried out (rows changed: 0)", mainstem.NotWritten, StatementError{Statement: 2, Of: 2, Ran: 1}},
		{"insert into alerts.status (Identifier) values ('a'), ('b'); select 1; delete from alerts.nothing; select 2",
			"statement 3 of 4: there is no table alerts.nothing; statements 1 to 2 were carried out (rows changed: 2)",
			mainstem.NoOutcome, StatementError{Statement: 3, Of: 4, Ran: 2, Changed: 2}},
	} {
		_, err := s.Exec(t.Context(), c.text)
		var e *mainstem.Error
		var at *StatementError
		if !errors.As(err, &e) || e.Outcome != c.outcome || !errors.As(err, &at) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v (outcome %v), want %q", i, err, e.Outcome, c.want)
			continue
		}
		if got := *at; got.Statement != c.at.Statement || got.Of != c.at.Of || got.Ran != c.at.Ran || got.Changed != c.at.Changed {
			t.Errorf("%d: %+v, want %+v", i, got, c.at)
		}
		if errors.Is(err, mainstem.ErrUnknownOutcome) || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%d: %v", i, err)
		}
	}
	want(t, s, "[[2]]", "select count(*) from alerts.status")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Exec(ctx, "delete from alerts.status; delete from alerts.status"); !errors.Is(err, mainstem.ErrCanceled) || errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("of a context that had ended: %v", err)
	}
}

// TestPartOfAStatement: of a statement that is several commits, those before the one that
// fails are certainly made.
func TestPartOfAStatement(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{BatchRows: 2})
	exec(t, s, "create table alerts.numbers persistent (N integer primary key, M integer)")
	_, err := s.Exec(t.Context(), "insert into alerts.numbers (N) values (1), (2), (3), (4), (4), (5)")
	var part *PartialError
	if !errors.As(err, &part) || part.Rows != 4 || errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
	want(t, s, "[[4]]", "select count(*) from alerts.numbers")
}

// TestTextsAreNoNumbers: what SQLite would find unequal, in silence, is an error that
// names the column, its type and the value.
func TestTextsAreNoNumbers(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	exec(t, s, "insert into alerts.status (Identifier, Serial, Severity, Node, Type) values ('a', 1, 5, '5', 1)")
	const critical = "\"Critical\" is no number, and the column Severity is of type integer"
	for text, wanted := range map[string]string{
		"select * from alerts.status where Severity = 'Critical'":                                             critical + "; Critical is 5, as alerts.conversions says",
		"select * from alerts.status where 'critical' <> Severity":                                            "critical is 5",
		"select * from alerts.status where Severity %= 'Critical'":                                            critical,
		"select * from alerts.status where (Severity) > ('Critical')":                                         critical,
		"select * from alerts.status where Severity in (1, 'Critical')":                                       critical,
		"select * from alerts.status where Severity not in ('Critical')":                                      critical,
		"select * from alerts.status where Severity = any ('Critical', '5')":                                  critical,
		"select * from alerts.status where Severity between 1 and 'Critical'":                                 critical,
		"select * from alerts.status where 'Critical' in (Severity, Type)":                                    critical,
		"delete from alerts.status where 'x' not in (Severity)":                                               "\"x\" is no number, and the column Severity",
		"select * from alerts.status where 'Critical' between Severity and 9":                                 critical,
		"select * from alerts.status where 'x' between 1 and 9":                                               "\"x\" is no number",
		"select case Severity when 'Critical' then 1 else 0 end from alerts.status":                           critical,
		"select dist(Severity, 'Critical') from alerts.status":                                                critical,
		"select Node, max(Severity) as m from alerts.status group by Node having m = 'high'":                  "\"high\" is no number, where one of type integer is wanted",
		"select * from alerts.status s where Node in (select Node from alerts.status where Type = 'Problem')": "Problem is 1",
		"select * from alerts.status where Severity = 'awful'":                                                "select Value, Conversion from alerts.conversions where Colname = 'Severity'",
		"select * from alerts.status where LastOccurrence > '2026-01-01'":                                     "to_time",
		"select * from catalog.tables where IsSystem = 'yes'":                                                 "TRUE or FALSE",
		"select * from alerts.status where Severity = ''":                                                     "\"\" is no number",
		"select * from alerts.status where Severity = 'Infinity'":                                             "no number",
		"update alerts.status set Severity = 0 where Type = 'Problem'":                                        "Problem is 1",
		"update alerts.status set Severity = 'Critical'":                                                      "Critical is 5",
		"insert into alerts.status (Identifier, Severity) values ('b', 'Critical')":                           "Critical is 5",
		"delete from alerts.status where Severity <> 'Critical'":                                              critical,
		"delete from alerts.status via Identifier = 'a'":                                                      "column Identifier, of type varchar",
		"select * from alerts.status via Identifier <> 'b'":                                                   "write VIA 'value'",
	} {
		r, err := s.Exec(t.Context(), text)
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %+v, %v; want %s", text, r, err, wanted)
		}
	}
	if _, err := s.Exec(t.Context(), "select * from alerts.status where Severity = ?", "Critical"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("an argument: %v", err)
	}
	for _, condition := range []string{
		"Severity = '5'", "Severity = ' 5.0 '", "'5' = Severity + 0", "Severity + 0 in ('5')", "Severity in ('4', '5')", "Severity between '1' and '9'",
		"'5' in (Type, Severity)", "'5' in (Node)", "'5.0' in (4, 5)", "'5' in (4, '5')", "'6' not in (Severity, Type)", "'5' in (Severity + 0, '7')",
		"Node in (4, 5)", "(Node) = (5)", "Node = -5 or Node <> -5", "Node %= 5", "Severity %< 10", "Severity %= '05'", "'5' in (select Severity from alerts.status)",
		"case Node when 5 then 1 else 0 end = 1", "case '5' when Severity + 0 then 1 else 0 end = 1", "to_int(nvp_get('n=\"10\"', 'n')) > 9",
		"case when Type = 1 then 5 else 'x' end = '5'",
		"'5' between 1 and 9", "'5' between Type and Severity", "'05' between Severity and 5", "not ('5' between Severity + 1 and '9')",
		"Node = 5", "Node = '5'", "Severity > '-1e3'", "Severity like '5'", "Node <> 'Critical'", "Severity = to_int(Node)",
	} {
		want(t, s, "[[1]]", "select count(*) from alerts.status where "+condition)
	}
	want(t, s, "[[1]]", "select count(*) from alerts.status via 'a'")
	want(t, s, "[[Critical]]", "select Conversion from alerts.conversions where Value = '5'")
}

// TestTextsAndNumbersAreNotCompared: SQLite finds each text greater than each number, so a DELETE
// with such a condition would take all rows.
func TestTextsAndNumbersAreNotCompared(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	exec(t, s, `insert into alerts.status (Identifier, Severity, AlertKey, ExtendedAttr) values ('a', 5, '10', 'retries="1"'), ('b', 80, '9', '')`)
	for condition, wanted := range map[string]string{
		"nvp_get(ExtendedAttr, 'retries') > 3":                    "the result of nvp_get, of type varchar, cannot be compared with an expression of type integer64",
		"nvp_get(ExtendedAttr, 'retries') <> 80":                  "nvp_get",
		"5 > (nvp_get(ExtendedAttr, 'retries'))":                  "nvp_get",
		"nvp_get(ExtendedAttr, 'retries') not in (80, 443)":       "nvp_get",
		"Severity in (1, nvp_get(ExtendedAttr, 'retries'))":       "the column Severity, of type integer,",
		"nvp_get(ExtendedAttr, 'retries') > Severity":             "the column Severity, of type integer,",
		"nvp_get(ExtendedAttr, 'retries') between 1 and 9":        "nvp_get",
		"Severity between 1 and nvp_get(ExtendedAttr, 'retries')": "nvp_get",
		"'5' between Severity and AlertKey":                       "the column AlertKey",
		"nvp_get(ExtendedAttr, 'retries') <> all (80, 443)":       "nvp_get",
		"nvp_get(ExtendedAttr, 'retries') %> 3":                   "nvp_get",
		"substr(AlertKey, 1, 2) <> 10":                            "the result of substr",
		"to_char(Severity) >= 5":                                  "the result of to_char",
		"AlertKey + '0' > 9":                                      "an expression of type varchar",
		"+AlertKey <> 10":                                         "an expression of type varchar",
		"AlertKey > 9":                                            "the column AlertKey, of type varchar, cannot be compared",
		"AlertKey between 1 and 9":                                "the column AlertKey",
		"AlertKey <> Severity":                                    "the column AlertKey",
		"9 not in (AlertKey)":                                     "the column AlertKey",
		"5 not in (select AlertKey from alerts.status)":           "the result of a SELECT, of type varchar,",
		"AlertKey not in (select Severity from alerts.status)":    "the column AlertKey",
		"(select min(AlertKey) from alerts.status) > 3":           "an expression of type varchar",
		"case nvp_get('', 'n') when 5 then 0 else 1 end = 1":      "nvp_get",
		"case 5 when AlertKey then 0 else 1 end = 1":              "the column AlertKey",
		"case when Severity > 3 then 1 else AlertKey end > 9":     "an expression of type varchar",
		"'x' not in (select Severity from alerts.status)":         "is no number",
		"case 'x' when Severity then 0 else 1 end = 1":            "is no number",
	} {
		r, err := s.Exec(t.Context(), "delete from alerts.status where "+condition)
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %+v, %v; want %s", condition, r, err, wanted)
		}
	}
	for text, wanted := range map[string]string{
		"select dist(AlertKey, Severity) from alerts.status": "the column AlertKey",
		"delete from alerts.status via to_int('5')":          "the column Identifier, of type varchar,",
		"select * from alerts.status where AlertKey > 9":     "to_int(…)",
	} {
		if r, err := s.Exec(t.Context(), text); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %+v, %v; want %s", text, r, err, wanted)
		}
	}
	want(t, s, "[[2]]", "select count(*) from alerts.status")
}

// TestLargePatterns: a pattern that would take much memory is refused, and those that are kept take
// a bounded amount.
func TestLargePatterns(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	exec(t, s, "insert into alerts.status (Identifier, Serial, Node) values ('a', 1, 'abc')")
	for text, wanted := range map[string]string{
		"." + strings.Repeat("a", MaxPattern):   "it has 8193 bytes: the limit is 8192",
		strings.Repeat(".{1000}", 100):          "the limit is 8192",
		"a(" + strings.Repeat("b", 20) + ".*)(": "missing closing )",
	} {
		for range 2 { // a refusal may be kept too
			if r, err := s.Exec(t.Context(), "select * from alerts.status where Node like ?", text); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%.20s: %+v, %v; want %s", text, r, err, wanted)
			}
		}
	}
	long := strings.Repeat("x?", MaxPattern/4)
	for i := range 2 * maxPatternSizes / MaxPattern {
		want(t, s, "[[1]]", fmt.Sprintf("select count(*) from alerts.status where Node like 'b%s[%d]?'", long, i))
		patterns.RLock()
		n, size := len(patterns.compiled), patterns.size
		patterns.RUnlock()
		if n == 0 || size > maxPatternSizes {
			t.Fatalf("%d patterns of size %d are kept: the limit is %d", n, size, maxPatternSizes)
		}
	}
}

// TestColumnInParentheses: distinct(Severity) is no function.
func TestColumnInParentheses(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	for text, name := range map[string]string{
		"select distinct(Severity) from alerts.status":   "Severity",
		"select distinct (Severity) as S from status":    "S",
		"select ((Node)), Serial from alerts.status":     "Node",
		"select (Severity + 1) from alerts.status":       "(Severity + 1)",
		"select count(*) from alerts.status":             "count(*)",
		"select max(Severity) from alerts.status":        "max(Severity)",
		"select count(distinct Node) from alerts.status": "count(distinct Node)",
	} {
		rows, err := s.Query(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if got := rows.Columns()[0].Name; got != name {
			t.Errorf("%s: the column is called %s, want %s", text, got, name)
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
}
