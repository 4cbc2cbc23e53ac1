package producer

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Append is one record batch of a produce request, and what became of it.
type Append struct {
	Topic     *topic.Topic
	Partition int32
	Batch     []byte // borrowed until the call returns

	Code    int16     // 0, or the error code for the partition
	Message string    // why, for people
	Base    int64     // offset of the first record; of a duplicate, that of the original
	Time    time.Time // the log append time given to the records; zero if they keep their own
	Start   int64     // where the partition begins
}

// AppendOptions say how the batches of one request are to be appended.
type AppendOptions struct {
	// TransactionalID is what the request says; nil outside of transactions.
	TransactionalID *string
	// Implicit lets a transactional batch add its partition to the transaction, and
	// begin one: for requests of version 12 and later (KIP-890).
	Implicit bool
	// Durability is what the batches have reached when Append returns.
	Durability mainstem.Durability
}

// maxCommitBytes bounds the batches of one commit, well below the limit of a log.
const maxCommitBytes = 32 << 20

// Append stores the batches of one produce request in one commit (in several if
// they have more than maxCommitBytes), those of them that may be stored: each
// learns its own fate. Requests of one connection have to be given one after the
// other, or batches of a producer may look out of order.
func (m *Manager) Append(ctx context.Context, o AppendOptions, appends []Append) {
	for i := range appends {
		appends[i].begin()
	}
	for len(appends) > 0 {
		n, bytes := 0, 0
		for n < len(appends) && (n == 0 || bytes+len(appends[n].Batch) <= maxCommitBytes) {
			bytes += len(appends[n].Batch)
			n++
		}
		if plain(appends[:n]) {
			m.appendPlain(ctx, &o, appends[:n])
		} else {
			m.appendTracked(ctx, &o, appends[:n])
		}
		appends = appends[n:]
	}
}

// plain reports whether no batch has a producer id.
func plain(appends []Append) bool {
	for i := range appends {
		if b := appends[i].Batch; len(b) >= recordbatch.HeaderSize && producerID(b) >= 0 {
			return false
		}
	}
	return true
}

// atProducerID is where a batch says who sent it.
const atProducerID = 43

func producerID(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch[atProducerID:])) }

// work is the memory of one append.
type work struct {
	batch mainstem.Batch
	slots []partition.Slot
}

var works = sync.Pool{New: func() any { return new(work) }}

func (w *work) free() {
	w.batch.Reset()
	clear(w.slots)
	w.slots = w.slots[:0]
	works.Put(w)
}

// appendPlain stores batches without a producer id: nothing is looked up, nothing
// is locked, and nothing but the batches is written.
func (m *Manager) appendPlain(ctx context.Context, o *AppendOptions, appends []Append) {
	w := works.Get().(*work)
	defer w.free()
	for {
		w.batch.Reset()
		w.batch.Durability = o.Durability
		w.slots = w.slots[:0]
		for i := range appends {
			var slot partition.Slot
			if a := &appends[i]; a.Code == 0 {
				var err error
				if slot, err = a.appendTo(ctx, &w.batch); err != nil {
					a.fail(err)
				}
			}
			w.slots = append(w.slots, slot)
		}
		if w.batch.Len() == 0 {
			return
		}
		r, err := m.log.Commit(ctx, &w.batch)
		if err == nil {
			for i := range appends {
				if appends[i].Code == 0 {
					appends[i].stored(w.slots[i].In(r))
				}
			}
			return
		}
		if !failGone(appends, err) {
			failAll(appends, err)
			return
		}
	}
}

// appendTo puts the batch into b, or leaves b as it was.
func (a *Append) appendTo(ctx context.Context, b *mainstem.Batch) (partition.Slot, error) {
	p, err := a.Topic.Partition(a.Partition)
	if err != nil {
		return partition.Slot{}, err
	}
	return p.AppendTo(ctx, b, a.Batch)
}

// begin clears what a caller may have left in the answer.
func (a *Append) begin() {
	a.Code, a.Message, a.Base, a.Time, a.Start = 0, "", -1, time.Time{}, -1
}

func (a *Append) fail(err error) {
	a.Code, a.Message = codeOf(err).Code, err.Error()
}

func (a *Append) stored(at partition.Appended) {
	a.Base, a.Time = at.Base, at.Time
}

// failGone fails the appends to the topic of which the log says, by the error of a
// commit, that it is not there. It reports whether there were any: the others may
// be tried again.
func failGone(appends []Append, err error) bool {
	space := goneSpace(err)
	found := false
	for i := range appends {
		if a := &appends[i]; space != "" && a.Code == 0 && topic.Space(a.Topic.Name()) == space {
			a.fail(err)
			found = true
		}
	}
	return found
}

// goneSpace returns the space of which err says that it does not exist, or "".
func goneSpace(err error) string {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindNotFound && e.Outcome == mainstem.NotWritten && e.Key == nil {
		return e.Space
	}
	return ""
}

func failAll(appends []Append, err error) {
	for i := range appends {
		if appends[i].Code == 0 {
			appends[i].fail(err)
		}
	}
}
