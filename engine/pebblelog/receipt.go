package pebblelog

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
	"github.com/mainstemdev/mainstem/internal/store"
)

// receipts know of most batch IDs that the log has no receipt for, so that a new batch need not
// look for it. They begin when the log is opened, and again when since is full. Invariant: since
// has the key of every receipt written after that, and old, if there is one, of every other.
// Those that were forgotten may be in both.
//
// A batch with an ID is new if neither filter has its key. A filter never denies a key that was
// added, so no duplicate is taken for new. One that has the key by chance, or for a receipt
// that was forgotten, costs a look into the tiers, which decide.
//
// A receipt is written in the frame of its batch. So after a crash either both are there, and
// the batch committed again is answered with the receipt, or neither is, and it is written.
// Two batches with one ID in one run meet in tx.ids: the first one's receipt is not stored yet.
type receipts struct {
	bytes   int           // of the largest part of each filter
	since   *store.Filter // the leader's
	cold    int           // looks into Pebble for want of old; the leader's
	finding atomic.Bool   // findReceipts runs; the leader sets it, and does not renew meanwhile
	// old is nil until all receipts that are not in since are found: then every ID has to be
	// looked for. findReceipts stores it when it is whole, and does not change it then.
	old atomic.Pointer[store.Filter]
}

const (
	receiptBytes = writtenBytes
	receiptLooks = 256 // looks into Pebble after which old is made: it reads the keys of all receipts
)

func (r *receipts) begin() { r.since, r.cold = store.NewFilter(r.bytes), 0 }

// renew begins again if since is full. The leader calls it before a group: all receipts before
// are in the tiers, where findReceipts finds them.
func (r *receipts) renew() {
	if r.since.Full() && !r.finding.Load() {
		r.old.Store(nil)
		r.begin()
	}
}

// may reports whether the log may have the receipt under k.
func (r *receipts) may(k []byte) bool {
	old := r.old.Load()
	return old == nil || r.since.Has(k) || old.Has(k)
}

// beginReceipts is called when all that the log has is in Pebble.
func (l *Log) beginReceipts() error {
	l.receipts.begin()
	it, err := l.receiptKeys()
	if err != nil {
		return err
	}
	defer it.Close()
	if !it.First() && it.Error() == nil {
		l.receipts.old.Store(store.NewFilter(0))
	}
	return it.Error()
}

// findReceipts makes receipts.old, in the background. It finds all receipts that are not in since:
// they were written in groups before. The caller has begun a read, which ends here. What cannot be
// read is left to those who look for a receipt.
//
// It misses none: those in the log when it starts are in Pebble after the drain, which comes
// before the iterator, and those that are written later are in since, which the leader does not
// begin anew while finding is set. Receipts that the iterator shows and that are removed
// meanwhile stay in the filter, which costs looks only.
func (l *Log) findReceipts() {
	defer l.readers.end()
	defer l.receipts.finding.Store(false)
	if err := l.drainHot(); err != nil {
		return
	}
	it, err := l.receiptKeys()
	if err != nil {
		return
	}
	defer it.Close()
	old := store.NewFilter(l.receipts.bytes)
	for ok := it.First(); ok; ok = it.Next() {
		if l.readers.closed.Load() {
			return
		}
		old.Add(it.Key())
	}
	if it.Error() == nil {
		l.receipts.old.Store(old)
	}
}

func (l *Log) receiptKeys() (*pebble.Iterator, error) {
	return l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{format.TagReceipt}, UpperBound: []byte{format.TagReceipt + 1}})
}

// receipt returns the receipt under k, nil if there is none. The first receiptLooks batches for
// which the filters do not answer look into Pebble, which has filters of its own; then
// it is worth reading all keys once.
func (t *tx) receipt(k []byte) ([]byte, error) {
	if !t.l.receipts.may(k) {
		if invariants.Enabled {
			v, err := t.read(k)
			invariants.Check(err != nil || v == nil, "the filters deny the receipt %q", k)
		}
		return nil, nil
	}
	if v, ok := t.hot(k); ok {
		return v, nil
	}
	if r := &t.l.receipts; r.old.Load() == nil {
		if r.cold++; r.cold == receiptLooks && t.l.readers.begin() {
			r.finding.Store(true)
			go t.l.findReceipts()
		}
	}
	return t.coldReceipt(k)
}

// coldReceipt reads the receipt under k from Pebble.
func (t *tx) coldReceipt(k []byte) ([]byte, error) {
	it, err := t.iter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if !it.SeekPrefixGE(k) || !bytes.Equal(it.Key(), k) { // as in coldSlotState
		return nil, it.Error()
	}
	v, err := it.ValueAndErr()
	return bytes.Clone(v), err
}

// duplicate answers a batch whose ID was committed before, in this run or in an earlier one. It
// comes before the conditions: they held the first time. The versions are copied, since each
// receipt belongs to its caller. The time of a receipt of this run is that of the tx; first's
// own is set in finish. If the run fails, both batches fail.
func (t *tx) duplicate(w *waiter) (bool, error) {
	if first := t.ids[w.batch.ID]; first != nil {
		w.receipt = first.receipt
		w.receipt.Time = time.Unix(0, t.time)
		w.receipt.Versions = append([]mainstem.Version(nil), first.receipt.Versions...)
		w.receipt.Duplicate = true
		return true, nil
	}
	t.key = format.AppendReceiptKey(t.key[:0], w.batch.ID)
	v, err := t.receipt(t.key)
	if err != nil || v == nil {
		return false, err
	}
	r, err := format.DecodeReceipt(v)
	if err != nil {
		return false, err
	}
	w.receipt = mainstem.Receipt{
		First: mainstem.Position(r.First), Last: mainstem.Position(r.Last),
		Time: time.Unix(0, r.Time), Versions: r.Versions, Duplicate: true,
	}
	return true, nil
}

// remember keeps the receipt of a batch with an ID, and an entry by time, by which the sweeper
// finds it when it may be forgotten. The filter gets the key before the receipt is in any tier;
// if the tx is thrown away, the key stays, which costs a look some day.
func (t *tx) remember(w *waiter) {
	r := format.Receipt{First: uint64(w.receipt.First), Last: uint64(w.receipt.Last), Time: t.time, Versions: w.receipt.Versions}
	t.key = format.AppendReceiptKey(t.key[:0], w.batch.ID)
	t.body = format.AppendReceipt(t.body[:0], &r)
	t.set(t.key, t.body)
	t.l.receipts.since.Add(t.key)
	t.key = format.AppendIDOrderKey(t.key[:0], t.Now, w.batch.ID)
	t.set(t.key, nil)
	if t.ids == nil {
		t.ids = map[string]*waiter{}
	}
	t.ids[w.batch.ID] = w
	t.l.hasIDs.Store(true)
}
