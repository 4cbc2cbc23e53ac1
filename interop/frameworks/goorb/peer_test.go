package goorb_test

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/go-orb/go-orb/kvstore"
	"github.com/go-orb/go-orb/util/orberrors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// peer does with nats.go what natsjs does, where a program does not have natsjs. It
// shares no code with package natskv.
type peer struct {
	kvstore.Deprecated // has none of it
	settings
	nc *nats.Conn
	js jetstream.JetStream
}

func (p *peer) Start(context.Context) (err error) {
	if p.nc, err = nats.Connect(p.URL, nats.Timeout(testkit.Patience)); err == nil {
		p.js, err = jetstream.New(p.nc, jetstream.WithDefaultTimeout(testkit.Patience))
	}
	return err
}

func (p *peer) Stop(context.Context) error { p.nc.Close(); return nil }
func (p *peer) Type() string               { return kvstore.ComponentType }
func (p *peer) String() string             { return "peer" }

// names returns the bucket, and the part of a key that is the table. A table that comes
// from the settings is not in keys.
func (p *peer) names(database, table string) (bucket, prefix string) {
	if bucket = database; bucket == "" {
		bucket = p.Database
	}
	if !p.BucketPerTable {
		return bucket, ""
	}
	if table != "" {
		prefix = table + "_"
	} else {
		table = p.Table
	}
	if table != "" {
		bucket += "_" + table
	}
	return bucket, prefix
}

// bucket returns a bucket, made if it is not there, as natsjs does even to read.
func (p *peer) bucket(ctx context.Context, database, table string) (jetstream.KeyValue, string, error) {
	name, prefix := p.names(database, table)
	b, err := p.js.KeyValue(ctx, name)
	if err != nil {
		b, err = p.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, History: 1})
	}
	return b, prefix, err
}

func (p *peer) encode(key string) string {
	if p.KeyEncoding == "" {
		return key
	}
	return base32.StdEncoding.EncodeToString([]byte(key))
}

func (p *peer) decode(key string) string {
	if p.KeyEncoding != "" {
		if plain, err := base32.StdEncoding.DecodeString(key); err == nil {
			return string(plain)
		}
	}
	return key
}

type envelope struct {
	Key      string         `json:"key"`
	Data     []byte         `json:"data"`
	Metadata map[string]any `json:"metadata"`
}

// record makes a record of an entry of a bucket.
func (p *peer) record(prefix string, e jetstream.KeyValueEntry) (r kvstore.Record, err error) {
	r = kvstore.Record{Key: strings.TrimPrefix(p.decode(e.Key()), prefix), Value: e.Value()}
	if p.JSONKeyValues && e.Operation() == jetstream.KeyValuePut {
		var in envelope
		err = json.Unmarshal(e.Value(), &in)
		r.Key, r.Value = in.Key, in.Data
	}
	return r, err
}

func (p *peer) Get(ctx context.Context, key, database, table string, _ ...kvstore.GetOption) ([]kvstore.Record, error) {
	b, prefix, err := p.bucket(ctx, database, table)
	if err != nil {
		return nil, err
	}
	e, err := b.Get(ctx, p.encode(prefix+key))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, orberrors.ErrNotFound.Wrap(kvstore.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	r, err := p.record(prefix, e)
	return []kvstore.Record{r}, err
}

func (p *peer) Set(ctx context.Context, key, database, table string, data []byte, _ ...kvstore.SetOption) error {
	b, prefix, err := p.bucket(ctx, database, table)
	if err == nil && p.JSONKeyValues {
		data, err = json.Marshal(envelope{Key: key, Data: data, Metadata: map[string]any{}})
	}
	if err == nil {
		_, err = b.Put(ctx, p.encode(prefix+key), data)
	}
	return err
}

func (p *peer) Purge(ctx context.Context, key, database, table string) error {
	b, prefix, err := p.bucket(ctx, database, table)
	if err == nil {
		err = b.Purge(ctx, p.encode(prefix+key))
	}
	return err
}

func (p *peer) Keys(ctx context.Context, database, table string, opts ...kvstore.KeysOption) ([]string, error) {
	o := kvstore.NewKeysOptions(opts...)
	b, prefix, err := p.bucket(ctx, database, table)
	if err != nil {
		return nil, err
	}
	keys, err := b.Keys(ctx)
	for i, k := range keys {
		keys[i] = p.decode(k)
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, prefix+o.Prefix) || !strings.HasSuffix(k, o.Suffix) })
	for i, k := range keys {
		keys[i] = strings.TrimPrefix(k, prefix)
	}
	return keys, err
}

func (p *peer) DropTable(ctx context.Context, database, table string) error {
	if !p.BucketPerTable {
		return errors.New("there are no tables to drop")
	}
	bucket, _ := p.names(database, table)
	return p.js.DeleteKeyValue(ctx, bucket)
}

func (p *peer) DropDatabase(ctx context.Context, database string) error {
	names := p.js.KeyValueStoreNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(name, database) { // and not only those of the database
			if err := p.js.DeleteKeyValue(ctx, name); err != nil {
				return err
			}
		}
	}
	return names.Error()
}

func (p *peer) Watch(ctx context.Context, database, table string, _ ...kvstore.WatchOption) (<-chan kvstore.WatchEvent, func() error, error) {
	b, prefix, err := p.bucket(ctx, database, table)
	if err != nil {
		return nil, nil, err
	}
	w, err := b.WatchAll(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := make(chan kvstore.WatchEvent)
	go func() {
		for e := range w.Updates() {
			if e == nil {
				continue
			}
			r, err := p.record(prefix, e)
			if err != nil {
				continue
			}
			op := kvstore.WatchOpUpdate
			if e.Operation() != jetstream.KeyValuePut {
				op = kvstore.WatchOpDelete
			}
			select {
			case out <- kvstore.WatchEvent{Record: r, Operation: op}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, w.Stop, nil
}
