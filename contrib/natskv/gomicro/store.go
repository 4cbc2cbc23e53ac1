package gomicro

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/internal/fields"
	"github.com/mainstemdev/mainstem/kv"
)

// deleteBucket is the table by which go-micro's plug-in is asked to delete a
// bucket: its option DeleteBucket sets it, and the key is then the bucket's name.
const deleteBucket = "DELETE_BUCKET"

// DefaultDescription is the description of buckets that go-micro's plug-in creates.
const DefaultDescription = "KeyValue storage administered by go-micro store plugin"

// Config configures an adapter. Nil and zero fields mean the defaults.
type Config struct {
	// Database and Table are those of calls that do not say. Defaults: "default" and
	// the empty table.
	Database, Table string
	// NotFound is what Read returns for a key without a value: give store.ErrNotFound,
	// which callers compare with. Default: the error of package natskv.
	NotFound error
	// DefaultTTL is the time after which everything in a bucket that this adapter
	// creates is removed. Default 0: never.
	DefaultTTL time.Duration
	// Memory keeps the buckets that this adapter creates in the memory of the servers, as
	// the plug-in's option DefaultMemory does. Default: in files.
	Memory bool
	// Replicas is how many servers of a cluster hold a bucket that this adapter creates:
	// 1 to 5. Default 1.
	Replicas int
	// Description is that of the buckets that this adapter creates, as of the plug-in's
	// option DefaultDescription. Default: [DefaultDescription].
	Description string
	// IgnoreExpiry writes records without their Expiry, and ignores WriteTTL and
	// WriteExpiry, as go-micro's own plug-in does.
	IgnoreExpiry bool
}

// Store has the method set of go-micro's store.Store, once its type parameters are
// the types of that package; see the package comment. All methods may be called
// from many goroutines.
type Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions any,
	Option ~func(*Options), ReadOption ~func(*ReadOptions), WriteOption ~func(*WriteOptions),
	DeleteOption ~func(*DeleteOptions), ListOption ~func(*ListOptions)] struct {
	kv     *natskv.Store
	ctx    context.Context
	config Config

	mu      sync.Mutex
	options Options
}

// New returns an adapter over a store, whose layout should be natskv.GoMicro or
// natskv.Shared. The values of ctx go with every call that brings no context of its own; its
// end does not end them. Types that do not have the fields of go-micro's are Invalid.
func New[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions any,
	Option ~func(*Options), ReadOption ~func(*ReadOptions), WriteOption ~func(*WriteOptions),
	DeleteOption ~func(*DeleteOptions), ListOption ~func(*ListOptions)](
	ctx context.Context, s *natskv.Store, c *Config,
) (*Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption], error) {
	names := map[string]any{"Database": "", "Table": ""}
	err := errors.Join(
		fields.Check[Record](map[string]any{"Key": "", "Value": []byte(nil)}),
		fields.Check[Options](names), fields.Check[ReadOptions](names), fields.Check[WriteOptions](names),
		fields.Check[DeleteOptions](names), fields.Check[ListOptions](names),
	)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "gomicro", Err: err}
	}
	a := &Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]{
		kv: s, ctx: context.WithoutCancel(ctx),
	}
	if c != nil {
		a.config = *c
	}
	o := fields.Of(&a.options)
	o.Set("Database", a.config.Database)
	o.Set("Table", a.config.Table)
	return a, nil
}

// Init applies options: Database and Table become those of calls that do not say.
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) Init(opts ...Option) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range opts {
		o(&s.options)
	}
	return nil
}

// Options returns the options as they are.
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) Options() Options {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options
}

// Close closes the store below.
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) Close() error {
	return s.kv.Close()
}

// String returns the name that go-micro's plug-in has.
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) String() string {
	return "NATS JetStream KeyValueStore"
}

// call is where one call goes.
type call struct {
	ctx             context.Context
	database, table string
	bucket          *natskv.Bucket[natskv.Envelope]
}

// call reads the names and the context out of the options of a call.
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) call(f fields.Fields) (call, error) {
	defaults := s.Options()
	d := fields.Of(&defaults)
	c := call{ctx: f.Context("Context", s.ctx), database: f.String("Database"), table: f.String("Table")}
	if c.database == "" {
		c.database = d.String("Database")
	}
	if c.table == "" {
		c.table = d.String("Table")
	}
	if c.table == deleteBucket {
		return c, nil
	}
	var err error
	c.bucket, err = natskv.OpenTable[natskv.Envelope](s.kv, c.database, c.table, &natskv.TableOptions{
		MaxAge: s.config.DefaultTTL, Memory: s.config.Memory, Replicas: s.config.Replicas,
		Description: cmp.Or(s.config.Description, DefaultDescription),
	})
	return c, err
}

