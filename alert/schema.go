package alert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// Column is a column of a table or a result.
type Column = osql.Column

// Type is the type of a column.
type Type = osql.Type

// The spaces of the view.
const (
	// SpacePrefix is how the space of a table begins: "alert/<database>.<table>", and "#<ID>" if
	// the table was made by CREATE TABLE. [TableSpace] finds it.
	SpacePrefix = "alert/"
	// CatalogSpace holds what the server knows about its databases and tables.
	CatalogSpace = "alert.catalog"
)

// Keys of the catalog space begin with one of these.
const (
	keyDatabase = "database/" // a database: {}
	keyTable    = "table/"    // a table: [tableRecord]
	keySerial   = "serial/"   // how far the serials of a table, by its ID, are given out: [serialRecord]
	keyTrigger  = "trigger/"  // whether an automation is enabled: [triggerRecord]
	keyNext     = "next"      // the next ID of a table or column: [nextRecord]
)

// Limits of a schema.
const (
	MaxColumns = 500 // of one table
	MaxTables  = 1000
)

// tableRecord describes a table in the catalog space, as JSON.
type tableRecord struct {
	Format   int      `json:"format"` // see formatNamed
	ID       uint64   `json:"id"`
	Database string   `json:"database"`
	Name     string   `json:"name"`
	Virtual  bool     `json:"virtual,omitempty"`
	Columns  []Column `json:"columns"`
	Last     uint64   `json:"last"` // the highest ID that a column of the table ever had
	Indexes  []index  `json:"indexes,omitempty"`
	// Begins is a position that all rows of the table are behind, and all of an earlier
	// table of its name before. 0: there was none, or it is not known.
	Begins mainstem.Position `json:"begins,omitempty"`
}

// index is an index of a table. One that no statement created has no name.
type index struct {
	Name    string   `json:"name,omitempty"`
	Columns []uint64 `json:"columns"` // IDs
}

type nextRecord struct {
	Next uint64 `json:"next"`
}

type serialRecord struct {
	Limit int64 `json:"limit"` // serials up to here may have been given
}

type triggerRecord struct {
	Enabled bool `json:"enabled"`
}

// The formats of a [tableRecord]. They differ in the space of the table. One that carries the
// ID never holds the rows of another table, so it can be dropped by its name at any time.
const (
	formatNamed    = 1 // alert/<database>.<table>: of standard tables, and tables made by older versions
	formatNumbered = 2 // alert/<database>.<table>#<ID>
)

// table is a table as the server works with it. It is read-only: a change makes
// a new one.
type table struct {
	osql.Table
	virtual bool // its rows are in the mirror only
	system  bool // the server fills it; statements only read it
	indexes []index
	format  int              // of its record in the catalog space
	version mainstem.Version // of that record
	space   string
	header  *header
	last    uint64 // the highest ID that a column ever had
	begins  mainstem.Position

	keys   []int          // the columns of the primary key
	byID   []int          // the columns in the order of their IDs
	column map[uint64]int // the columns by their IDs
	incr   int            // the column that numbers the rows, or -1

	zero                                   []Value // a row that holds what columns hold by default
	findSQL, getSQL, deleteSQL, columnList string
}

func newTable(r *tableRecord, version mainstem.Version) *table {
	t := &table{
		Table:   osql.Table{ID: r.ID, Database: r.Database, Name: r.Name, Columns: r.Columns},
		virtual: r.Virtual, indexes: r.Indexes, format: r.Format, version: version, space: r.space(),
		header: newHeader(r.Columns), last: r.Last, begins: r.Begins, column: make(map[uint64]int, len(r.Columns)), incr: -1,
	}
	var names []string
	for i := range t.Columns {
		c := &t.Columns[i]
		t.column[c.ID] = i
		t.last = max(t.last, c.ID)
		t.byID = append(t.byID, i)
		t.zero = append(t.zero, zeroOf(c.Type))
		names = append(names, osql.MirrorColumn(c))
		if c.PrimaryKey {
			t.keys = append(t.keys, i)
		}
		if c.Type == osql.Incr && t.incr < 0 {
			t.incr = i
		}
	}
	slices.SortFunc(t.byID, func(a, b int) int { return cmp.Compare(t.Columns[a].ID, t.Columns[b].ID) })
	t.columnList = osql.RowID + ", " + osql.Version + ", " + strings.Join(names, ", ")
	var where []string
	for _, i := range t.keys {
		where = append(where, names[i]+" = ?")
	}
	t.findSQL = fmt.Sprintf("SELECT %s FROM %s WHERE %s", osql.RowID, t.mirror(), strings.Join(where, " AND "))
	t.deleteSQL = fmt.Sprintf("DELETE FROM %s WHERE %s = ?", t.mirror(), osql.RowID)
	t.getSQL = fmt.Sprintf("SELECT %s FROM %s WHERE %s", t.columnList, t.mirror(), strings.Join(where, " AND "))
	return t
}

func (t *table) mirror() string { return osql.MirrorTable(&t.Table) }

