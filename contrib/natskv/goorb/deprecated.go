package goorb

import (
	"github.com/mainstemdev/mainstem/contrib/natskv/internal/fields"
	"github.com/mainstemdev/mainstem/kv"
)

// deprecated is the part of the interface that go-orb keeps for old programs.
type deprecated[Record, ReadOptions, WriteOptions, DeleteOptions, ListOptions any, ReadOption ~func(*ReadOptions),
	WriteOption ~func(*WriteOptions), DeleteOption ~func(*DeleteOptions), ListOption ~func(*ListOptions)] struct{ s store }

// Read returns the record of key, or with ReadPrefix or ReadSuffix those whose keys
// begin and end so.
func (d *deprecated[Record, ReadOptions, WriteOptions, DeleteOptions, ListOptions, ReadOption, WriteOption, DeleteOption, ListOption]) Read(
	key string, opts ...ReadOption,
) ([]*Record, error) {
	var o ReadOptions
	for _, opt := range opts {
		opt(&o)
	}
	f := fields.Of(&o)
	var q *kv.Query
	if p := page(f); p.Prefix != "" || p.Suffix != "" {
		q = p
	}
	entries, err := d.s.get(d.s.ctx, key, f.String("Database"), f.String("Table"), q)
	if err != nil {
		return nil, err
	}
	records := make([]*Record, len(entries))
	for i := range entries {
		records[i] = new(Record)
		fill(fields.Of(records[i]), &entries[i])
	}
	return records, nil
}

// Write writes a record, with the time to live of WriteTTL or WriteExpiry.
func (d *deprecated[Record, ReadOptions, WriteOptions, DeleteOptions, ListOptions, ReadOption, WriteOption, DeleteOption, ListOption]) Write(
	r *Record, opts ...WriteOption,
) error {
	var o WriteOptions
	for _, opt := range opts {
		opt(&o)
	}
	f, from := fields.Of(&o), fields.Of(r)
	return d.s.set(d.s.ctx, from.String("Key"), f.String("Database"), f.String("Table"), from.Bytes("Value"), f)
}

// Delete removes key. A key without a value is no error.
func (d *deprecated[Record, ReadOptions, WriteOptions, DeleteOptions, ListOptions, ReadOption, WriteOption, DeleteOption, ListOption]) Delete(
	key string, opts ...DeleteOption,
) error {
	var o DeleteOptions
	for _, opt := range opts {
		opt(&o)
	}
	f := fields.Of(&o)
	return d.s.purge(d.s.ctx, key, f.String("Database"), f.String("Table"))
}

// List returns the keys that match, in order.
func (d *deprecated[Record, ReadOptions, WriteOptions, DeleteOptions, ListOptions, ReadOption, WriteOption, DeleteOption, ListOption]) List(
	opts ...ListOption,
) ([]string, error) {
	var o ListOptions
	for _, opt := range opts {
		opt(&o)
	}
	f := fields.Of(&o)
	return d.s.keys(d.s.ctx, f.String("Database"), f.String("Table"), f)
}
