package omnibus

import (
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// The limits of what a request asks of a table.
const (
	maxOrder  = 8       // columns in orderby
	maxFilter = 1 << 20 // bytes
)

// The types that have a meaning here.
const (
	typeBoolean = osql.Boolean
	typeIncr    = osql.Incr
)

// condition is a filter that was found to be one condition and nothing else.
type condition struct {
	text  string // "" for none
	order string // what an ORDER BY at its end says
	fixed bool   // it means the same as long as the table does not change
}

// parseFilter reads the text of a WHERE, which clients may end with ORDER BY. It
// only looks at where the condition ends: the server reads the rest. So that it
// stands for itself, it may hold no comments, separators and parameters, and
// its parentheses must match.
func parseFilter(text string) (condition, error) {
	if len(text) > maxFilter {
		return condition{}, tooLarge("the filter has %d bytes: the limit is %d", len(text), maxFilter)
	}
	s := filterScanner{text: []byte(text), orderAt: -1}
	if err := s.run(); err != nil {
		return condition{}, err
	}
	c := condition{text: strings.TrimSpace(string(s.text)), fixed: s.fixed()}
	if s.orderAt >= 0 {
		c.text = strings.TrimSpace(string(s.text[:s.orderAt]))
		c.order = strings.TrimSpace(string(s.text[s.orderEnd:]))
		if c.order == "" {
			return c, badRequest("the filter ends with ORDER BY")
		}
	}
	return c, nil
}

type filterScanner struct {
	text     []byte // line ends outside of strings become blanks
	at       int
	depth    int
	words    []string // in capitals: those that matter
	orderAt  int      // of ORDER BY outside of parentheses, or -1
	orderEnd int
}

func (s *filterScanner) run() error {
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '\'' || c == '"':
			if err := s.quoted(c); err != nil {
				return err
			}
			continue
		case isLetter(c):
			s.word()
			continue
		case c == '\n' || c == '\r':
			s.text[s.at] = ' '
		case c == '(':
			s.depth++
		case c == ')':
			s.depth--
			if s.depth < 0 {
				return badRequest("the filter, byte %d: a ) without its (", s.at)
			}
		case c == ';' || c == '?' || c == 0:
			return badRequest("the filter, byte %d: the sign %q has no meaning in a condition", s.at, c)
		case s.begins("--") || s.begins("/*"):
			return badRequest("the filter, byte %d: a comment", s.at)
		}
		if isDigit(c) { // what follows is no word of its own
			for s.at < len(s.text) && (isLetter(s.text[s.at]) || isDigit(s.text[s.at])) {
				s.at++
			}
			continue
		}
		s.at++
	}
	if s.depth > 0 {
		return badRequest("the filter lacks %d )", s.depth)
	}
	return nil
}

func (s *filterScanner) begins(sign string) bool {
	return strings.HasPrefix(string(s.text[s.at:min(len(s.text), s.at+len(sign))]), sign)
}

// quoted passes a string. A doubled quote ends one and begins the next.
func (s *filterScanner) quoted(quote byte) error {
	end := slices.Index(s.text[s.at+1:], quote)
	if end < 0 {
		return badRequest("the filter, byte %d: the string has no closing %c", s.at, quote)
	}
	s.at += end + 2
	return nil
}

func (s *filterScanner) word() {
	from := s.at
	for s.at < len(s.text) && (isLetter(s.text[s.at]) || isDigit(s.text[s.at])) {
		s.at++
	}
	w := strings.ToUpper(string(s.text[from:s.at]))
	switch w {
	case "ORDER":
		if s.depth == 0 && s.orderAt < 0 {
			s.order(from)
		}
	case "SELECT", "GETDATE", "GET_PROP_VALUE":
		s.words = append(s.words, w)
	}
}

// order notes where ORDER BY begins and ends, if BY follows.
func (s *filterScanner) order(from int) {
	i := s.at
	for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\t' || s.text[i] == '\r' || s.text[i] == '\n') {
		i++
	}
	if i > s.at && i+2 <= len(s.text) && strings.EqualFold(string(s.text[i:i+2]), "by") &&
		(i+2 == len(s.text) || !isLetter(s.text[i+2]) && !isDigit(s.text[i+2])) {
		s.orderAt, s.orderEnd = from, i+2
	}
}

// fixed reports whether nothing but the table decides what the condition selects.
func (s *filterScanner) fixed() bool { return len(s.words) == 0 }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// findColumn returns the column of t called name, the number of the row included.
func findColumn(t *alert.TableInfo, name string) (alert.Column, error) {
	if name == osql.RowSerial {
		return alert.Column{Name: osql.RowSerial, Type: osql.Integer, Size: 4}, nil
	}
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return t.Columns[i], nil
		}
	}
	return alert.Column{}, badRequest("%s.%s has no column %.60q", t.Database, t.Name, name)
}

// splitList returns the items of a comma list that are not empty.
func splitList(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// parseCollist reads a comma list of columns. The row's number is always the last,
// unless it is named; an empty list, or *, are all columns.
func parseCollist(text string, t *alert.TableInfo) ([]string, error) {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	all := func() {
		for i := range t.Columns {
			add(t.Columns[i].Name)
		}
	}
	for _, item := range splitList(text) {
		if item == "*" {
			all()
			continue
		}
		if _, err := findColumn(t, item); err != nil {
			return nil, err
		}
		add(item)
	}
	if len(names) == 0 {
		all()
	}
	add(osql.RowSerial)
	return names, nil
}

// term is one column of an order.
type term struct {
	column string
	desc   bool
}

// parseOrder reads a comma list of columns, each with ASC or DESC or neither.
func parseOrder(text string, t *alert.TableInfo) ([]term, error) {
	var out []term
	for item := range strings.SplitSeq(text, ",") {
		words := strings.Fields(item)
		if len(words) == 0 {
			continue
		}
		if _, err := findColumn(t, words[0]); err != nil {
			return nil, err
		}
		o := term{column: words[0]}
		switch {
		case len(words) == 1:
		case len(words) == 2 && strings.EqualFold(words[1], "asc"):
		case len(words) == 2 && strings.EqualFold(words[1], "desc"):
			o.desc = true
		default:
			return nil, badRequest("orderby has %.100q: want a column, and ASC or DESC", strings.TrimSpace(item))
		}
		if slices.ContainsFunc(out, func(p term) bool { return p.column == o.column }) {
			continue // a second time it decides nothing
		}
		if out = append(out, o); len(out) > maxOrder {
			return nil, badRequest("orderby has more than %d columns", maxOrder)
		}
	}
	return out, nil
}
