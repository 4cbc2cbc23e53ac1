package readmodel

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// Model is where a projection keeps entries of T: a [*Table], or an [*Alias].
type Model[T any] interface {
	Key(T) string
	version(v int) (*Table[T], error)
}

// VersionOf returns one version of a model; a [*Table] has only one.
func VersionOf[T any](m Model[T], v int) (*Table[T], error) { return m.version(v) }

func (t *Table[T]) version(int) (*Table[T], error) { return t, nil }

// aliasTable holds which version of a table is read, by "database/table". A table without a row there is read as
// it is called.
const aliasTable = "readmodel/aliases"

type aliasRow struct {
	Version int `json:"version"`
}

// Alias is a name that stands for one of several versions of a table, so that another one can be made
// beside it, and take its place in one commit: "shop/orders" at first, then "shop/orders@v2", and so on. An
// Alias reads, and each call follows the alias; what writes are projections (see package
// projection). It holds no resources, and is safe for concurrent use.
type Alias[T any] struct {
	first *Table[T]
	rows  *kv.Bucket[aliasRow]
}

// OpenAlias returns the alias "database/table" of log, with options as of [Open]. It reads and creates nothing.
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

// VersionName returns the name of a version of the table called name. Versions 0 and 1 are the table itself.
func VersionName(name string, version int) string {
	if version <= 1 {
		return name
	}
	return fmt.Sprintf("%s@v%d", name, version)
}

// Version returns the table that a version of the alias is.
func (a *Alias[T]) Version(version int) (*Table[T], error) {
	if version <= 1 {
		return a.first, nil
	}
	return Open(a.first.log, VersionName(a.Name(), version), &a.first.opts)
}

func (a *Alias[T]) version(v int) (*Table[T], error) { return a.Version(v) }

// Current returns the table that the alias stands for now. It stays what it is when the alias moves, and is
// removed some time after that, so it is for one piece of work and not to be kept.
func (a *Alias[T]) Current(ctx context.Context) (*Table[T], error) {
	e, err := a.rows.Get(ctx, a.Name())
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return nil, fmt.Errorf("read model %s: which version it is: %w", a.Name(), err)
	}
	return a.Version(e.Value.Version)
}

// PointTo makes the alias stand for another version, as part of b.
func (a *Alias[T]) PointTo(b *mainstem.Batch, version int) {
	a.rows.PutTo(b, a.Name(), aliasRow{version})
}

// Clear removes every entry of a version, in commits of 500.
func (a *Alias[T]) Clear(ctx context.Context, version int) error {
	t, err := a.Version(version)
	if err != nil {
		return err
	}
	return t.Clear(ctx)
}

// Get is [Table.Get].
func (a *Alias[T]) Get(ctx context.Context, key string) (T, error) {
	t, err := a.Current(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return t.Get(ctx, key)
}

// GetMany is [Table.GetMany].
func (a *Alias[T]) GetMany(ctx context.Context, keys ...string) ([]T, error) {
	t, err := a.Current(ctx)
	if err != nil {
		return nil, err
	}
	return t.GetMany(ctx, keys...)
}

// Find is [Table.Find].
func (a *Alias[T]) Find(ctx context.Context, q *Query) ([]T, error) {
	t, err := a.Current(ctx)
	if err != nil {
		return nil, err
	}
	return t.Find(ctx, q)
}

// FindOne is [Table.FindOne].
func (a *Alias[T]) FindOne(ctx context.Context, q *Query) (T, error) {
	t, err := a.Current(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return t.FindOne(ctx, q)
}

// Count is [Table.Count].
func (a *Alias[T]) Count(ctx context.Context, q *Query) (int, error) {
	t, err := a.Current(ctx)
	if err != nil {
		return 0, err
	}
	return t.Count(ctx, q)
}