// record returns t as the catalog keeps it.
func (t *table) record() *tableRecord {
	return &tableRecord{Format: t.format, ID: t.ID, Database: t.Database, Name: t.Name, Virtual: t.virtual,
		Columns: slices.Clone(t.Columns), Last: t.last, Indexes: slices.Clone(t.indexes), Begins: t.begins}
}

func decodeTable(p []byte, version mainstem.Version) (*table, error) {
	var r tableRecord
	if err := json.Unmarshal(p, &r); err != nil {
		return nil, err
	}
	if r.Format != formatNamed && r.Format != formatNumbered {
		return nil, fmt.Errorf("the table %s.%s has format %d: this version knows %d and %d", r.Database, r.Name, r.Format, formatNamed, formatNumbered)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return newTable(&r, version), nil
}

// check returns an error for a description that would not work.
func (r *tableRecord) check() error {
	if !osql.ValidName(r.Database) || !osql.ValidName(r.Name) || r.ID == 0 {
		return fmt.Errorf("%q.%q with ID %d is no table", r.Database, r.Name, r.ID)
	}
	if len(r.Columns) > MaxColumns {
		return fmt.Errorf("%s.%s has %d columns: the limit is %d", r.Database, r.Name, len(r.Columns), MaxColumns)
	}
	names, ids, keys := map[string]bool{}, map[uint64]bool{}, 0
	for i := range r.Columns {
		c := &r.Columns[i]
		if !osql.ValidName(c.Name) || c.ID == 0 || ids[c.ID] || names[c.Name] || !c.Type.Valid() || c.PrimaryKey && !keyType(c.Type) {
			return fmt.Errorf("%s.%s: the column %q (%d) is not valid", r.Database, r.Name, c.Name, c.ID)
		}
		names[c.Name], ids[c.ID] = true, true
		if c.PrimaryKey {
			keys++
		}
	}
	for _, x := range r.Indexes {
		for _, id := range x.Columns {
			if !ids[id] {
				return fmt.Errorf("%s.%s: an index names the column %d, which does not exist", r.Database, r.Name, id)
			}
		}
	}
	if keys == 0 {
		return fmt.Errorf("%s.%s has no primary key", r.Database, r.Name)
	}
	return nil
}

// space returns the space of the rows.
func (r *tableRecord) space() string {
	name := SpacePrefix + r.Database + "." + r.Name
	if r.Format == formatNumbered {
		name += "#" + strconv.FormatUint(r.ID, 10)
	}
	return name
}

// parseSpace is the reverse of space: id is 0 where the name has none.
func parseSpace(space string) (table string, id uint64, ok bool) {
	rest, ok := strings.CutPrefix(space, SpacePrefix)
	table, digits, numbered := strings.Cut(rest, "#")
	if numbered {
		var err error
		id, err = strconv.ParseUint(digits, 10, 64)
		ok = ok && err == nil && id > 0
	}
	return table, id, ok
}

// schema is all tables at one moment. It is read-only.
type schema struct {
	generation uint64
	databases  map[string]mainstem.Version
	tables     map[string]*table // by "database.table"
	bare       map[string]*table // by name, if one database has it, or alerts
	bySpace    map[string]*table // those that are not virtual
	spaces     []string          // that hold the schema and its rows
}

func newSchema(generation uint64, databases map[string]mainstem.Version, tables map[string]*table) *schema {
	s := &schema{generation: generation, databases: databases, tables: tables, bare: map[string]*table{}, bySpace: map[string]*table{}, spaces: []string{CatalogSpace}}
	ambiguous := map[string]bool{}
	for _, t := range tables {
		if _, ok := s.bare[t.Name]; ok {
			ambiguous[t.Name] = true
		}
		s.bare[t.Name] = t
		if !t.virtual {
			s.spaces = append(s.spaces, t.space)
			s.bySpace[t.space] = t
		}
	}
	for name := range ambiguous {
		delete(s.bare, name)
		if t := tables["alerts."+name]; t != nil {
			s.bare[name] = t
		}
	}
	return s
}

// Lookup implements [osql.Catalog].
func (s *schema) Lookup(database, name string) *osql.Table {
	if t := s.find(database, name); t != nil {
		return &t.Table
	}
	return nil
}

func (s *schema) find(database, name string) *table {
	if database == "" {
		return s.bare[name]
	}
	return s.tables[database+"."+name]
}

// of returns the table behind one that a plan names: nil if it has changed since.
func (s *schema) of(t *osql.Table) *table {
	found := s.tables[t.String()]
	if found == nil || &found.Table != t {
		return nil
	}
	return found
}

// with returns a schema in which the tables and databases are as given; nil
// removes a table.
func (s *schema) with(change func(databases map[string]mainstem.Version, tables map[string]*table)) *schema {
	databases, tables := maps.Clone(s.databases), maps.Clone(s.tables)
	change(databases, tables)
	return newSchema(s.generation+1, databases, tables)
}

// sorted returns the tables in the order of their names.
func (s *schema) sorted() []*table {
	return slices.SortedFunc(maps.Values(s.tables), func(a, b *table) int { return cmp.Compare(a.String(), b.String()) })
}
