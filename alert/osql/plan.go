package osql

// Verb is what a statement does.
type Verb uint8

// The verbs.
const (
	Select Verb = iota
	Insert
	Update
	Delete
	Describe
	CreateDatabase
	CreateTable
	CreateIndex
	AlterTable
	AlterTrigger
	DropDatabase
	DropTable
	DropIndex
	Use
	ServiceUpdate
)

var verbNames = [...]string{"select", "insert", "update", "delete", "describe", "create database", "create table", "create index", "alter table", "alter trigger", "drop database", "drop table", "drop index", "use", "service update"}

// String returns the name of the verb.
func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return "unknown verb"
}

// Plan is a translated statement. It does not depend on the literals: one plan
// serves all statements with the same [Statement.Key], as long as the tables are as
// they were. It is read-only and may be shared.
type Plan struct {
	Verb  Verb
	Table *Table // of all verbs that work on one table that exists
	Reads []*Table

	Query  Query        // Select; Update and Delete: the rows to change
	Set    []int        // Update: the columns; their new values follow the row in Query's result
	Rows   [][]Value    // Insert: one for each row
	Into   []int        // Insert: the columns that the values are for
	Update []int        // Insert: the columns of UPDATING
	DDL    Definition   // the verbs that define something
	Names  []ResultName // Select: one for each column of the result
}

// Query is a statement of SQLite.
type Query struct {
	SQL    string
	Params []Param // of ?1, ?2 and so on
	Checks []Check // of the literals, before the query runs
}

// Param says what a parameter of a [Query] is given.
type Param struct {
	Source Source
	Slot   int // Literal, Property: the index of the literal
}

// Source is where the value of a parameter comes from.
type Source uint8

// The sources.
const (
	FromLiteral  Source = iota
	FromNow             // the time, in seconds since 1970
	FromServer          // the name of the server
	FromProperty        // the property of the server that the literal names
	FromAfter           // Update, Delete: the row after which to go on
	FromLimit           // Update, Delete: how many rows at most
)

var sourceNames = [...]string{"literal", "now", "server", "property", "after", "limit"}

// String returns "literal", "now", "server", "property", "after" or "limit".
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown source"
}

// Value is a value of an INSERT: a literal, possibly with a sign before it, or
// a query that computes it.
type Value struct {
	Slot   int
	Negate bool
	Query  *Query // nil for a literal
}

// ResultName is a column of the result of a SELECT.
type ResultName struct {
	Column // Name is empty if the column is an expression without an alias
	source *expr
}

// Text returns the column's name: for an expression without an alias, its text
// with the literals put back.
func (n *ResultName) Text(literals []Literal) string {
	if n.source == nil {
		return n.Name
	}
	p := printer{literals: literals}
	p.expr(n.source)
	return p.b.String()
}

// Definition is what CREATE, ALTER, DROP, USE and SVC are about.
type Definition struct {
	Database string
	Name     string // of the table, index or trigger
	Virtual  bool   // CreateTable
	Columns  []Column
	Drop     []string // AlterTable: columns
	Group    bool     // AlterTrigger: Name is a group's
	Enabled  bool     // AlterTrigger
	Slots    [2]int   // ServiceUpdate: name and state
}

// The names of a table's mirror in SQLite. Names of users never occur in it.
const (
	RowID   = "k" // the row's serial in this mirror
	Version = "v" // the version of the row's record
)

// RowSerial is the column that every table has besides its own: the number of
// the row in this server's mirror. It is not part of "*".
const RowSerial = "RowSerial"
