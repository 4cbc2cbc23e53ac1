package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting bounds templates within templates.
const maxNesting = 20

// template is a text with fields in it:
//
//	${name}             the field, or nothing
//	${name:-default}    what stands there, fields too, if the field is missing or empty
//	${name|filter|…}    with filters, see [filters]
//	${=Column}          what the mapping gives that column
//	$$                  a dollar sign
type template struct {
	parts []part
}

type part struct {
	text     string // if there is no field
	field    string
	column   bool // the field is a column of the row
	fallback *template
	filters  []func(string) string
}

// scope is where the fields of a template come from.
type scope interface {
	field(name string) string
	column(name string) string
}

// expand returns the text with its fields filled in.
func (t *template) expand(s scope) string {
	if t == nil {
		return ""
	}
	if len(t.parts) == 1 {
		return t.parts[0].expand(s)
	}
	var b strings.Builder
	for i := range t.parts {
		b.WriteString(t.parts[i].expand(s))
	}
	return b.String()
}

func (p *part) expand(s scope) string {
	var v string
	switch {
	case p.field == "":
		return p.text
	case p.column:
		v = s.column(p.field)
	default:
		v = s.field(p.field)
	}
	if v == "" {
		v = p.fallback.expand(s)
	}
	for _, f := range p.filters {
		v = f(v)
	}
	return v
}

// names calls field for each field of the template, and column for each column.
func (t *template) names(field, column func(string)) {
	if t == nil {
		return
	}
	for i := range t.parts {
		p := &t.parts[i]
		switch {
		case p.field == "":
		case p.column:
			column(p.field)
		default:
			field(p.field)
		}
		p.fallback.names(field, column)
	}
}

// literalTemplate is a template without fields.
func literalTemplate(s string) *template { return &template{parts: []part{{text: s}}} }

// joined is a template of others with a text between them.
func joined(all []*template, between string) *template {
	out := &template{}
	for i, t := range all {
		if i > 0 && between != "" {
			out.parts = append(out.parts, part{text: between})
		}
		out.parts = append(out.parts, t.parts...)
	}
	return out
}

// parseTemplate reads a template.
func parseTemplate(s string) (*template, error) {
	p := &templateParser{s: s}
	t, err := p.template(false, 0)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", s, err)
	}
	return t, nil
}

type templateParser struct {
	s  string
	at int
}

// template reads up to the end, or up to what ends a default.
func (p *templateParser) template(nested bool, depth int) (*template, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("more than %d templates within each other", maxNesting)
	}
	t := &template{}
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			t.parts = append(t.parts, part{text: text.String()})
			text.Reset()
		}
	}
	for p.at < len(p.s) {
		c := p.s[p.at]
		switch {
		case nested && (c == '}' || c == '|'):
			flush()
			return t, nil
		case c != '$':
			text.WriteByte(c)
			p.at++
		case strings.HasPrefix(p.s[p.at:], "$$"):
			text.WriteByte('$')
			p.at += 2
		case strings.HasPrefix(p.s[p.at:], "${"):
			flush()
			p.at += 2
			part, err := p.field(depth)
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, part)
		default:
			return nil, errors.New("a dollar sign that begins no ${field}: write $$")
		}
	}
	flush()
	return t, nil
}

// field reads what follows "${".
func (p *templateParser) field(depth int) (part, error) {
	var out part
	begin := p.at
	for p.at < len(p.s) && p.s[p.at] != '}' && p.s[p.at] != '|' && !strings.HasPrefix(p.s[p.at:], ":-") {
		p.at++
	}
	out.field = strings.TrimSpace(p.s[begin:p.at])
	out.field, out.column = strings.CutPrefix(out.field, "=")
	if out.field == "" {
		return out, errors.New("${ without the name of a field")
	}
	if strings.HasPrefix(p.s[p.at:], ":-") {
		p.at += 2
		var err error
		if out.fallback, err = p.template(true, depth+1); err != nil {
			return out, err
		}
	}
	for p.at < len(p.s) && p.s[p.at] == '|' {
		p.at++
		f, err := p.filter()
		if err != nil {
			return out, err
		}
		out.filters = append(out.filters, f)
	}
	if p.at == len(p.s) {
		return out, fmt.Errorf("${%s is not closed by }", out.field)
	}
	p.at++
	return out, nil
}

// filters are those that take no argument. Besides there are cut:N, the first N
// bytes, and s/expression/replacement/, which replaces every match.
var filters = map[string]func(string) string{
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
	"trim":  strings.TrimSpace,
	"hash":  shortHash,
}

const filterNames = "lower, upper, trim, hash, cut:N and s/expression/replacement/"

func (p *templateParser) filter() (func(string) string, error) {
	if p.at+1 < len(p.s) && p.s[p.at] == 's' && strings.IndexByte("/#,!", p.s[p.at+1]) >= 0 {
		return p.substitution()
	}
	begin := p.at
	for p.at < len(p.s) && p.s[p.at] != '}' && p.s[p.at] != '|' {
		p.at++
	}
	name := strings.TrimSpace(p.s[begin:p.at])
	if f := filters[name]; f != nil {
		return f, nil
	}
	if digits, ok := strings.CutPrefix(name, "cut:"); ok {
		n, err := strconv.Atoi(digits)
		if err == nil && n >= 0 {
			return func(s string) string { return cutText(s, n) }, nil
		}
	}
	return nil, fmt.Errorf("there is no filter %q: there are %s", name, filterNames)
}

// substitution reads s/expression/replacement/, with another sign than "/" if the
// expression has one. The signs $1 and ${name} of the replacement are groups of the match.
func (p *templateParser) substitution() (func(string) string, error) {
	sign := p.s[p.at+1]
	p.at += 2
	var parts [2]string
	for i := range parts {
		var b strings.Builder
		for {
			if p.at >= len(p.s) {
				return nil, fmt.Errorf("s%c is not closed by %[1]c", sign)
			}
			c := p.s[p.at]
			p.at++
			if c == sign {
				break
			}
			if c == '\\' && p.at < len(p.s) {
				if p.s[p.at] != sign {
					b.WriteByte(c)
				}
				c = p.s[p.at]
				p.at++
			}
			b.WriteByte(c)
		}
		parts[i] = b.String()
	}
	re, err := regexp.Compile(parts[0])
	if err != nil {
		return nil, err
	}
	return func(s string) string { return re.ReplaceAllString(s, parts[1]) }, nil
}

// cutText returns the longest beginning of s with at most n bytes that does not end
// within a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// shortHash returns 16 hexadecimal digits that stand for s.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// shorten makes s fit n bytes: the end of a text that is too long becomes a hash of
// the whole, so that texts which differ stay different.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := "~" + shortHash(s)
	if n < len(end) {
		return end[len(end)-n:]
	}
	return cutText(s, n-len(end)) + end
}
