package osql

import "strings"

// Type is the type of a column or of an expression. The numbers are persisted
// in table descriptions: add at the end only.
type Type uint8

// The types, with the values that columns of each hold.
const (
	Integer    Type = iota // 32 bits, signed
	Time                   // seconds since 1970, shown as utc
	Varchar                // at most Size bytes
	Incr                   // 32 bits, unsigned, given by the server
	Char                   // at most Size bytes
	Unsigned               // 32 bits, unsigned
	Boolean                // true or false
	Real                   // 64-bit floating point
	Integer64              // 64 bits, signed
	Unsigned64             // 63 bits, unsigned
)

var typeNames = [...]string{"integer", "utc", "varchar", "incr", "char", "unsigned", "boolean", "real", "integer64", "unsigned64"}

// String returns the name that DESCRIBE shows and CREATE TABLE takes.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown type"
}

// typeWords are the words that CREATE TABLE takes for each type.
var typeWords = map[string]Type{
	"int": Integer, "integer": Integer, "utc": Time, "time": Time, "varchar": Varchar, "incr": Incr, "char": Char,
	"unsigned": Unsigned, "boolean": Boolean, "bool": Boolean, "real": Real, "integer64": Integer64, "int64": Integer64,
	"unsigned64": Unsigned64,
}

// ParseType returns the type called name, in any case, and whether there is one.
func ParseType(name string) (Type, bool) {
	t, ok := typeWords[strings.ToLower(name)]
	return t, ok
}

// Text reports whether values of the type are strings.
func (t Type) Text() bool { return t == Varchar || t == Char }

// Valid reports whether t is one of the types above.
func (t Type) Valid() bool { return int(t) < len(typeNames) }

// Limits of names and columns.
const (
	MaxName    = 40   // bytes in the name of a database, table, column or index
	MaxVarchar = 8192 // bytes in a varchar or char column
)

// Column is a column of a table, or of a result.
type Column struct {
	// ID always names the column: it is what stored rows carry, and is never given
	// to another column. 0 in results.
	ID         uint64 `json:"id,omitempty"`
	Name       string `json:"name"`
	Type       Type   `json:"type"`
	Size       int    `json:"size,omitempty"` // bytes: the limit of texts, else the width of the number
	PrimaryKey bool   `json:"key,omitempty"`
	NoModify   bool   `json:"noModify,omitempty"`  // UPDATE may not set it
	NoDefault  bool   `json:"noDefault,omitempty"` // INSERT has to give it
}

// Table is a table as statements see it. Translation only reads it.
type Table struct {
	ID       uint64
	Database string
	Name     string
	Columns  []Column
}

// String returns "database.table".
func (t *Table) String() string { return t.Database + "." + t.Name }

// Column returns the index of the column called name, or -1. Names are case-sensitive.
func (t *Table) Column(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// numbering returns the first column of type incr, or -1.
func (t *Table) numbering() int {
	for i := range t.Columns {
		if t.Columns[i].Type == Incr {
			return i
		}
	}
	return -1
}

// Catalog finds tables for a translation.
type Catalog interface {
	// Lookup returns the table called name in database, or the one that the bare
	// name means if database is empty; nil if there is none.
	Lookup(database, name string) *Table
}

// ValidName reports whether s may name a database, table, column or index: at
// most [MaxName] letters, digits and underlines, a letter first.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}
