package ingest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/mainstemdev/mainstem/alert"
)

// mappingParser reads a mapping file and collects its mistakes.
type mappingParser struct {
	file      string
	columnsOf func(string) []alert.Column
	lenient   bool // columns that do not exist are passed over
	tables    map[string]map[string]string
	errs      []error
}

// definition is a section of a mapping file, with what it inherits.
type definition struct {
	node     *yaml.Node
	table    string
	schema   []alert.Column
	rules    map[string]*rule // by the names of columns
	byName   bool
	unmapped string
	updating []string
	drop     [][]condition
	extract  []extraction
}

// entry is a key of a YAML mapping, with its value.
type entry struct{ key, value *yaml.Node }

func (p *mappingParser) fail(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", p.file, n.Line, fmt.Errorf(format, args...)))
}

// entries returns the entries of a YAML mapping, each key once.
func (p *mappingParser) entries(n *yaml.Node) []entry {
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" {
			p.fail(n, "want keys with values here, got %s", kindOf(n))
		}
		return nil
	}
	var out []entry
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			p.fail(k, "want a name here, got %s", kindOf(k))
			continue
		}
		if line, ok := seen[k.Value]; ok {
			p.fail(k, "the key %q is there twice, in line %d too", k.Value, line)
			continue
		}
		seen[k.Value] = k.Line
		out = append(out, entry{k, v})
	}
	return out
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which mappings do not have"
	}
	return fmt.Sprintf("%q", n.Value)
}

// scalar returns the text of a scalar.
func (p *mappingParser) scalar(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		p.fail(n, "want a text or a number here, got %s", kindOf(n))
		return ""
	}
	return n.Value
}

