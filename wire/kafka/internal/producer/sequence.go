package producer

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// windowSize is how many of the newest batches of a producer a partition
// remembers: as many as a client may have under way.
const windowSize = 5

// sent is a batch that a producer has sent.
type sent struct {
	lastSeq int32 // sequence number of the last record
	delta   int32 // offsets, and sequence numbers, less one
	base    int64
	stamp   int64 // log append time in ms, or recordbatch.NoTimestamp
}

// producer is the state of one producer in a partition.
//
// Its lock is held while a batch of the producer is being committed. The other
// fields are under the lock of the partition as well: to change one takes both, to
// read one takes either.
type producer struct {
	mu   sync.Mutex
	pid  int64
	refs int // tickets that hold or want mu; under the partition's lock alone

	epoch  int16 // -1: nothing is known
	n      int   // batches in window
	window [windowSize]sent
	last   int64 // offset of the newest record or marker, -1 if none
	first  int64 // first offset of the open transaction, -1 if there is none
	bound  int64 // while first may be set: the least it can become; else -1
	time   int64 // ms: when it was last heard of
	dirty  bool  // it is in savedState.dirty
	vague  bool  // a marker is all that was found of it: any sequence number may follow
}

func newProducer(pid int64) *producer {
	return &producer{pid: pid, epoch: -1, last: -1, first: -1, bound: -1}
}

// header is what the header of a batch says about its producer.
type header struct {
	pid           int64
	epoch         int16
	seq           int32
	delta         int32
	transactional bool
	control       bool
}

// Places in the header of a batch; see package recordbatch.
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

// headerOf reads the header of a batch of at least HeaderSize bytes. It checks nothing.
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

// advance returns the sequence number n after seq: after the greatest comes 0.
func advance(seq, n int32) int32 { return int32((int64(seq) + int64(n)) & math.MaxInt32) }

// check decides about a batch: it is a duplicate of the one returned, it may
// follow (nil, nil), or it is refused.
func (e *producer) check(h *header) (*sent, *refusal) {
	if e.epoch < 0 {
		return nil, nil // unknown, or known no more: see KIP-360
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

// apply takes over a batch that was stored at offset base.
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

// turn begins an epoch, if it is a new one.
func (e *producer) turn(epoch int16) {
	if epoch > e.epoch {
		e.epoch, e.n = epoch, 0
	}
}

// end takes over a marker at offset at, and returns the first offset of the
// transaction that it ends, -1 if there was none.
func (e *producer) end(epoch int16, at int64) (first int64) {
	if e.epoch < 0 {
		e.vague = true
	}
	e.turn(epoch)
	first, e.first, e.last = e.first, -1, at
	return first
}
