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

// Append is one record batch of a produce request, and its answer, which [Manager.Append] fills in.
type Append struct {
	Topic     *topic.Topic
	Partition int32
	Batch     []byte // borrowed until Manager.Append returns, which does not change it

	Code    int16     // 0, or the error code for the partition
	Message string    // the error in words; "" if Code is 0
	Base    int64     // offset of the first record; of a duplicate, that of the original; -1 after an error
	Time    time.Time // the log append time of the records; zero if they keep their own
	Start   int64     // of the partition, see [topic.Topic.KnownStart]; -1 with a Code
}

// AppendOptions are the options of the batches of one request.
type AppendOptions struct {
	// TransactionalID is that of the request; nil outside of transactions.
	TransactionalID *string
	// Implicit lets a transactional batch add its partition to the transaction, and
	// begin one: for requests of version 12 and later (KIP-890).
	Implicit bool
	// Durability is that of the batches when Append returns. Default: that of the log.
	Durability mainstem.Durability
}

// maxCommitBytes bounds the batches of one commit, well below the limit of a log.
const maxCommitBytes = 32 << 20

// Append stores the batches of one produce request, in one commit, or in several if they have more
// than maxCommitBytes. Each batch has its own error code: one that is refused does not keep the
// others from being stored. When it returns, the batches without an error have
// AppendOptions.Durability. After an unknown outcome the code is KAFKA_STORAGE_ERROR, and a client
// with a producer id may send the batch again.
//
// It may be called from several goroutines, but requests of one connection must be given one after
// the other: else batches of a producer are out of order.
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
		for i := range appends[:n] {
			if a := &appends[i]; a.Code == 0 {
				a.Start = a.Topic.KnownStart(a.Partition)
			}
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

// atProducerID is the byte offset of the producer id in a batch.
const atProducerID = 43

func producerID(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch[atProducerID:])) }

// work is the memory of one call of appendPlain; works keeps it for the next.
type work struct {
	batch mainstem.Batch
	slots []partition.Slot // one for each append, in the same order
}

var works = sync.Pool{New: func() any { return new(work) }}

func (w *work) free() {
	w.batch.Reset()
	clear(w.slots)
	w.slots = w.slots[:0]
	works.Put(w)
}

// appendPlain stores batches without a producer id. It locks nothing and writes only the batches.
// If a topic was deleted meanwhile, its batches fail and the others are committed again.
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

// appendTo adds the batch to b. After an error b is unchanged.
func (a *Append) appendTo(ctx context.Context, b *mainstem.Batch) (partition.Slot, error) {
	p, err := a.Topic.Partition(a.Partition)
	if err != nil {
		return partition.Slot{}, err
	}
	return p.AppendTo(ctx, b, a.Batch)
}

// begin clears the answer.
func (a *Append) begin() {
	a.Code, a.Message, a.Base, a.Time, a.Start = 0, "", -1, time.Time{}, -1
}

func (a *Append) fail(err error) {
	a.Code, a.Message = codeOf(err).Code, err.Error()
}

func (a *Append) stored(at partition.Appended) {
	a.Base, a.Time = at.Base, at.Time
}

// failGone fails the appends to the topic of which err, the error of a commit, says that it does
// not exist. It reports whether there were any: the others may be committed again.
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

// goneSpace returns the space of which err, the error of a commit, says that it does not exist, or
// "".
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
