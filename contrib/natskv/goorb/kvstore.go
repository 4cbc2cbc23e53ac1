package goorb

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/internal/fields"
	"github.com/mainstemdev/mainstem/kv"
)

// KVStore has the method set of go-orb's kvstore.KVStore, once its type parameters
// are the types of that package; see the package comment. All methods may be called
// from many goroutines.
type KVStore[Record, GetOptions, SetOptions, KeysOptions, ReadOptions, WriteOptions, DeleteOptions, ListOptions any,
	GetOption ~func(*GetOptions), SetOption ~func(*SetOptions), KeysOption ~func(*KeysOptions), ReadOption ~func(*ReadOptions),
	WriteOption ~func(*WriteOptions), DeleteOption ~func(*DeleteOptions), ListOption ~func(*ListOptions)] struct {
	Component
	calls[Record, GetOptions, SetOptions, KeysOptions, GetOption, SetOption, KeysOption]
	deprecated[Record, ReadOptions, WriteOptions, DeleteOptions, ListOptions, ReadOption, WriteOption, DeleteOption, ListOption]
}

// New returns an adapter over a store, whose layout should be one of natskv.GoOrb or
// natskv.Shared. The values of ctx go with the calls that take no context. Types that
// do not have the fields of go-orb's are Invalid.
func New[Record, GetOptions, SetOptions, KeysOptions, ReadOptions, WriteOptions, DeleteOptions, ListOptions any,
	GetOption ~func(*GetOptions), SetOption ~func(*SetOptions), KeysOption ~func(*KeysOptions), ReadOption ~func(*ReadOptions),
	WriteOption ~func(*WriteOptions), DeleteOption ~func(*DeleteOptions), ListOption ~func(*ListOptions)](
	ctx context.Context, s *natskv.Store, c *Config,
) (*KVStore[Record, GetOptions, SetOptions, KeysOptions, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
	GetOption, SetOption, KeysOption, ReadOption, WriteOption, DeleteOption, ListOption], error) {
	names := map[string]any{"Database": "", "Table": ""}
	err := errors.Join(
		fields.Check[Record](map[string]any{"Key": "", "Value": []byte(nil)}),
		fields.Check[ReadOptions](names), fields.Check[WriteOptions](names),
		fields.Check[DeleteOptions](names), fields.Check[ListOptions](names),
	)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "goorb", Err: err}
	}
	below := newStore(ctx, s, c)
	a := &KVStore[Record, GetOptions, SetOptions, KeysOptions, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
		GetOption, SetOption, KeysOption, ReadOption, WriteOption, DeleteOption, ListOption]{}
	a.Component.s, a.calls.s, a.deprecated.s = below, below, below
	return a, nil
}

// Component is the part that go-orb starts and stops.
type Component struct{ s store }

// Start does nothing: the store is open.
func (c *Component) Start(context.Context) error { return nil }

// Stop closes the store below, and calls [Config.OnClose].
func (c *Component) Stop(context.Context) error {
	err := c.s.kv.Close()
	if c.s.config.OnClose != nil {
		c.s.config.OnClose()
	}
	return err
}

// Type returns "kvstore".
func (c *Component) Type() string { return "kvstore" }

// String returns "natsjs", the name of the plug-in.
func (c *Component) String() string { return "natsjs" }

// calls are the methods of the interface that are not deprecated.
type calls[Record, GetOptions, SetOptions, KeysOptions any,
	GetOption ~func(*GetOptions), SetOption ~func(*SetOptions), KeysOption ~func(*KeysOptions)] struct{ s store }

// Get returns the record of key; with GetPrefix or GetSuffix those whose keys begin
// or end with it, in order, from Offset, at most Limit. A single key without a value
// is [Config.NotFound].
func (c *calls[Record, GetOptions, SetOptions, KeysOptions, GetOption, SetOption, KeysOption]) Get(
	ctx context.Context, key, database, table string, opts ...GetOption,
) ([]Record, error) {
	var o GetOptions
	for _, opt := range opts {
		opt(&o)
	}
	f := fields.Of(&o)
	var q *kv.Query
	if prefix, suffix := f.Bool("Prefix"), f.Bool("Suffix"); prefix || suffix {
		q = &kv.Query{Offset: f.Count("Offset"), Limit: f.Count("Limit")}
		if prefix {
			q.Prefix = key
		}
		if suffix {
			q.Suffix = key
		}
	}
	entries, err := c.s.get(ctx, key, database, table, q)
	if err != nil {
		return nil, err
	}
	records := make([]Record, len(entries))
	for i := range entries {
		fill(fields.Of(&records[i]), &entries[i])
	}
	return records, nil
}

// Set writes data to key. SetTTL, or SetExpiry, is its time to live, see
// [Config.IgnoreExpiry].
func (c *calls[Record, GetOptions, SetOptions, KeysOptions, GetOption, SetOption, KeysOption]) Set(
	ctx context.Context, key, database, table string, data []byte, opts ...SetOption,
) error {
	var o SetOptions
	for _, opt := range opts {
		opt(&o)
	}
	return c.s.set(ctx, key, database, table, data, fields.Of(&o))
}

// Purge removes key. A key without a value is no error.
func (c *calls[Record, GetOptions, SetOptions, KeysOptions, GetOption, SetOption, KeysOption]) Purge(
	ctx context.Context, key, database, table string,
) error {
	return c.s.purge(ctx, key, database, table)
}

// Keys returns the keys of the table that begin with KeysPrefix and end with
// KeysSuffix, in order, from Offset, at most Limit; of an empty table, none and no error.
func (c *calls[Record, GetOptions, SetOptions, KeysOptions, GetOption, SetOption, KeysOption]) Keys(
	ctx context.Context, database, table string, opts ...KeysOption,
) ([]string, error) {
	var o KeysOptions
	for _, opt := range opts {
		opt(&o)
	}
	return c.s.keys(ctx, database, table, fields.Of(&o))
}

// DropTable removes exactly the table; see [natskv.Store.DropTable].
func (c *calls[Record, GetOptions, SetOptions, KeysOptions, GetOption, SetOption, KeysOption]) DropTable(
	ctx context.Context, database, table string,
) error {
	b, err := c.s.table(database, table)
	if err != nil {
		return err
	}
	return c.s.kv.DropTable(ctx, b.Database(), b.Table())
}

// DropDatabase removes the tables of exactly the database, and no other whose name
// begins alike; see [natskv.Store.DropDatabase]. A database without tables is no error.
func (c *calls[Record, GetOptions, SetOptions, KeysOptions, GetOption, SetOption, KeysOption]) DropDatabase(
	ctx context.Context, database string,
) error {
	b, err := c.s.table(database, "")
	if err != nil {
		return err
	}
	err = c.s.kv.DropDatabase(ctx, b.Database())
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	return err
}