// Read returns the record of key, or with ReadPrefix or ReadSuffix (both: with the
// same text) those whose keys begin or end with it, in the order of their keys,
// from Offset, at most Limit. A single key without a value is [Config.NotFound].
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) Read(key string, opts ...ReadOption) ([]*Record, error) {
	var o ReadOptions
	for _, opt := range opts {
		opt(&o)
	}
	f := fields.Of(&o)
	c, err := s.call(f)
	if err != nil {
		return nil, err
	}
	if !f.Bool("Prefix") && !f.Bool("Suffix") {
		e, err := c.bucket.Get(c.ctx, key)
		if errors.Is(err, mainstem.ErrNotFound) && s.config.NotFound != nil {
			return nil, s.config.NotFound
		}
		if err != nil {
			return nil, err
		}
		return []*Record{record[Record](&e, s.kv.Now())}, nil
	}
	q := kv.Query{Offset: f.Count("Offset"), Limit: f.Count("Limit")}
	if f.Bool("Prefix") {
		q.Prefix = key
	}
	if f.Bool("Suffix") {
		q.Suffix = key
	}
	records := []*Record{}
	for e, err := range c.bucket.List(c.ctx, &q) {
		if err != nil {
			return nil, err
		}
		records = append(records, record[Record](&e, s.kv.Now()))
	}
	return records, nil
}

// record makes go-micro's record of an entry, by the time of the servers. A record that expires
// has an Expiry above 0, also if it may be gone by now: 0 is never, and Write deletes a record
// whose Expiry is below. It is never more than the record had when it was written: now, which is
// an estimate, may be before that.
func record[Record any](e *kv.Entry[natskv.Envelope], now time.Time) *Record {
	r := new(Record)
	f := fields.Of(r)
	f.Set("Key", e.Key)
	f.Set("Value", e.Value.Data)
	var metadata map[string]any
	if e.Value.Metadata != nil && json.Unmarshal(e.Value.Metadata, &metadata) == nil {
		f.Set("Metadata", metadata)
	}
	if !e.Expires.IsZero() {
		f.Set("Expiry", max(min(e.Expires.Sub(now), e.Expires.Sub(e.Modified)), 1))
	}
	return r
}

// Write writes a record with its metadata. Its Expiry, or WriteTTL or WriteExpiry, is
// its time to live, see [Config.IgnoreExpiry].
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) Write(r *Record, opts ...WriteOption) error {
	var o WriteOptions
	for _, opt := range opts {
		opt(&o)
	}
	f := fields.Of(&o)
	c, err := s.call(f)
	if err != nil {
		return err
	}
	from := fields.Of(r)
	e := natskv.Envelope{Data: from.Bytes("Value")}
	if m, ok := from.Value("Metadata").(map[string]any); ok && m != nil {
		if e.Metadata, err = json.Marshal(m); err != nil {
			return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "write", Key: []byte(from.String("Key")), Outcome: mainstem.NotWritten, Err: err}
		}
	}
	var options []natskv.WriteOption
	if ttl, ok := timeToLive(f, from); ok && !s.config.IgnoreExpiry {
		if ttl <= 0 {
			return s.Delete(from.String("Key"), named[DeleteOptions, DeleteOption](c))
		}
		options = append(options, natskv.TTL(ttl))
	}
	_, err = c.bucket.Put(c.ctx, from.String("Key"), e, options...)
	return err
}

// timeToLive returns what is left to live of a record: by WriteTTL, WriteExpiry
// or itself, in this order.
func timeToLive(options, record fields.Fields) (time.Duration, bool) {
	if ttl := options.Duration("TTL"); ttl != 0 {
		return ttl, true
	}
	if at := options.Time("Expiry"); !at.IsZero() {
		return time.Until(at), true
	}
	ttl := record.Duration("Expiry")
	return ttl, ttl != 0
}

// named is an option that names the database and the table of a call.
func named[Options any, Option ~func(*Options)](c call) Option {
	return func(o *Options) {
		f := fields.Of(o)
		f.Set("Context", c.ctx)
		f.Set("Database", c.database)
		f.Set("Table", c.table)
	}
}

// Delete deletes key. A key without a value is no error. With the table
// DELETE_BUCKET, key is the name of a bucket, which is deleted.
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) Delete(key string, opts ...DeleteOption) error {
	var o DeleteOptions
	for _, opt := range opts {
		opt(&o)
	}
	c, err := s.call(fields.Of(&o))
	if err != nil {
		return err
	}
	if c.table == deleteBucket {
		return s.kv.DropDatabase(c.ctx, key)
	}
	return c.bucket.Delete(c.ctx, key)
}

// List returns the keys of the table that begin with Prefix and end with Suffix, in
// order, from Offset, at most Limit. The empty table is every key of the bucket, with
// the tables in front of those that have one.
func (s *Store[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions, Option, ReadOption, WriteOption, DeleteOption, ListOption]) List(opts ...ListOption) ([]string, error) {
	var o ListOptions
	for _, opt := range opts {
		opt(&o)
	}
	f := fields.Of(&o)
	c, err := s.call(f)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	q := kv.Query{Prefix: f.String("Prefix"), Suffix: f.String("Suffix"), Offset: f.Count("Offset"), Limit: f.Count("Limit")}
	for key, err := range c.bucket.Keys(c.ctx, &q) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
