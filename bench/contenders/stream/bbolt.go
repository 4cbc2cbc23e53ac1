package stream

import (
	"context"

	"go.etcd.io/bbolt"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// bolt is bbolt, a B+ tree in one file.
func bolt(name string, d suite.Durability) stream.Factory {
	open := func(dir string) (*boltDB, error) {
		db, err := peers.OpenBolt(dir, d)
		if err != nil {
			return nil, err
		}
		b := &boltDB{db: db}
		return b, db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(boltBucket)
			return err
		})
	}
	return stream.Factory{
		Name: "bbolt-" + name, Durability: d, Transport: suite.InProcess, Note: "bbolt: a message is a key of 8 bytes, a transaction for each write and each read",
		Log:   func(_ context.Context, _ *suite.Env, dir string) (stream.Log, error) { return open(dir) },
		Table: func(_ context.Context, _ *suite.Env, dir string) (stream.Table, error) { return open(dir) },
	}
}

var boltBucket = []byte("bench")

type boltDB struct {
	db   *bbolt.DB
	next int64
	get  []byte
}

func (b *boltDB) Close() error { return b.db.Close() }

func (b *boltDB) Append(_ context.Context, ms ...stream.Message) error {
	err := b.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(boltBucket)
		bucket.FillPercent = 1 // keys only grow
		for i, m := range ms {
			k := numberKey(b.next + int64(i))
			if err := bucket.Put(k[:], packed(nil, m)); err != nil { // it keeps the value until the commit
				return err
			}
		}
		return nil
	})
	if err == nil {
		b.next += int64(len(ms))
	}
	return err
}

func (b *boltDB) Read(_ context.Context, from int64, most int, f func(stream.Message) error) error {
	return b.db.View(func(tx *bbolt.Tx) error {
		start := numberKey(from)
		c := tx.Bucket(boltBucket).Cursor()
		got := 0
		for k, v := c.Seek(start[:]); k != nil && got < most; k, v = c.Next() {
			m := unpacked(v)
			got += len(m.Key) + len(m.Value)
			if err := f(m); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *boltDB) Put(_ context.Context, key, value []byte) error {
	return b.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(boltBucket).Put(key, value) })
}

func (b *boltDB) Get(_ context.Context, key []byte) ([]byte, error) {
	err := b.db.View(func(tx *bbolt.Tx) error {
		b.get = append(b.get[:0], tx.Bucket(boltBucket).Get(key)...)
		return nil
	})
	return b.get, err
}

func (b *boltDB) Scan(_ context.Context, f func(key, value []byte) error) error {
	return b.db.View(func(tx *bbolt.Tx) error { return tx.Bucket(boltBucket).ForEach(f) })
}
