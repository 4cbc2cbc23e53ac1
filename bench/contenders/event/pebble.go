package event

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// pebbleDB is an event store on Pebble as it is.
func pebbleDB(name string, d suite.Durability) event.Factory {
	f := event.Factory{
		Name: "pebble-" + name, Durability: d, Transport: suite.InProcess, Note: byHand, Restarts: d == suite.Fsync,
		Open: func(_ context.Context, _ *suite.Env, dir string) (event.Store, error) {
			db, err := peers.OpenPebble(dir, d)
			if err != nil {
				return nil, err
			}
			return newSorted(&pebbleEvents{db})
		},
	}
	if d == suite.Fsync {
		f.ScaleEvents = slowScale
	}
	return f
}

type pebbleEvents struct{ db *peers.Pebble }

func (p *pebbleEvents) get(key []byte) ([]byte, error) {
	v, closer, err := p.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v = bytes.Clone(v)
	return v, closer.Close()
}

func (p *pebbleEvents) scan(start, end []byte, each func(key, value []byte) (bool, error)) error {
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		if ok, err = each(it.Key(), value); ok {
			ok = it.Next()
		}
	}
	return errors.Join(err, it.Close())
}

// apply waits for the disk outside of the lock of its caller, so that several
// appends share one sync, as Pebble intends.
func (p *pebbleEvents) apply(pairs []pair) (func() error, error) {
	b := p.db.NewBatch()
	for _, pair := range pairs {
		if err := b.Set(pair.key, pair.value, nil); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	if !p.db.Write.Sync {
		return done, errors.Join(b.Commit(p.db.Write), b.Close())
	}
	if err := p.db.ApplyNoSyncWait(b, p.db.Write); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return func() error { return errors.Join(b.SyncWait(), b.Close()) }, nil
}

func (p *pebbleEvents) clear() error {
	return p.db.DeleteRange([]byte{'h'}, []byte{'t'}, p.db.Write)
}

func (p *pebbleEvents) close() error { return p.db.Close() }
