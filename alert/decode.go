package alert

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
)

// Decoder turns records of the space of a table into changes, without a server:
// for who reads the log itself. It knows the table as it was when the decoder was
// opened. It may be used from many goroutines.
type Decoder struct {
	tab *table
}

// OpenDecoder returns a decoder for the table whose rows are in space, see
// [TableInfo]: NotFound if no table has such a space.
func OpenDecoder(ctx context.Context, log mainstem.Reader, space string) (*Decoder, error) {
	name, _, ok := parseSpace(space)
	if !ok {
		return nil, mainstem.Refusef(mainstem.KindNotFound, "alert", "the space %q is of no table: want %q, a name, and perhaps # and a number", space, SpacePrefix)
	}
	tab, err := describedTable(ctx, log, name)
	if err != nil {
		return nil, err
	}
	if tab.space != space || tab.virtual {
		return nil, mainstem.Refusef(mainstem.KindNotFound, "alert", "the rows of %s are not in the space %q", name, space)
	}
	return &Decoder{tab: tab}, nil
}

// TableSpace returns the space that holds the rows of a table, "database.table": NotFound if
// there is no such table, or it is in memory only.
func TableSpace(ctx context.Context, log mainstem.Reader, table string) (string, error) {
	tab, err := describedTable(ctx, log, table)
	if err != nil {
		return "", err
	}
	if tab.virtual {
		return "", mainstem.Refusef(mainstem.KindNotFound, "alert", "the table %s has no space", table)
	}
	return tab.space, nil
}

// describedTable returns a table, "database.table", as the catalog describes it.
func describedTable(ctx context.Context, log mainstem.Reader, name string) (*table, error) {
	rec, err := log.Get(ctx, CatalogSpace, []byte(keyTable+name))
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no table %s", name)
	}
	if err != nil {
		return nil, err
	}
	tab, err := decodeTable(rec.Value, rec.Version)
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(CatalogSpace, rec.Key)
	}
	return tab, nil
}

// Table describes the table.
func (d *Decoder) Table() TableInfo { return d.tab.info() }

// Current reports whether the table is as it was when the decoder was opened.
func (d *Decoder) Current(ctx context.Context, log mainstem.Reader) (bool, error) {
	rec, err := log.Get(ctx, CatalogSpace, []byte(keyTable+d.tab.String()))
	if errors.Is(err, mainstem.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Version == d.tab.version, err
}

// Change returns the change that a record is. It copies what it needs of the
// record. ok is false for a row of an older table of the same name. A row with a
// column that the table got since is Unavailable: open a decoder anew.
func (d *Decoder) Change(rec *mainstem.Record) (c Change, ok bool, err error) {
	c, o, err := change(d.tab, rec)
	if err == nil && o == newerRow {
		return Change{}, false, mainstem.Refusef(mainstem.KindUnavailable, "alert", "the table %s was altered: open its decoder anew", d.tab)
	}
	return c, err == nil && o != foreignRow, err
}

// Fit returns v, a string, a number, a bool, a time or a [Value], as column c
// would hold it: texts are cut, texts become numbers and numbers texts. What
// cannot be is Invalid.
func Fit(v any, c Column) (Value, error) {
	given, err := valueOf(v)
	if err != nil {
		return given, err
	}
	return fit(given, &c)
}

// StandardColumns returns the columns that a table, "database.table", has in a
// log that is new; nil for one that is not there then.
func StandardColumns(table string) []Column {
	for _, d := range standardTables() {
		if d.name == table {
			return parse(d.columns)
		}
	}
	return nil
}
