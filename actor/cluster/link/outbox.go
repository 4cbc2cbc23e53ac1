package link

import (
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// The sending half of a stream. Messages are encoded in place, behind each other, into segments
// from a pool. A message goes through these steps:
//
//  1. append (or place, which copies) writes it into the open frame, at the end of the last segment.
//  2. seal ends the open frame, when its segment is full or the writer takes it. Only now is it
//     known whether one of its messages is ExactlyOnce, so the frame gets its number here.
//  3. take gives up to maxBatch frames to the writer, which fills in their headers, in place, and
//     writes them. Meanwhile senders append to the same segment, behind them.
//  4. wrote: nothing waits for frames without a number.
//  5. ack: nothing waits for the numbered frames up to the acknowledged one.
//
// pop then removes such frames from the front. When a connection has failed, its writer calls stopped,
// and the next connection calls rewind with the number of the last frame that the peer received.
// The numbered frames after it are taken again. A frame without a number is never written twice.
//
// Invariant: head <= next <= len(frames), and busy is -1 or from head to next.
//
// Invariant: the frames before next were tried. From next on there are tried frames only after rewind.
//
// Invariant: the numbers in frames, without zeros, increase by one from frame to frame.
//
// Invariant: held is the size of the open frame and of frames from head on.
//
// frames is a queue. So a frame without a number that was written stays in it until the numbered
// frames before it are acknowledged. It counts until then, since its memory is in use: otherwise a
// peer that acknowledges nothing could make the queue grow beyond the window.

const (
	segmentSize = frame.HeaderSize + frame.MaxPayload // bytes; one frame may fill a segment
	minRoom     = 256                                 // bytes: with less left, a message begins another segment
	maxBatch    = 4                                   // frames that are written at once
)

// segment is memory for frames, one after another.
type segment struct {
	mem  [segmentSize]byte
	used int // bytes, with those of the open frame
	refs int // frames in it, and one more while it is the last of its outbox
}

var segments = sync.Pool{New: func() any { return new(segment) }}

// release drops one reference. The last one returns the segment to the pool.
func (s *segment) release() {
	if s.refs--; s.refs == 0 {
		s.used = 0
		segments.Put(s)
	}
}

// outFrame is a sealed frame: one that is to be written, or a numbered one that is not yet
// acknowledged.
type outFrame struct {
	seg      *segment
	from, to int    // in seg.mem, with the header
	number   uint64 // 0: no message in it is ExactlyOnce, and it is written at most once
	tried    bool   // it was given to the writer of a connection
}

// open is the frame that messages are appended to. It gets a number if one of its messages is
// ExactlyOnce; then all of them are delivered exactly once.
type open struct {
	from     int // index of its header in the last segment; -1: there is no open frame
	numbered bool
	entries  int
	lane     uint32 // of its last entry
}

// large is a message that was sent in parts, kept whole for leftovers until it is acknowledged.
type large struct {
	last uint64 // number of the frame with its last part
	body []byte
}

// outbox is the sending half of a stream: frames in the order of their messages. The first wait for
// acknowledgements, the others to be written. The stream's lock guards it, except that the bytes of
// frames belong to the writer between take and wrote or stopped.
type outbox struct {
	window int // bytes; while held is not below it, no message is accepted
	max    int // bytes of a message
	held   int // bytes pending, headers included

	frames []outFrame // a queue, which begins at head
	head   int        // index in frames
	next   int        // index in frames of the first that take has yet to return
	busy   int        // index in frames of the first that the writer has now; -1: it has none
	last   *segment   // where messages are appended; nil: there is none yet
	open   open       // in last
	larges []large    // by increasing last

	number uint64 // of the newest numbered frame
	sent   uint64 // highest number that any connection was given
	acked  uint64 // highest number that the peer has acknowledged; acked <= sent <= number

	messages uint64 // appended since the beginning
	resent   uint64 // frames that were given to a connection again
}

func newOutbox(window, maxMessage int) outbox {
	return outbox{window: window, max: maxMessage, busy: -1, open: open{from: -1}}
}

// full reports whether there is no credit.
func (o *outbox) full() bool { return o.held >= o.window }

// empty reports whether all messages have been written and, if numbered, acknowledged.
func (o *outbox) empty() bool { return o.head == len(o.frames) && o.open.entries == 0 }

// due reports whether there is something to write.
func (o *outbox) due() bool { return o.next < len(o.frames) || o.open.entries > 0 }

// append calls f to encode a message into the open frame. If the body does not fit into the rest of
// the segment, or is longer than max, append returns it: the caller then uses place, in parts if
// necessary, or refuses it.
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

// place copies a body of at most frame.MaxBody bytes into the open frame.
func (o *outbox) place(f frame.Flags, lane uint32, body []byte, numbered bool) {
	o.room(frame.EntrySize + len(body))
	flags, head := o.entry(lane)
	copy(o.last.mem[o.last.used+head:], body)
	o.commit(f|flags, lane, head, len(body), numbered)
	if f&(frame.More|frame.Void) == 0 {
		o.messages++
	}
}

// finishLarge keeps the whole body of a large message. It must follow the place of its last part
// without a seal in between: the open frame is the one that will have the next number.
func (o *outbox) finishLarge(body []byte) {
	o.larges = append(o.larges, large{o.number + 1, body})
}

// room makes sure that there is an open frame, and that n bytes can be appended to it.
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

// abandon drops an open frame without entries. The encoder of its first message has failed, or
// returned a body that did not fit.
func (o *outbox) abandon() {
	if o.open.from >= 0 {
		o.held -= frame.HeaderSize
		o.open = open{from: -1}
	}
}

// entry returns the flags and the size of the head of an entry of lane.
func (o *outbox) entry(lane uint32) (frame.Flags, int) {
	if o.open.entries > 0 && o.open.lane == lane {
		return frame.SameLane, frame.RepeatSize
	}
	return 0, frame.EntrySize
}

// commit writes the head of an entry whose body of n bytes is in place, and adds it to the open
// frame.
func (o *outbox) commit(f frame.Flags, lane uint32, head, n int, numbered bool) {
	frame.PutEntry(o.last.mem[o.last.used:], f, lane, n)
	o.last.used += head + n
	o.held += head + n
	o.open.entries++
	o.open.lane = lane
	o.open.numbered = o.open.numbered || numbered
}

// seal ends the open frame, if it has entries, and gives it its number.
func (o *outbox) seal() {
	if o.open.from < 0 || o.open.entries == 0 {
		return
	}
	f := outFrame{seg: o.last, from: o.open.from, to: o.last.used}
	if o.open.numbered {
		o.number++
		f.number = o.number
	}
	o.last.refs++
	o.frames = append(o.frames, f)
	o.open = open{from: -1}
}

// take appends the frames that are to be written next to batch, at most maxBatch. Their bytes
// belong to the writer until wrote or stopped. The open frame is sealed only when there are too few
// others, so that it goes on to fill while the writer is busy.
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

// wrote is called when the frames of the last take have been written.
func (o *outbox) wrote() {
	o.busy = -1
	o.pop()
}

// stopped is called when the writer of a connection ends. Frames that it may not have written
// completely are treated like written ones: those with a number wait for rewind.
func (o *outbox) stopped() { o.wrote() }

// ack is called when the peer has handled the numbered frames up to n. Acknowledgements may be
// repeated or late. It returns ErrProtocol if that frame was never sent.
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

// rewind makes the first frame after number taken the next to be written, for a new connection.
// taken is the last numbered frame that the peer has received. There must be no writer. It returns
// errOutdated if later frames have been acknowledged: another connection was made meanwhile.
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

// pop removes frames from the front: acknowledged ones, and ones without a number that were
// written. It stops at frames that belong to the writer.
func (o *outbox) pop() {
	limit := o.next
	if o.busy >= 0 {
		limit = o.busy
	}
	for o.head < limit {
		f := &o.frames[o.head]
		if f.number > o.acked {
			break
		}
		o.held -= f.to - f.from
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

// compact moves the queue to the front of its slice when it fills at most half of it, and reuses the
// last segment from its beginning when no frame is in it. It does nothing while the writer has
// frames, because busy is an index and their bytes are in use.
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

// trim releases the last segment and the queue if both are empty.
func (o *outbox) trim() {
	if o.last != nil && o.busy < 0 && len(o.frames) == 0 && o.open.from < 0 {
		o.last.release()
		o.last, o.frames = nil, nil
	}
}

// leftovers calls f with each message of a numbered frame that was not acknowledged, and of a frame
// without a number that was never tried. Then it empties the outbox. A body is valid until f
// returns. There must be no writer.
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

// messagesOf calls f with the messages of a frame. A large message belongs to the frame of its last
// part, and its body is in larges.
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