func (p *mappingParser) boolean(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		p.fail(n, "want true or false, got %s", kindOf(n))
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

// list returns the items of a list; anything else is a list of one.
func (p *mappingParser) list(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return []*yaml.Node{n}
}

func (p *mappingParser) texts(n *yaml.Node) []string {
	out := []string{}
	for _, item := range p.list(n) {
		out = append(out, p.scalar(item))
	}
	return out
}

func (p *mappingParser) expression(n *yaml.Node) *regexp.Regexp {
	re, err := regexp.Compile(p.scalar(n))
	if err != nil {
		p.fail(n, "%w", err)
		return nil
	}
	return re
}

// template reads a template, or a list of them that are joined.
func (p *mappingParser) template(n *yaml.Node, between string) *template {
	var parts []*template
	for _, item := range p.list(n) {
		s := p.scalar(item)
		if item.Tag == "!!bool" {
			s = map[bool]string{true: "1", false: "0"}[p.boolean(item)]
		}
		t, err := parseTemplate(s)
		if err != nil {
			p.fail(item, "%w", err)
			t = literalTemplate("")
		}
		parts = append(parts, t)
	}
	return joined(parts, between)
}

// readTables reads the tables of the file.
func (p *mappingParser) readTables(n *yaml.Node) {
	for _, t := range p.entries(n) {
		table := map[string]string{}
		for _, e := range p.entries(t.value) {
			table[strings.ToLower(e.key.Value)] = p.scalar(e.value)
		}
		p.tables[t.key.Value] = table
	}
}

func (p *mappingParser) lookup(n *yaml.Node) (map[string]string, string) {
	name := p.scalar(n)
	if t := p.tables[name]; t != nil {
		return t, name
	}
	if t := builtinTables[name]; t != nil {
		return t, name
	}
	known := append(slices.Sorted(maps.Keys(p.tables)), slices.Sorted(maps.Keys(builtinTables))...)
	p.fail(n, "there is no table of words %q: there are %s", name, strings.Join(known, ", "))
	return map[string]string{}, name
}

// section reads what a file says of a source, on top of the built-in definition if
// there is one.
func (p *mappingParser) section(s Source, n *yaml.Node, builtin *definition) *definition {
	entries := p.entries(n)
	d := &definition{node: n, table: DefaultTable, rules: map[string]*rule{}, unmapped: unmappedIgnore}
	inherit := builtin != nil
	for _, e := range entries {
		switch e.key.Value {
		case "table":
			d.table = p.scalar(e.value)
			inherit = inherit && d.table == builtin.table
		}
	}
	for _, e := range entries {
		if e.key.Value == "inherit" {
			inherit = p.boolean(e.value) && builtin != nil
		}
	}
	if d.schema = p.columnsOf(d.table); d.schema == nil {
		p.fail(n, "%s: there is no table %q", s, d.table)
		return d
	}
	if inherit {
		d.byName, d.unmapped = builtin.byName, builtin.unmapped
		d.rules, d.updating = maps.Clone(builtin.rules), builtin.updating
		d.drop, d.extract = slices.Clone(builtin.drop), slices.Clone(builtin.extract)
	}
	for _, e := range entries {
		p.key(d, e)
	}
	return d
}

// key reads one key of a section.
func (p *mappingParser) key(d *definition, e entry) {
	switch e.key.Value {
	case "table", "inherit":
	case "by_name":
		d.byName = p.boolean(e.value)
	case "unmapped":
		d.unmapped = p.scalar(e.value)
		if d.unmapped != unmappedIgnore && d.unmapped != unmappedError {
			if c := p.column(d, e.value, d.unmapped); c == nil && !p.lenient || c != nil && !c.Type.Text() {
				p.fail(e.value, "unmapped: want ignore, error or a text column, got %q", d.unmapped)
			}
		}
	case "updating":
		d.updating = nil
		for _, item := range p.list(e.value) {
			if c := p.column(d, item, p.scalar(item)); c != nil {
				d.updating = append(d.updating, c.Name)
			}
		}
	case "extract":
		for _, item := range p.list(e.value) {
			d.extract = append(d.extract, p.extraction(item))
		}
	case "drop":
		for _, item := range p.list(e.value) {
			var all []condition
			for _, one := range p.list(item) {
				all = append(all, p.condition(one))
			}
			d.drop = append(d.drop, all)
		}
	case "columns":
		for _, c := range p.entries(e.value) {
			p.rule(d, c)
		}
	default:
		p.fail(e.key, "unknown key %q: want table, inherit, by_name, unmapped, updating, extract, drop or columns", e.key.Value)
	}
}

// column returns the column of that name; nil, with an error, if there is none.
func (p *mappingParser) column(d *definition, n *yaml.Node, name string) *alert.Column {
	i := slices.IndexFunc(d.schema, func(c alert.Column) bool { return c.Name == name })
	if i >= 0 {
		return &d.schema[i]
	}
	if p.lenient {
		return nil
	}
	hint := ""
	if i := slices.IndexFunc(d.schema, func(c alert.Column) bool { return strings.EqualFold(c.Name, name) }); i >= 0 {
		hint = fmt.Sprintf(": did you mean %s?", d.schema[i].Name)
	}
	p.fail(n, "%s has no column %q%s", d.table, name, hint)
	return nil
}

// rule reads what a column gets.
func (p *mappingParser) rule(d *definition, e entry) {
	c := p.column(d, e.key, e.key.Value)
	if c == nil {
		return
	}
	if numbered(c) {
		p.fail(e.key, "the server gives the values of the column %s", c.Name)
		return
	}
	if e.value.Kind == yaml.ScalarNode && e.value.Tag == "!!null" {
		delete(d.rules, c.Name) // what was inherited
		return
	}
	r := &rule{column: *c, to: "$0"}
	if usual := usualTables[c.Name]; usual != "" {
		r.table, r.name = builtinTables[usual], usual
	}
	if e.value.Kind == yaml.MappingNode {
		p.ruleKeys(r, e)
	} else {
		r.value = p.template(e.value, ":")
	}
	d.rules[c.Name] = r
	p.checkConstant(r, e.value)
}

// checkConstant finds out at once what does not fit.
func (p *mappingParser) checkConstant(r *rule, n *yaml.Node) {
	constant := true
	r.refers(func(string) { constant = false }, func(string) { constant = false })
	if !constant {
		return
	}
	text, err := r.text(&rowScope{m: &Mapping{}, e: NewEvent("")})
	if err == nil {
		_, err = r.typed(text)
	}
	if err != nil {
		p.fail(n, "%w", err)
	}
}

// ruleKeys reads a rule that has keys.
func (p *mappingParser) ruleKeys(r *rule, e entry) {
	between, values := ":", 0
	var value, to *yaml.Node
	for _, k := range p.entries(e.value) {
		switch k.key.Value {
		case "value", "parts":
			value = k.value
			values++
		case "field":
			r.value = &template{parts: []part{{field: p.scalar(k.value)}}}
			values++
		case "join":
			between = p.scalar(k.value)
		case "match":
			r.match = p.expression(k.value)
		case "to":
			to = k.value
		case "case":
			switch p.scalar(k.value) {
			case "lower":
				r.fold = strings.ToLower
			case "upper":
				r.fold = strings.ToUpper
			default:
				p.fail(k.value, "case: want lower or upper, got %q", k.value.Value)
			}
		case "replace":
			for _, item := range p.list(k.value) {
				r.replace = append(r.replace, p.replacement(item))
			}
		case "table":
			r.table, r.name = p.lookup(k.value)
		case "time":
			r.layouts = p.layouts(k.value)
		case "zone":
			zone, err := time.LoadLocation(p.scalar(k.value))
			if err != nil {
				p.fail(k.value, "zone: %w", err)
			}
			r.zone = zone
		case "default":
			r.fallback = p.template(k.value, ":")
		default:
			p.fail(k.key, "unknown key %q: want value, field, parts, join, match, to, case, replace, table, time, zone or default", k.key.Value)
		}
	}
	if values != 1 {
		p.fail(e.key, "column %s: want one of value, field and parts", r.column.Name)
	}
	if value != nil {
		r.value = p.template(value, between)
	}
	p.groups(r, to)
}

// groups decides what is taken of a match: to, or the first group, or all of it.
func (p *mappingParser) groups(r *rule, to *yaml.Node) {
	switch {
	case to != nil && r.match == nil:
		p.fail(to, "to: needs match")
	case to != nil:
		r.to = p.scalar(to)
	case r.match != nil && r.match.NumSubexp() > 0:
		r.to = "${1}"
	}
}

func (p *mappingParser) layouts(n *yaml.Node) []string {
	names := map[string]string{autoLayout: autoLayout, "rfc3339": time.RFC3339Nano}
	var out []string
	for _, l := range p.texts(n) {
		if known, ok := names[strings.ToLower(l)]; ok {
			out = append(out, known)
			continue
		}
		if _, ok := unixUnits[l]; !ok && time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC).Format(l) == l {
			p.fail(n, "time: %q is no layout: want auto, rfc3339, unix, unixms, unixus, unixns or one of Go's package time", l)
		}
		out = append(out, l)
	}
	return out
}

