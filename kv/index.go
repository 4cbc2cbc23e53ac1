package kv

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Index defines a second order of the values of a table, by which they can be found; see
// [OpenIndexed].
type Index[T any] struct {
	// Name is the index's name within the table: 1 to [MaxIndexName] letters, digits, dashes and underlines.
	Name string
	// Of returns the parts by which value is found; several parts are compared one after the other.
	// A value without parts is not in the index. Of must be pure: it returns the same parts for the
	// same value in every program that writes the table. When Of changes, increase Version.
	Of func(value T) []Part
	// Field, in place of Of, is the path of a field in JSON values, such as "email" or
	// "address.city". A value is not in the index if it is not JSON or its field is missing, null,
	// an object or an array. Every program can maintain such an index, and so can the command line.
	Field string
	// Unique forbids that two keys have equal parts: a write that would cause it fails with a
	// [*UniqueError].
	Unique bool
	// Version numbers the definition. If a program declares a higher version than the log has, the
	// index is built anew, and programs with the lower version can no longer write. Default 0.
	Version uint32
}

// MaxIndexName is the largest number of bytes in the name of an index.
const MaxIndexName = 64

// Names of the spaces of indexes. A table whose name has a dot cannot share a space with an index
// of another table, since names of indexes have no dots and declarations are in spaces of their
// own.
const (
	entryPrefix   = "kv.index/"
	catalogPrefix = "kv.indexes/"
)

func catalogSpace(database, table string) string { return catalogPrefix + database + "/" + table }

// entrySpace returns the space of the entries of the index in its generation. The name is never
// reused.
func entrySpace(database, table, index string, generation uint64) string {
	return entryPrefix + database + "/" + table + "." + index + "@" + strconv.FormatUint(generation, 10)
}

func validateIndexName(name string) error {
	if name == "" || len(name) > MaxIndexName {
		return mainstem.Errorf(mainstem.KindInvalid, "kv index", "the name %.80q of the index has %d bytes: want 1 to %d", name, len(name), MaxIndexName)
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			continue
		}
		return mainstem.Errorf(mainstem.KindInvalid, "kv index", "the name %q of the index has %q at byte %d: use letters, digits, dash and underline", name, name[i:i+1], i)
	}
	return nil
}

func (i *Index[T]) validate() error {
	if err := validateIndexName(i.Name); err != nil {
		return err
	}
	if (i.Of == nil) == (i.Field == "") {
		return mainstem.Errorf(mainstem.KindInvalid, "kv index", "index %s: give Of or Field, and not both", i.Name)
	}
	return validateField(i.Field)
}

func validateField(path string) error {
	if path != "" && (strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, "..") || len(path) > 256) {
		return mainstem.Errorf(mainstem.KindInvalid, "kv index", "the field %.80q: want names of at most 256 bytes joined by dots, such as address.city", path)
	}
	return nil
}

// keeper is an index that writes of a table maintain.
type keeper[T any] struct {
	IndexInfo
	space string
	// of returns the parts of a value, given decoded and as stored. It is nil if this program has
	// no function for the index.
	of    func(value *T, stored []byte) []Part
	typed bool // of uses value; otherwise only stored
	guard bool // the entries are those of [IndexInfo.Guard]: maintained, but not read
}

// partsOf returns the function of i that computes parts: the one for Field if it is set, else Of.
func partsOf[T any](i *Index[T]) func(*T, []byte) []Part {
	if i.Field != "" {
		return fieldOf[T](i.Field)
	}
	return func(value *T, _ []byte) []Part { return i.Of(*value) }
}

func fieldOf[T any](path string) func(*T, []byte) []Part {
	names := strings.Split(path, ".")
	return func(_ *T, stored []byte) []Part {
		if p, ok := jsonPart(stored, names); ok {
			return []Part{p}
		}
		return nil
	}
}

// jsonPart returns the part of the field of a JSON object at a path, and false if there is none.
func jsonPart(stored []byte, path []string) (Part, bool) {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(stored, &object) != nil {
			return Part{}, false
		}
		stored = object[name]
	}
	d := json.NewDecoder(bytes.NewReader(stored))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return Part{}, false
	}
	switch v := v.(type) {
	case string:
		return Text(v), true
	case bool:
		return Bool(v), true
	case json.Number:
		return numberPart(string(v))
	}
	return Part{}, false
}

// numberPart returns the part of a number in decimal: exact if it is an integer of 64 bits, else the nearest float64.
func numberPart(s string) (Part, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Int(i), true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return Uint(u), true
	}
	f, err := strconv.ParseFloat(s, 64)
	return Float(f), err == nil
}

// ParsePart returns the part that the text s stands for, as on the command line: a number, true,
// false, null, or a text in double quotes; any other s is a text itself.
func ParsePart(s string) Part {
	switch s {
	case "true", "false":
		return Bool(s == "true")
	case "null":
		return Null()
	}
	if len(s) > 1 && s[0] == '"' {
		if text, err := strconv.Unquote(s); err == nil {
			return Text(text)
		}
	}
	if json.Valid([]byte(s)) {
		if p, ok := numberPart(s); ok {
			return p
		}
	}
	return Text(s)
}

// entryPolicy returns the policy of the entries of an index.
func entryPolicy(maxAge time.Duration) mainstem.Policy {
	return mainstem.Policy{History: 1, NoFeed: true, MaxAge: maxAge, Metadata: map[string]string{metaView: "kv.index"}}
}
