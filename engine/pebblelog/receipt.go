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

// receipts answers for most new batch IDs that the log has no receipt, so that the commit need
// not look for one. It starts when the log is opened, and again whenever since is full.
// Invariant: since has the key of every receipt written after the last start; old, if it is set,
// has the keys of all others. Keys of expired receipts may be in both.
//
// A batch ID is new if neither filter has its key. A filter has every key that was added, so a
// duplicate is never taken for new. It may also have a key by chance, or that of an expired
// receipt; then the tiers are read, and decide.
//
// A receipt is written in the frame of its batch. So after a crash either both are there, and
// the batch, if committed again, gets the receipt; or neither is, and the batch is written. For
// two batches with one ID in one run see tx.ids: the receipt of the first one is not stored yet.
type receipts struct {
	bytes   int           // size of the largest part of each filter, in bytes
	since   *store.Filter // of the leader only
	cold    int           // lookups in Pebble while old is not set; of the leader only
	finding atomic.Bool   // findReceipts runs; the leader sets it, and does not call renew meanwhile
	// old is nil until all receipts that are not in since were found: meanwhile every ID must be
	// looked up. findReceipts stores the filter when it is complete, and does not change it
	// afterwards.
	old atomic.Pointer[store.Filter]
}

const (
	receiptBytes = writtenBytes
	receiptLooks = 256 // lookups in Pebble after which old is built, which reads the keys of all receipts
)

func (r *receipts) begin() { r.since, r.cold = store.NewFilter(r.bytes), 0 }

// renew starts again if since is full. The leader calls it before a group: all earlier receipts
// are in the tiers then, where findReceipts finds them.
func (r *receipts) renew() {
	if r.since.Full() && !r.finding.Load() {
		r.old.Store(nil)
		r.begin()
	}
}

// may reports whether the log may have a receipt under k.
func (r *receipts) may(k []byte) bool {
	old := r.old.Load()
	return old == nil || r.since.Has(k) || old.Has(k)
}

// beginReceipts is called by Open when Pebble has all frames.
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

// findReceipts builds receipts.old in the background, from all receipts that are not in since.
// The caller has begun a read, which findReceipts ends. After an error old stays unset, and each
// batch ID is looked up in the tiers.
//
// It misses no receipt. Those in the log when it starts are in Pebble after the drain, which
// precedes the iterator. Those written later are in since, which the leader does not renew while
// finding is set. Receipts that are removed after the iterator was made stay in the filter; they
// only cost lookups.
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

// receipt returns the receipt under k, or nil if there is none. After receiptLooks lookups in
// Pebble that the filters could not avoid, it starts findReceipts, which reads all keys once.
// Until then Pebble's own filters avoid most reads.
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
// is called before the conditions are tested, since they held the first time. The versions are
// copied, because each receipt belongs to its caller. A receipt of this run gets the time of the
// tx, since the receipt of the first batch has no time before finish. If the run fails, both
// batches fail.
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

// remember writes the receipt of a batch with an ID, and an index entry by time, by which the
// sweeper finds the receipt when it expires. The filter gets the key before the receipt is in
// any tier. If the tx is abandoned, the key stays in the filter and may cost a lookup.
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