func (p *mappingParser) replacement(n *yaml.Node) replacement {
	r := replacement{match: regexp.MustCompile(`^\z.`)}
	for _, k := range p.entries(n) {
		switch k.key.Value {
		case "match":
			if re := p.expression(k.value); re != nil {
				r.match = re
			}
		case "with":
			r.with = p.scalar(k.value)
		default:
			p.fail(k.key, "unknown key %q: want match and with", k.key.Value)
		}
	}
	return r
}

func (p *mappingParser) extraction(n *yaml.Node) extraction {
	x := extraction{match: regexp.MustCompile(`^\z.`)}
	for _, k := range p.entries(n) {
		switch k.key.Value {
		case "value":
			x.value = p.template(k.value, ":")
		case "field":
			x.value = &template{parts: []part{{field: p.scalar(k.value)}}}
		case "match":
			if re := p.expression(k.value); re != nil {
				x.match = re
				if !slices.ContainsFunc(re.SubexpNames(), func(s string) bool { return s != "" }) {
					p.fail(k.value, "extract: the expression has no named groups, (?P<name>…)")
				}
			}
		default:
			p.fail(k.key, "unknown key %q: want field or value, and match", k.key.Value)
		}
	}
	if x.value == nil {
		p.fail(n, "extract: want field or value, and match")
	}
	return x
}

func (p *mappingParser) condition(n *yaml.Node) condition {
	var c condition
	for _, k := range p.entries(n) {
		switch k.key.Value {
		case "value":
			c.value = p.template(k.value, ":")
		case "field":
			c.value = &template{parts: []part{{field: p.scalar(k.value)}}}
		case "in", "equals":
			c.in = p.texts(k.value)
			for i := range c.in {
				c.in[i] = strings.ToLower(c.in[i])
			}
		case "match":
			c.match = p.expression(k.value)
		case "exists":
			exist := p.boolean(k.value)
			c.exist = &exist
		case "not":
			c.not = p.boolean(k.value)
		default:
			p.fail(k.key, "unknown key %q: want field or value, with in, equals, match, exists and not", k.key.Value)
		}
	}
	if c.value == nil || c.in == nil && c.match == nil && c.exist == nil {
		p.fail(n, "drop: want field or value, with in, equals, match or exists")
	}
	return c
}
