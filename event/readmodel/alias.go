package readmodel

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// Model is the place where a projection keeps entries of T: a [*Table], or an [*Alias] of versions
// of a table.
type Model[T any] interface {
	Key(T) string
	version(v int) (*Table[T], error)
	// plain returns the table that has the model's name and options.
	plain() *Table[T]
}

// VersionOf returns version v of a model. A [*Table] has one version: the result is the table,
// whatever v is.
func VersionOf[T any](m Model[T], v int) (*Table[T], error) { return m.version(v) }

// NameOf returns the name of a model without a version, "database/table".
func NameOf[T any](m Model[T]) string { return m.plain().bucket.Name() }

// OpenAs returns the table "database/table" of the same log with the options of m. It reads and
// creates nothing.
func OpenAs[T any](m Model[T], name string) (*Table[T], error) {
	t := m.plain()
	return Open(t.log, name, &t.opts)
}

func (t *Table[T]) version(int) (*Table[T], error) { return t, nil }

func (t *Table[T]) plain() *Table[T] { return t }

// aliasTable is the table with the current version of each alias, by "database/table". The alias of
// a table without a row there is at version 1, the table itself.
const aliasTable = "readmodel/aliases"

type aliasRow struct {
	Version int `json:"version"`
}

// Alias is a name that stands for one of several versions of a table. The versions of "shop/orders"
// are the tables "shop/orders" (1), "shop/orders@v2" and so on. A rebuild fills another version
// beside the current one, and makes it the current one in one commit.
//
// Each call of a method that reads, reads the alias first. If another version has become current
// meanwhile, it reads again: the old table may be removed already. An Alias has no methods that write
// entries: projections write them (see package projection). It holds no resources and needs no
// Close; all methods may be called from many goroutines.
type Alias[T any] struct {
	first *Table[T]
	rows  *kv.Bucket[aliasRow]
}

// OpenAlias returns the alias "database/table" of log. The options are those of [Open], for every
// version. It reads and creates nothing.
func OpenAlias[T any](log mainstem.Log, name string, o *Options[T]) (*Alias[T], error) {
	first, err := Open(log, name, o)
	if err != nil {
		return nil, err
	}
	rows, err := kv.Open[aliasRow](log, aliasTable, &kv.Options{Codec: codec.JSON})
	return &Alias[T]{first, rows}, err
}

// Name returns "database/table".
func (a *Alias[T]) Name() string { return a.first.bucket.Name() }

// Key returns the key of an entry.
func (a *Alias[T]) Key(v T) string { return a.first.key(v) }

// VersionName returns the name of a version of the table called name: name itself for versions 0
// and 1, else "name@v2" and so on.
func VersionName(name string, version int) string {
	if version <= 1 {
		return name
	}
	return fmt.Sprintf("%s@v%d", name, version)
}

// Version returns one version of the table. It reads and creates nothing. Versions 0 and 1 are the
// table that has the name of the alias.
func (a *Alias[T]) Version(version int) (*Table[T], error) {
	if version <= 1 {
		return a.first, nil
	}
	return Open(a.first.log, VersionName(a.Name(), version), &a.first.opts)
}

func (a *Alias[T]) plain() *Table[T] { return a.first }

func (a *Alias[T]) version(v int) (*Table[T], error) { return a.Version(v) }

// Current returns the version of the table that is current now. The result does not follow the
// alias: when another version becomes current, the old table is cleared some time later. So use the
// result for one piece of work, and do not keep it.
func (a *Alias[T]) Current(ctx context.Context) (*Table[T], error) {
	row, err := a.row(ctx)
	if err != nil {
		return nil, err
	}
	return a.Version(row.Value.Version)
}

// row returns the row with the current version; the zero value if there is none.
func (a *Alias[T]) row(ctx context.Context) (kv.Entry[aliasRow], error) {
	e, err := a.rows.Get(ctx, a.Name())
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return e, fmt.Errorf("read model %s: which version it is: %w", a.Name(), err)
	}
	return e, nil
}

// read calls do with the current version. If do does not report that its result is whole, read then
// looks whether the version is still current. If it is not, the table may have been removed before
// do has read it, and read calls do again, with the version that is current by then.
func (a *Alias[T]) read(ctx context.Context, do func(t *Table[T]) (whole bool, err error)) error {
	row, err := a.row(ctx)
	for {
		if err != nil {
			return err
		}
		t, err := a.Version(row.Value.Version)
		if err != nil {
			return err
		}
		whole, failed := do(t)
		if whole {
			return failed
		}
		before := row.Revision
		if row, err = a.row(ctx); err == nil && row.Revision == before || failed != nil && err != nil {
			return failed
		}
	}
}

// PointTo adds to b the write that makes version the current one.
func (a *Alias[T]) PointTo(b *mainstem.Batch, version int) {
	a.rows.PutTo(b, a.Name(), aliasRow{version})
}

// Clear removes all entries of a version; see [Table.Clear].
func (a *Alias[T]) Clear(ctx context.Context, version int) error {
	t, err := a.Version(version)
	if err != nil {
		return err
	}
	return t.Clear(ctx)
}

// Get is [Table.Get] of the current version.
func (a *Alias[T]) Get(ctx context.Context, key string) (v T, err error) {
	err = a.read(ctx, func(t *Table[T]) (bool, error) {
		v, err = t.Get(ctx, key)
		return err == nil, err
	})
	return v, err
}

// GetMany is [Table.GetMany] of the current version.
func (a *Alias[T]) GetMany(ctx context.Context, keys ...string) (vs []T, err error) {
	err = a.read(ctx, func(t *Table[T]) (bool, error) {
		vs, err = t.GetMany(ctx, keys...)
		return err == nil && len(vs) == len(keys), err
	})
	return vs, err
}

// Find is [Table.Find] of the current version.
func (a *Alias[T]) Find(ctx context.Context, q *Query) (vs []T, err error) {
	err = a.read(ctx, func(t *Table[T]) (bool, error) {
		vs, err = t.Find(ctx, q)
		return false, err
	})
	return vs, err
}

// FindOne is [Table.FindOne] of the current version.
func (a *Alias[T]) FindOne(ctx context.Context, q *Query) (v T, err error) {
	err = a.read(ctx, func(t *Table[T]) (bool, error) {
		v, err = t.FindOne(ctx, q)
		return false, err
	})
	return v, err
}

// Count is [Table.Count] of the current version.
func (a *Alias[T]) Count(ctx context.Context, q *Query) (n int, err error) {
	err = a.read(ctx, func(t *Table[T]) (bool, error) {
		n, err = t.Count(ctx, q)
		return false, err
	})
	return n, err
}
