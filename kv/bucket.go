package kv

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
)

// Bucket is a typed handle on one table. It holds no resources and needs no
// Close; it works as long as its log is open. All methods may be called from
// many goroutines.
type Bucket[T any] struct {
	log             mainstem.Log
	database, table string
	space           string
	catalog         catalog // of the table's indexes; writes require that there are none
	codec           codec.Codec
	raw             bool // values are stored without a codec
	bytes           bool // raw, and T is a byte slice
	policy          mainstem.Policy
	ttl             time.Duration
	durability      mainstem.Durability
}

// Open returns a handle on the table "database/table" of log; "table" alone means "default/table".
// Open reads and creates nothing: the first write creates the table with the policy of o. Names
// consist of letters, digits, dot, dash, underline and @ (by custom followed by a version), and
// have at most [MaxName] bytes. A wrong name, option or type is Invalid.
func Open[T any](log mainstem.Log, name string, o *Options) (*Bucket[T], error) {
	database, table, err := splitName(name)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := o.Codec
	if c == nil {
		if c, err = codec.Default[T](); err != nil {
			return nil, mainstem.Errorf(mainstem.KindInvalid, "kv open", "%s: %w", name, err)
		}
	}
	return &Bucket[T]{
		log: log, database: database, table: table, space: spaceName(database, table), catalog: newCatalog(log, database, table),
		codec: c, raw: c == codec.Raw, bytes: c == codec.Raw && isBytes[T](), policy: o.policy(c), ttl: o.TTL, durability: o.Durability,
	}, nil
}

func isBytes[T any]() bool {
	t := reflect.TypeFor[T]()
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// Name returns "database/table".
func (b *Bucket[T]) Name() string { return b.database + "/" + b.table }

// Database returns the name of the database.
func (b *Bucket[T]) Database() string { return b.database }

// Table returns the name of the table within its database.
func (b *Bucket[T]) Table() string { return b.table }

// Space returns the name of the space that holds the table, for feeds and for batches that write to
// it without this package.
func (b *Bucket[T]) Space() string { return b.space }

// Get returns the entry of key. A key without a value is NotFound, and so is every key of a table
// that does not exist. A value that the codec cannot decode is Corrupt; the entry is then complete
// except for its value.
func (b *Bucket[T]) Get(ctx context.Context, key string) (Entry[T], error) {
	if err := validateKey("get", b.space, key); err != nil {
		return Entry[T]{}, err
	}
	r, err := b.log.Get(ctx, b.space, []byte(key))
	if err != nil {
		return Entry[T]{}, err
	}
	return b.entry("get", key, &r, opOf(&r), owned)
}

// GetRevision returns one revision of key, which may be a tombstone (see
// [Entry.Live]). A revision that is no longer held, or never was, is NotFound.
func (b *Bucket[T]) GetRevision(ctx context.Context, key string, revision Revision) (Entry[T], error) {
	if err := validateKey("get", b.space, key); err != nil {
		return Entry[T]{}, err
	}
	if revision > 0 {
		for e, err := range b.History(ctx, key, mainstem.Versions{From: revision, To: revision, Limit: 1}) {
			return e, err
		}
	}
	return Entry[T]{}, mainstem.Errorf(mainstem.KindNotFound, "get", "revision %d is not held", revision).At(b.space, []byte(key))
}

// Alter gives the table the policy of the options that the bucket was opened with, and creates the
// table if it does not exist. These are Invalid: a change that [mainstem.Policy.CanAlter] refuses,
// a MaxAge other than that of the table's indexes, and a MaxBytes for a table with indexes.
func (b *Bucket[T]) Alter(ctx context.Context) error {
	d, version, err := b.catalog.read(ctx, b.log)
	if err != nil {
		return err
	}
	if version > 0 && (d.MaxAge != b.policy.MaxAge || b.policy.MaxBytes > 0) {
		return mainstem.Refusef(mainstem.KindInvalid, "kv alter", "table %s has indexes, whose entries are kept for as long as its values: MaxAge stays %v, and MaxBytes 0; drop the indexes first", b.Name(), d.MaxAge)
	}
	return b.alter(ctx)
}

func (b *Bucket[T]) alter(ctx context.Context) error {
	err := b.log.AlterSpace(ctx, b.space, b.policy)
	if !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	err = b.log.CreateSpace(ctx, b.space, b.policy)
	if errors.Is(err, mainstem.ErrExists) { // the first write of another writer created it meanwhile
		return b.log.AlterSpace(ctx, b.space, b.policy)
	}
	return err
}

// Drop removes the table with everything in it, its indexes first. No other table is touched. A
// table that does not exist is NotFound. The next write creates the table again.
func (b *Bucket[T]) Drop(ctx context.Context) error {
	return dropTable(ctx, b.log, b.database, b.table)
}
