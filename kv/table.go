package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Table describes a table that exists.
type Table struct {
	Database string
	Name     string
	Codec    string // name of the codec that the table was created with; "" if another program created its space
	Space    mainstem.SpaceInfo
}

// Tables yields the tables of database in the order of their names; an empty database stands for
// all databases, in the order of "database/table".
func Tables(ctx context.Context, log mainstem.Log, database string) iter.Seq2[Table, error] {
	return func(yield func(Table, error) bool) {
		prefix := spacePrefix
		if database != "" {
			if err := validateName("database", database); err != nil {
				yield(Table{}, err)
				return
			}
			prefix = spaceName(database, "")
		}
		for info, err := range log.Spaces(ctx, prefix) {
			if err != nil {
				yield(Table{}, err)
				return
			}
			db, name, ok := parseSpace(info.Name)
			if !ok {
				continue // not a space of this package
			}
			if !yield(Table{Database: db, Name: name, Codec: info.Policy.Metadata[metaCodec], Space: info}, nil) {
				return
			}
		}
	}
}

// Databases returns the names of the databases that have a table, sorted.
func Databases(ctx context.Context, log mainstem.Log) ([]string, error) {
	var names []string
	for t, err := range Tables(ctx, log, "") {
		if err != nil {
			return nil, err
		}
		if n := len(names); n == 0 || names[n-1] != t.Database { // the tables of a database are adjacent
			names = append(names, t.Database)
		}
	}
	slices.Sort(names) // tables are in the order of "database/table", where '-' and '.' sort before '/'
	return names, nil
}

// DropTable removes one table with everything in it, its indexes first. No other table is touched.
// A table that does not exist is NotFound.
func DropTable(ctx context.Context, log mainstem.Log, database, table string) error {
	if err := validateNames(database, table); err != nil {
		return err
	}
	return dropTable(ctx, log, database, table)
}

func dropTable(ctx context.Context, log mainstem.Log, database, table string) error {
	c := newCatalog(log, database, table)
	if err := c.dropAll(ctx); err != nil {
		return err
	}
	return log.DropSpace(ctx, spaceName(database, table))
}

// DropDatabase removes every table of exactly this database. A database without tables is NotFound.
// Each table is removed atomically, the database is not: after an error some tables may be left,
// and calling again removes them.
func DropDatabase(ctx context.Context, log mainstem.Log, database string) error {
	if database == "" {
		return validateName("database", database)
	}
	var tables []string
	for t, err := range Tables(ctx, log, database) {
		if err != nil {
			return err
		}
		tables = append(tables, t.Name)
	}
	if len(tables) == 0 {
		return mainstem.Errorf(mainstem.KindNotFound, "drop database", "the database %q has no tables", database)
	}
	for _, table := range tables {
		if err := dropTable(ctx, log, database, table); err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return fmt.Errorf("drop database %s: %w", database, err)
		}
	}
	return nil
}
