package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strconv"
	"strings"
)

// MaxFields bounds the fields of an event.
const MaxFields = 2000

// Event is what a source delivers: fields with names and texts, before a mapping
// makes it a row. It belongs to one goroutine.
type Event struct {
	// Source, File, Peer and Line are the fields @source, @file, @peer and @line.
	Source Source
	File   string // that it was read from, if any
	Peer   string // the address that it came from, if any
	Line   int64  // in File, from 1

	// Received is when it was received, in seconds since 1970: @received. Sequence
	// tells events of one second apart: @sequence. A receiver sets both in the order in which
	// it writes, also when the clock steps back.
	Received, Sequence int64

	fields []field
	index  map[string]int
	folded map[string]int // by the name in lower case; made when it is needed
}

type field struct{ name, value string }

// NewEvent returns an event without fields.
func NewEvent(source Source) *Event { return &Event{Source: source, index: map[string]int{}} }

// Set gives the field called name a text; it reports false if there are too many
// fields already.
func (e *Event) Set(name, value string) bool {
	if i, ok := e.index[name]; ok {
		e.fields[i].value = value
		return true
	}
	if len(e.fields) == MaxFields {
		return false
	}
	e.index[name] = len(e.fields)
	e.fields = append(e.fields, field{name, value})
	e.folded = nil
	return true
}

// Get returns the text of the field called name, and whether there is one. A name that
// is not there as it stands is looked for without regard to case.
func (e *Event) Get(name string) (string, bool) {
	if strings.HasPrefix(name, "@") {
		if v, ok := e.meta(name); ok {
			return v, true
		}
	}
	if i, ok := e.index[name]; ok {
		return e.fields[i].value, true
	}
	if e.folded == nil {
		e.folded = make(map[string]int, len(e.fields))
		for i := range e.fields {
			lower := strings.ToLower(e.fields[i].name)
			if _, ok := e.folded[lower]; !ok {
				e.folded[lower] = i
			}
		}
	}
	i, ok := e.folded[strings.ToLower(name)]
	if !ok {
		return "", false
	}
	return e.fields[i].value, true
}

// All yields the fields in the order in which they were first set.
func (e *Event) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, f := range e.fields {
			if !yield(f.name, f.value) {
				return
			}
		}
	}
}

// meta returns what is known about the event besides its fields.
func (e *Event) meta(name string) (string, bool) {
	switch name {
	case "@source":
		return string(e.Source), true
	case "@file":
		return e.File, true
	case "@peer":
		return e.Peer, true
	case "@line":
		return number(e.Line), true
	case "@received":
		return number(e.Received), true
	case "@sequence":
		return number(e.Sequence), true
	case "@digest":
		return e.digest(), true
	}
	return "", false
}

// digest returns 16 hexadecimal digits that follow from the fields.
func (e *Event) digest() string {
	h := sha256.New()
	for _, f := range e.fields {
		_, _ = h.Write([]byte(f.name + "\x00" + f.value + "\x00")) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// number is "" for what is not known.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
