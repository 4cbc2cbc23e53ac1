package event

import (
	"bytes"
	"context"

	"go.etcd.io/bbolt"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// byHand is the note of the contenders that sortedStore is for.
const byHand = "an event store written by hand: an event under stream and version, and an index of positions; nobody is told of appends"

// boltDB is an event store on bbolt.
func boltDB(name string, d suite.Durability) event.Factory {
	return event.Factory{
		Name: "bbolt-" + name, Durability: d, Transport: suite.InProcess, Note: byHand, ScaleEvents: slowScale, Restarts: true,
		Open: func(_ context.Context, _ *suite.Env, dir string) (event.Store, error) {
			db, err := peers.OpenBolt(dir, d)
			if err != nil {
				return nil, err
			}
			return newSorted(&bolt{db})
		},
	}
}

// bolt is all events in one bucket.
type bolt struct{ db *bbolt.DB }

var boltBucket = []byte("events")

func (b *bolt) get(key []byte) (value []byte, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		if bucket := tx.Bucket(boltBucket); bucket != nil {
			value = bytes.Clone(bucket.Get(key))
		}
		return nil
	})
	return value, err
}

func (b *bolt) scan(start, end []byte, each func(key, value []byte) (bool, error)) error {
	return b.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(boltBucket)
		if bucket == nil {
			return nil
		}
		c := bucket.Cursor()
		for k, v := c.Seek(start); k != nil && bytes.Compare(k, end) < 0; k, v = c.Next() {
			if more, err := each(k, v); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

func (b *bolt) apply(pairs []pair) (func() error, error) {
	return done, b.db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists(boltBucket)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if err := bucket.Put(p.key, p.value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bolt) clear() error {
	return b.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket(boltBucket) == nil {
			return nil
		}
		return tx.DeleteBucket(boltBucket)
	})
}

func (b *bolt) close() error { return b.db.Close() }
