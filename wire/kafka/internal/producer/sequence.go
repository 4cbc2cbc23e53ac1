package producer

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// windowSize is the number of the newest batches of a producer that a partition keeps. Kafka's
// clients have at most as many requests in flight.
const windowSize = 5

// sent is a batch that a producer has sent and that was stored.
type sent struct {
	lastSeq int32 // sequence number of the last record
	delta   int32 // number of records less one
	base    int64 // offset of the first record
	stamp   int64 // log append time in ms, or recordbatch.NoTimestamp
}

// producer is the state of one producer in a partition.
//
//	first = -1, bound = -1    no transaction is open in the partition
//	first = -1, bound ≥ 0     a commit is under way that may open one, at bound or above (hold)
//	first ≥ 0                 one is open since offset first: until its marker (end)
//
// mu is held while a batch or a marker of the producer is committed. The other fields are under the
// lock of the partition as well: to change one takes both, to read one takes either.
type producer struct {
	mu   sync.Mutex
	pid  int64 // the producer id
	refs int   // number of tickets that hold mu or wait for it; under the lock of the partition alone

	epoch  int16            // -1: nothing of it is stored yet, or it is unknown
	n      int              // number of batches in window
	window [windowSize]sent // its newest batches of the epoch, oldest first
	last   int64            // offset of the newest record or marker; -1: none
	first  int64            // first offset of the open transaction; -1: none is open
	bound  int64            // a lower bound of first while a commit may set it; else -1
	time   int64            // when its newest batch or marker was stored, or recovered, in ms since 1970
	dirty  bool             // it is in savedState.dirty
	vague  bool             // only a marker of it is known: any sequence number may follow
}

func newProducer(pid int64) *producer {
	return &producer{pid: pid, epoch: -1, last: -1, first: -1, bound: -1}
}

// header is the part of the header of a batch that concerns its producer.
type header struct {
	pid           int64
	epoch         int16
	seq           int32 // sequence number of the first record
	delta         int32 // number of records less one
	transactional bool
	control       bool // it is a marker
}

// Byte offsets in the header of a batch; see package recordbatch.
const (
	atLength     = 8
	atAttributes = 21
	atLastDelta  = 23
	atEpoch      = 51
	atSequence   = 53
	atRecords    = recordbatch.HeaderSize

	lengthPrefix   = 12
	transactionBit = 1 << 4
	controlBit     = 1 << 5
)

// headerOf decodes the header of a batch, which must have at least HeaderSize bytes. It does not
// verify the values.
func headerOf(b []byte) header {
	_ = b[recordbatch.HeaderSize-1]
	attributes := binary.BigEndian.Uint16(b[atAttributes:])
	return header{
		pid:           producerID(b),
		epoch:         int16(binary.BigEndian.Uint16(b[atEpoch:])),
		seq:           int32(binary.BigEndian.Uint32(b[atSequence:])),
		delta:         int32(binary.BigEndian.Uint32(b[atLastDelta:])),
		transactional: attributes&transactionBit != 0,
		control:       attributes&controlBit != 0,
	}
}

// advance returns the sequence number n after seq. The number after 2³¹-1 is 0.
func advance(seq, n int32) int32 { return int32((int64(seq) + int64(n)) & math.MaxInt32) }

// check returns the stored batch of which h is a duplicate, a refusal, or nil and nil if the batch
// may be stored.
func (e *producer) check(h *header) (*sent, *refusal) {
	if e.epoch < 0 {
		return nil, nil // any sequence number may follow after its state has expired: see KIP-360
	}
	if h.epoch < e.epoch {
		return nil, refuse(kerr.InvalidProducerEpoch, fmt.Sprintf("producer %d has epoch %d by now, the batch %d", e.pid, e.epoch, h.epoch))
	}
	want := int32(0)
	if h.epoch == e.epoch {
		last := advance(h.seq, h.delta)
		for i := e.n - 1; i >= 0; i-- {
			if s := &e.window[i]; s.lastSeq == last && s.delta == h.delta {
				return s, nil
			}
		}
		if e.n > 0 {
			want = advance(e.window[e.n-1].lastSeq, 1)
		} else if e.vague {
			return nil, nil
		}
	}
	if h.seq != want {
		return nil, refuse(kerr.OutOfOrderSequenceNumber, fmt.Sprintf("producer %d, epoch %d: sequence %d where %d is next", e.pid, h.epoch, h.seq, want))
	}
	if e.first >= 0 && !h.transactional {
		return nil, refuse(kerr.InvalidTxnState, fmt.Sprintf("producer %d has a transaction open in the partition: the batch is not part of one", e.pid))
	}
	return nil, nil
}

// apply updates e with a batch that was stored at offset base.
func (e *producer) apply(h *header, base, stamp int64) {
	e.turn(h.epoch)
	e.vague = false
	if e.n == windowSize {
		copy(e.window[:], e.window[1:])
		e.n--
	}
	e.window[e.n] = sent{lastSeq: advance(h.seq, h.delta), delta: h.delta, base: base, stamp: stamp}
	e.n++
	e.last = base + int64(h.delta)
	if h.transactional && e.first < 0 {
		e.first = base
	}
}

// turn begins epoch, if it is greater than that of e: the window is empty then.
func (e *producer) turn(epoch int16) {
	if epoch > e.epoch {
		e.epoch, e.n = epoch, 0
	}
}

// end updates e with a marker that was stored at offset at, and returns the first offset of the
// transaction that it ends, -1 if none was open.
func (e *producer) end(epoch int16, at int64) (first int64) {
	if e.epoch < 0 {
		e.vague = true
	}
	e.turn(epoch)
	first, e.first, e.last = e.first, -1, at
	return first
}
