package syslog

import (
	"strings"
	"time"
)

// bom says that the text of a message is UTF-8.
const bom = "\xef\xbb\xbf"

// rfc5424 reads what follows the version; false if it is not as RFC 5424 has it.
func (p *parser) rfc5424(s string, m *Message) bool {
	var words [5]string
	for i := range words {
		var ok bool
		if words[i], s, ok = strings.Cut(s, " "); !ok || words[i] == "" {
			return false
		}
		if words[i] == "-" {
			words[i] = ""
		}
	}
	if words[0] != "" {
		at, err := time.Parse(time.RFC3339Nano, words[0])
		if err != nil {
			return false
		}
		m.Time = at
	}
	m.Format = RFC5424
	m.Hostname, m.AppName, m.ProcID, m.MsgID = words[1], words[2], words[3], words[4]
	s, ok := m.structured(s)
	if !ok {
		return false
	}
	if s != "" && s[0] != ' ' {
		return false
	}
	m.Text = strings.TrimPrefix(strings.TrimPrefix(s, " "), bom)
	return true
}

// structured reads the structured data and returns what follows.
func (m *Message) structured(s string) (rest string, ok bool) {
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		return rest, true
	}
	if !strings.HasPrefix(s, "[") {
		return s, false
	}
	for strings.HasPrefix(s, "[") {
		var e Element
		if s, ok = e.read(s[1:]); !ok {
			return s, false
		}
		m.Data = append(m.Data, e)
	}
	return s, true
}

// read reads an element behind its "[" and returns what follows its "]".
func (e *Element) read(s string) (rest string, ok bool) {
	end := strings.IndexAny(s, " ]")
	if end <= 0 || strings.ContainsAny(s[:end], `="`) {
		return s, false
	}
	e.ID, s = s[:end], s[end:]
	for {
		s = strings.TrimLeft(s, " ")
		if rest, ok := strings.CutPrefix(s, "]"); ok {
			return rest, true
		}
		name, after, ok := strings.Cut(s, `="`)
		if !ok || name == "" || strings.ContainsAny(name, ` ]"=`) {
			return s, false
		}
		value, after, ok := paramValue(after)
		if !ok {
			return s, false
		}
		e.Params = append(e.Params, Param{name, value})
		s = after
	}
}

// paramValue reads a value up to the quote that ends it. A backslash stands before a
// quote, a backslash and a bracket that belong to the value; before anything else it
// is one itself.
func paramValue(s string) (value, rest string, ok bool) {
	if i := strings.IndexAny(s, `"\`); i >= 0 && s[i] == '"' {
		return s[:i], s[i+1:], true // nothing to take out
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], true
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\' || s[i+1] == ']'):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
