package event

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// noSync is weaker than [suite.OS]: a write is in a buffer of the process when the
// call returns, so that a killed process loses the last of them.
const noSync suite.Durability = "unsynced"

// pebbleDB is an event store on Pebble as it is.
func pebbleDB(name string, d suite.Durability) event.Factory {
	f := event.Factory{
		Name: "pebble-" + name, Durability: d, Transport: suite.InProcess, Note: byHand, Restarts: d == suite.Fsync,
		Open: func(_ context.Context, _ *suite.Env, dir string) (event.Store, error) {
			o := &pebble.Options{Logger: engines.QuietPebble{}}
			if d == suite.Memory {
				o.FS = vfs.NewMem()
			}
			db, err := pebble.Open(dir, o)
			if err != nil {
				return nil, err
			}
			return newSorted(&pebbleEvents{db: db, sync: d == suite.Fsync})
		},
	}
	if d == suite.Fsync {
		f.ScaleEvents = slowScale
	}
	return f
}

type pebbleEvents struct {
	db   *pebble.DB
	sync bool
}

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
	if !p.sync {
		return done, errors.Join(b.Commit(pebble.NoSync), b.Close())
	}
	if err := p.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return func() error { return errors.Join(b.SyncWait(), b.Close()) }, nil
}

func (p *pebbleEvents) clear() error {
	write := pebble.NoSync
	if p.sync {
		write = pebble.Sync
	}
	return p.db.DeleteRange([]byte{'h'}, []byte{'t'}, write)
}

func (p *pebbleEvents) close() error { return p.db.Close() }
