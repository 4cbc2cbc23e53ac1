package viewhttp

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// A deletion is one commit together with the record of its idempotency key: a request that is sent
// again must not delete a value that was written since. Two deletions need more than one operation
// of the log, and read the key first:
//
//   - A purge of a key without a value. OpPurge does nothing there, so the older revisions are
//     truncated, on condition that the key still has no value.
//   - A deletion in a table that does not exist. The commit of the deletion fails; the record of
//     the idempotency key is committed alone, on condition that the key still has no value.
//
// If that condition fails, another writer has changed the key since it was read, and the deletion
// is made anew.

// deletion is a DELETE of one key.
type deletion struct {
	table *bytesTable
	key   string
	purge bool
	conds []kv.Condition // of the client
	who   identity
}

// nothingDeleted is the memo of a deletion whose batch has no write of the key.
var nothingDeleted = json.RawMessage("false")

func deleteKey(c *call) error {
	var d deletion
	var err error
	if d.table, d.key, err = c.tableAndKey(); err != nil {
		return err
	}
	if d.conds, err = c.condition(); err != nil {
		return err
	}
	if d.purge, err = c.flag("purge"); err != nil {
		return err
	}
	if d.who, err = c.identify(nil); err != nil {
		return err
	}
	for n := 1; ; n++ {
		out, err := c.deleteOnce(&d)
		if errors.Is(err, errChanged) && contention.Wait(c.ctx, n) {
			continue
		}
		if err != nil {
			return preconditionFailed(err)
		}
		c.setNumber(headerRevision, out.Revision)
		return c.answer(http.StatusOK, out)
	}
}

// errChanged is the error of a deletion that has read a key which another writer has changed since.
var errChanged = mainstem.Refusef(mainstem.KindUnavailable, "http", "other writers change the key all the time")

// deleteOnce makes the deletion in one commit, or returns [errChanged].
func (c *call) deleteOnce(d *deletion) (written, error) {
	b := mainstem.NewBatch()
	for _, cond := range d.conds {
		d.table.ExpectTo(b, d.key, cond)
	}
	// Not by DeleteTo, which would create a table that is not there.
	w := mainstem.Write{Op: mainstem.OpDelete, Space: d.table.Space(), Key: []byte(d.key)}
	own := mainstem.Condition{} // what was read of the key must still hold
	if d.purge {
		var err error
		if w, own, err = c.purgeOf(d); err != nil {
			return written{}, err
		}
		b.If(own)
	}
	b.Add(w)
	r, memo, err := c.commit(b, d.who, nil)
	if errors.Is(err, mainstem.ErrNotFound) { // the conditions hold, and there is no table
		if d.who.id == "" {
			return written{}, nil
		}
		own = mainstem.Condition{Space: w.Space, Key: w.Key, Test: mainstem.TestAbsent}
		b = mainstem.NewBatch()
		b.If(own)
		r, memo, err = c.commit(b, d.who, nothingDeleted)
	}
	if err != nil {
		return written{}, changedSince(own, err)
	}
	if string(memo) == string(nothingDeleted) {
		return written{Duplicate: r.Duplicate}, nil
	}
	return written{uint64(r.Versions[0]), position(positionsOf(r)[0]), nil, r.Duplicate}, nil
}

// purgeOf returns the write that purges the key as it is now, and the condition that it is still so.
func (c *call) purgeOf(d *deletion) (mainstem.Write, mainstem.Condition, error) {
	w := mainstem.Write{Op: mainstem.OpPurge, Space: d.table.Space(), Key: []byte(d.key)}
	own := mainstem.Condition{Space: w.Space, Key: w.Key, Test: mainstem.TestExists}
	_, err := d.table.Get(c.ctx, d.key)
	if !errors.Is(err, mainstem.ErrNotFound) {
		return w, own, err
	}
	own.Test = mainstem.TestAbsent
	for rec, err := range c.h.log.Read(c.ctx, w.Space, w.Key, mainstem.Versions{Reverse: true, Limit: 1}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		if err != nil {
			return w, own, err
		}
		w.Op, w.Version = mainstem.OpTruncate, rec.First()
		if rec.Live() { // it has expired, and its end is not written yet
			w.Version = rec.Version + 1
		}
	}
	return w, own, nil
}

// changedSince returns errChanged for a conflict of the condition own.
func changedSince(own mainstem.Condition, err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindConflict && own.Space != "" && e.Want.Test == own.Test {
		return errChanged
	}
	return err
}
