package stream

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// rawPebble is the storage engine that Mainstem's embedded engine stands on.
func rawPebble(name string, d suite.Durability) stream.Factory {
	open := func(dir string) (*pebbleDB, error) {
		db, err := peers.OpenPebble(dir, d)
		return &pebbleDB{db: db}, err
	}
	return stream.Factory{
		Name: "pebble-" + name, Durability: d, Transport: suite.InProcess, Note: "bare Pebble: a message is a key of 8 bytes, a batch of messages one batch",
		Log:   func(_ context.Context, _ *suite.Env, dir string) (stream.Log, error) { return open(dir) },
		Table: func(_ context.Context, _ *suite.Env, dir string) (stream.Table, error) { return open(dir) },
	}
}

// pebbleDB is a log or a table. The value of a message begins with the length of its
// key, plus one; 0 means none.
type pebbleDB struct {
	db   *peers.Pebble
	next int64
	buf  []byte
	get  []byte
}

func (p *pebbleDB) Close() error { return p.db.Close() }

// packed appends a message to b in one piece, and unpacked takes it apart.
func packed(b []byte, m stream.Message) []byte {
	n := 0
	if m.Key != nil {
		n = len(m.Key) + 1
	}
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	return append(append(b, m.Key...), m.Value...)
}

func unpacked(b []byte) stream.Message {
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if n == 0 {
		return stream.Message{Value: b}
	}
	return stream.Message{Key: b[: n-1 : n-1], Value: b[n-1:]}
}

func numberKey(n int64) (k [8]byte) {
	binary.BigEndian.PutUint64(k[:], uint64(n))
	return k
}

func (p *pebbleDB) Append(_ context.Context, ms ...stream.Message) error {
	b := p.db.NewBatch()
	for i, m := range ms {
		k := numberKey(p.next + int64(i))
		p.buf = packed(p.buf[:0], m)
		if err := b.Set(k[:], p.buf, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	if err := b.Commit(p.db.Write); err != nil {
		return errors.Join(err, b.Close())
	}
	p.next += int64(len(ms))
	return b.Close()
}

func (p *pebbleDB) Read(_ context.Context, from int64, most int, f func(stream.Message) error) error {
	k := numberKey(from)
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: k[:]})
	if err != nil {
		return err
	}
	for got, ok := 0, it.First(); ok && got < most; ok = it.Next() {
		m := unpacked(it.Value())
		got += len(m.Key) + len(m.Value)
		if err := f(m); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

func (p *pebbleDB) Put(_ context.Context, key, value []byte) error {
	return p.db.Set(key, value, p.db.Write)
}

func (p *pebbleDB) Get(_ context.Context, key []byte) ([]byte, error) {
	v, closer, err := p.db.Get(key)
	if err != nil {
		return nil, err
	}
	p.get = append(p.get[:0], v...)
	return p.get, closer.Close()
}

func (p *pebbleDB) Scan(_ context.Context, f func(key, value []byte) error) error {
	it, err := p.db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}
