package goorb

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/internal/fields"
	"github.com/mainstemdev/mainstem/kv"
)

// Config configures an adapter. Nil and zero fields mean the defaults.
type Config struct {
	// Database and Table are those of calls that do not say: "database" and "table" of
	// go-orb's configuration. Defaults: "default" and the empty table.
	Database, Table string
	// NotFound is what Get and Read return for a key without a value: give an error that
	// wraps kvstore.ErrNotFound, such as orberrors.ErrNotFound.Wrap(kvstore.ErrNotFound).
	// Default: the error of package natskv.
	NotFound error
	// IgnoreExpiry ignores SetTTL, SetExpiry and their like, as go-orb's own plug-in does.
	IgnoreExpiry bool
	// OnClose is called by Stop after the store is closed, to close the connection
	// for instance.
	OnClose func()
}

// store is what an adapter and a watcher have in common.
type store struct {
	kv     *natskv.Store
	ctx    context.Context // of the methods that take none
	config Config
}

func newStore(ctx context.Context, s *natskv.Store, c *Config) store {
	out := store{kv: s, ctx: context.WithoutCancel(ctx)}
	if c != nil {
		out.config = *c
	}
	return out
}

// description is that of the buckets that go-orb's plug-in makes.
const description = "KeyValue storage administered by go-orb"

// table returns the table of a call. One that comes from the configuration names
// the bucket only, not the keys, if it has a bucket of its own: so the plug-in does it.
func (s *store) table(database, table string) (*natskv.Bucket[[]byte], error) {
	bare := table == ""
	if database == "" {
		database = s.config.Database
	}
	if table == "" {
		table = s.config.Table
	}
	return natskv.OpenTable[[]byte](s.kv, database, table, &natskv.TableOptions{Bare: bare, Description: description})
}

func (s *store) notFound(err error) error {
	if errors.Is(err, mainstem.ErrNotFound) && s.config.NotFound != nil {
		return s.config.NotFound
	}
	return err
}

// set writes a value with the time to live that options ask for.
func (s *store) set(ctx context.Context, key, database, table string, data []byte, options fields.Fields) error {
	b, err := s.table(database, table)
	if err != nil {
		return err
	}
	ttl := options.Duration("TTL")
	at := options.Time("Expiry")
	if ttl == 0 && !at.IsZero() {
		if ttl = time.Until(at); ttl <= 0 && !s.config.IgnoreExpiry {
			return b.Purge(ctx, key) // it has expired
		}
	}
	if ttl == 0 || s.config.IgnoreExpiry {
		_, err = b.Put(ctx, key, data)
	} else {
		_, err = b.Put(ctx, key, data, natskv.TTL(ttl))
	}
	return err
}

// get returns one record, or those that q selects.
func (s *store) get(ctx context.Context, key, database, table string, q *kv.Query) ([]kv.Entry[[]byte], error) {
	b, err := s.table(database, table)
	if err != nil {
		return nil, err
	}
	if q == nil {
		e, err := b.Get(ctx, key)
		if err != nil {
			return nil, s.notFound(err)
		}
		return []kv.Entry[[]byte]{e}, nil
	}
	var entries []kv.Entry[[]byte]
	for e, err := range b.List(ctx, q) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// keys returns the keys of a table that options ask for.
func (s *store) keys(ctx context.Context, database, table string, options fields.Fields) ([]string, error) {
	b, err := s.table(database, table)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	for key, err := range b.Keys(ctx, page(options)) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// page is the query of options that have Prefix and Suffix as texts.
func page(options fields.Fields) *kv.Query {
	return &kv.Query{
		Prefix: options.String("Prefix"), Suffix: options.String("Suffix"),
		Offset: options.Count("Offset"), Limit: options.Count("Limit"),
	}
}

func (s *store) purge(ctx context.Context, key, database, table string) error {
	b, err := s.table(database, table)
	if err != nil {
		return err
	}
	return b.Purge(ctx, key)
}

// fill makes go-orb's record, or what embeds it, of an entry.
func fill(f fields.Fields, e *kv.Entry[[]byte]) {
	f.Set("Key", e.Key)
	f.Set("Value", e.Value)
	if !e.Expires.IsZero() {
		f.Set("Expiry", &e.Expires)
	}
}
