package link

import (
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

const (
	segmentSize = frame.HeaderSize + frame.MaxPayload // one frame may fill a segment
	minRoom     = 256                                 // bytes of a segment that are worth encoding into
	maxBatch    = 4                                   // frames that are written at once
)

// segment is memory for frames, one after another.
type segment struct {
	mem  [segmentSize]byte
	used int
	refs int // frames in it, and one more while it is the last of its outbox
}

var segments = sync.Pool{New: func() any { return new(segment) }}

// release gives up one reference.
func (s *segment) release() {
	if s.refs--; s.refs == 0 {
		s.used = 0
		segments.Put(s)
	}
}

// outFrame is a frame on its way: it is from written on until it is acknowledged, if
// it has a number.
type outFrame struct {
	seg      *segment
	from, to int    // in seg.mem, with the header
	number   uint64 // 0: it is forgotten when it has been written
	tried    bool   // it has been given to a connection
	counted  bool   // its bytes are in outbox.held
}

// open is the frame that messages are appended to. It has a number if one of
// its messages must arrive; the others go along with it.
type open struct {
	from     int // its header, in the last segment; -1: there is no frame
	numbered bool
	entries  int
	lane     uint32 // of its last entry
}

// large is a message that went out in parts, kept whole for leftovers.
type large struct {
	last uint64 // number of the frame with its last part
	body []byte
}

// outbox is the sending half of a stream: frames in the order in which they were
// filled, the first of which are waiting for their acknowledgement, the others to be
// written. Invariant: frames before next have been tried; numbers grow by one
// from frame to frame, not counting those without. The stream's lock guards it, but the
// bytes of frames between take and wrote belong to the writer.
type outbox struct {
	window int // bytes that may wait
	max    int // bytes of a message
	held   int // bytes that wait

	frames []outFrame // frames[head:] are there
	head   int
	next   int // index in frames of the first that was not given to the connection
	busy   int // index of the first that the writer has now; -1: it has none
	last   *segment
	open   open
	larges []large

	number uint64 // of the newest frame that has one
	sent   uint64 // highest number that any connection was given
	acked  uint64

	messages uint64 // appended since the beginning
	resent   uint64 // frames
}

func newOutbox(window, maxMessage int) outbox {
	return outbox{window: window, max: maxMessage, busy: -1, open: open{from: -1}}
}

func (o *outbox) full() bool { return o.held >= o.window }

// empty reports whether everything has been written and acknowledged.
func (o *outbox) empty() bool { return o.head == len(o.frames) && o.open.entries == 0 }

// due reports whether there is something to write.
func (o *outbox) due() bool { return o.next < len(o.frames) || o.open.entries > 0 }

// append lets f append a message behind all others. If the body does not fit it
// returns it, to be put in with place or in parts.
func (o *outbox) append(lane uint32, m Mode, f func([]byte) ([]byte, error)) (spilled []byte, fits bool, err error) {
	o.room(minRoom)
	flags, head := o.entry(lane)
	at := o.last.used + head
	dst := o.last.mem[at:at:segmentSize]
	body, err := f(dst)
	if err != nil {
		return nil, false, err
	}
	if len(body) > min(cap(dst), o.max) || len(body) > 0 && &body[0] != &dst[:1][0] {
		return body, false, nil
	}
	o.commit(flags, lane, head, len(body), m == ExactlyOnce)
	o.messages++
	return nil, true, nil
}

// place copies a body of at most frame.MaxBody bytes in behind all others.
func (o *outbox) place(f frame.Flags, lane uint32, body []byte, numbered bool) {
	o.room(frame.EntrySize + len(body))
	flags, head := o.entry(lane)
	copy(o.last.mem[o.last.used+head:], body)
	o.commit(f|flags, lane, head, len(body), numbered)
	if f&(frame.More|frame.Void) == 0 {
		o.messages++
	}
}

// finishLarge keeps the whole of the message whose last part was placed last.
func (o *outbox) finishLarge(body []byte) {
	o.larges = append(o.larges, large{o.number + 1, body})
}

// room makes sure that there is an open frame with n bytes left.
func (o *outbox) room(n int) {
	if o.last != nil && segmentSize-o.last.used < n+frame.HeaderSize {
		o.seal()
		o.abandon()
		o.last.release()
		o.last = nil
	}
	if o.last == nil {
		o.last = segments.Get().(*segment)
		o.last.refs = 1
	}
	if o.open.from < 0 {
		o.open = open{from: o.last.used}
		o.last.used += frame.HeaderSize
		o.held += frame.HeaderSize
	}
}

// abandon drops the open frame when it has no entries.
func (o *outbox) abandon() {
	if o.open.from >= 0 {
		o.held -= frame.HeaderSize
		o.open = open{from: -1}
	}
}

// entry returns how a message of lane begins, and the size of that.
func (o *outbox) entry(lane uint32) (frame.Flags, int) {
	if o.open.entries > 0 && o.open.lane == lane {
		return frame.SameLane, frame.RepeatSize
	}
	return 0, frame.EntrySize
}

func (o *outbox) commit(f frame.Flags, lane uint32, head, n int, numbered bool) {
	frame.PutEntry(o.last.mem[o.last.used:], f, lane, n)
	o.last.used += head + n
	o.held += head + n
	o.open.entries++
	o.open.lane = lane
	o.open.numbered = o.open.numbered || numbered
}

// seal ends the open frame, if it has entries.
func (o *outbox) seal() {
	if o.open.from < 0 || o.open.entries == 0 {
		return
	}
	f := outFrame{seg: o.last, from: o.open.from, to: o.last.used, counted: true}
	if o.open.numbered {
		o.number++
		f.number = o.number
	}
	o.last.refs++
	o.frames = append(o.frames, f)
	o.open = open{from: -1}
}

// take appends the frames that are to be written next to batch. They belong to the
// writer until wrote, or stopped.
func (o *outbox) take(batch []outFrame) []outFrame {
	if o.next+maxBatch > len(o.frames) {
		o.seal()
	}
	o.busy = o.next
	for o.next < len(o.frames) && len(batch) < maxBatch {
		f := &o.frames[o.next]
		o.next++
		if f.tried && f.number == 0 {
			continue
		}
		if f.tried {
			o.resent++
		}
		f.tried = true
		o.sent = max(o.sent, f.number)
		batch = append(batch, *f)
	}
	return batch
}

// wrote says that what was taken has been written.
func (o *outbox) wrote() { o.forgetTried(o.busy) }

// stopped says that the connection, and its writer, are gone.
func (o *outbox) stopped() { o.forgetTried(o.head) }

// forgetTried forgets tried frames without a number from index on, and what can be popped.
func (o *outbox) forgetTried(from int) {
	o.busy = -1
	for i := max(from, o.head); i < o.next; i++ {
		if f := &o.frames[i]; f.number == 0 {
			o.discount(f)
		}
	}
	o.pop()
}

// ack says that the peer has handled the frames up to a number.
func (o *outbox) ack(n uint64) error {
	if n > o.sent {
		return fmt.Errorf("%w: it acknowledges frame %d, %d have been sent", ErrProtocol, n, o.sent)
	}
	if n > o.acked {
		o.acked = n
		o.pop()
	}
	return nil
}

// rewind makes the frames after number taken, which is the last that the peer has, the
// next to be written.
func (o *outbox) rewind(taken uint64) error {
	if taken > o.sent {
		return fmt.Errorf("%w: it has frame %d, %d have been sent", ErrProtocol, taken, o.sent)
	}
	if taken < o.acked {
		return fmt.Errorf("%w: it has frame %d, and acknowledged %d", errOutdated, taken, o.acked)
	}
	for i := o.head; i < o.next; i++ {
		if o.frames[i].number > taken {
			o.next = i
			break
		}
	}
	return nil
}

// pop forgets the frames at the front that nobody needs any more.
func (o *outbox) pop() {
	limit := o.next
	if o.busy >= 0 {
		limit = o.busy
	}
	for o.head < limit {
		f := &o.frames[o.head]
		if f.number > o.acked || f.number == 0 && f.counted {
			break
		}
		o.discount(f)
		f.seg.release()
		*f = outFrame{}
		o.head++
	}
	for len(o.larges) > 0 && o.larges[0].last <= o.acked {
		o.larges[0] = large{}
		o.larges = o.larges[1:]
	}
	o.compact()
}

// compact moves the frames to the front of the slice when that is cheap, and starts the
// last segment anew when nothing is in it.
func (o *outbox) compact() {
	if o.busy >= 0 {
		return
	}
	if o.head == len(o.frames) || o.head >= 64 && o.head >= len(o.frames)/2 {
		n := copy(o.frames, o.frames[o.head:])
		clear(o.frames[n:])
		o.frames = o.frames[:n]
		o.next -= o.head
		o.head = 0
	}
	if len(o.frames) == 0 && o.last != nil && o.open.from < 0 {
		o.last.used = 0
	}
}

func (o *outbox) discount(f *outFrame) {
	if f.counted {
		f.counted = false
		o.held -= f.to - f.from
	}
}

// trim gives memory back that is not needed while there is nothing to send.
func (o *outbox) trim() {
	if o.last != nil && o.busy < 0 && len(o.frames) == 0 && o.open.from < 0 {
		o.last.release()
		o.last, o.frames = nil, nil
	}
}

// leftovers calls f with each message that was not acknowledged, and empties the outbox.
func (o *outbox) leftovers(f func(body []byte)) {
	o.seal()
	for _, out := range o.frames[o.head:] {
		if out.number > o.acked || out.number == 0 && !out.tried {
			o.messagesOf(out, f)
		}
		out.seg.release()
	}
	if o.last != nil {
		o.last.release()
	}
	*o = newOutbox(o.window, o.max)
}

func (o *outbox) messagesOf(out outFrame, f func(body []byte)) {
	entries := frame.ParseEntries(out.seg.mem[out.from+frame.HeaderSize : out.to])
	for {
		e, ok := entries.Next()
		switch {
		case !ok:
			return
		case e.Flags&frame.Part == 0:
			f(e.Body)
		case e.Flags&(frame.More|frame.Void) == 0 && len(o.larges) > 0:
			f(o.larges[0].body)
			o.larges = o.larges[1:]
		}
	}
}
