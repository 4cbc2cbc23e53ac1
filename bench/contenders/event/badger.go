package event

import (
	"bytes"
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// badgerDB is an event store on Badger.
func badgerDB(name string, d suite.Durability) event.Factory {
	f := event.Factory{
		Name: "badger-" + name, Durability: d, Transport: suite.InProcess, Note: byHand, Restarts: d != suite.Memory,
		Open: func(_ context.Context, _ *suite.Env, dir string) (event.Store, error) {
			db, err := peers.OpenBadger(dir, d)
			if err != nil {
				return nil, err
			}
			return newSorted(&badgerEvents{db})
		},
	}
	if d == suite.Fsync {
		f.ScaleEvents = slowScale
	}
	return f
}

type badgerEvents struct{ db *badger.DB }

func (b *badgerEvents) get(key []byte) (value []byte, err error) {
	err = b.db.View(func(tx *badger.Txn) error {
		item, err := tx.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			value, err = item.ValueCopy(nil)
		}
		return err
	})
	return value, err
}

func (b *badgerEvents) scan(start, end []byte, each func(key, value []byte) (bool, error)) error {
	return b.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Seek(start); it.Valid() && bytes.Compare(it.Item().Key(), end) < 0; it.Next() {
			more := false
			err := it.Item().Value(func(v []byte) (err error) {
				more, err = each(it.Item().Key(), v)
				return err
			})
			if err != nil || !more {
				return err
			}
		}
		return nil
	})
}

func (b *badgerEvents) apply(pairs []pair) (func() error, error) {
	tx := b.db.NewTransaction(true)
	defer tx.Discard()
	for _, p := range pairs {
		if err := tx.Set(p.key, p.value); err != nil {
			return nil, err
		}
	}
	committed := make(chan error, 1)
	tx.CommitWith(func(err error) { committed <- err })
	return func() error { return <-committed }, nil
}

func (b *badgerEvents) clear() error { return b.db.DropAll() }
func (b *badgerEvents) close() error { return b.db.Close() }
