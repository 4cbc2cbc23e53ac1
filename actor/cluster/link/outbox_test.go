package link

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// sentMessage is a message as the model knows it.
type sentMessage struct {
	id   uint32
	mode Mode
}

// wire is an outbox, a receiver of its frames, and a model of both.
type wire struct {
	out   outbox
	next  uint32        // id of the next message
	sent  []sentMessage // in order
	got   []uint32      // ids, in order
	taken uint64        // by the receiver, in numbered frames
	way   []outFrame    // taken from the outbox, not written yet
}

func (w *wire) send(t *rapid.T, mode Mode, size int) {
	id := w.next
	w.next++
	body := make([]byte, 4+size)
	binary.BigEndian.PutUint32(body, id)
	for i := range body[4:] {
		body[4+i] = byte(id) + byte(i)
	}
	spilled, fits, err := w.out.append(id%3, mode, func(dst []byte) ([]byte, error) { return append(dst, body...), nil })
	if err != nil {
		t.Fatal(err)
	}
	if !fits {
		if !slices.Equal(spilled, body) {
			t.Fatalf("the message that did not fit is another")
		}
		if len(spilled) <= frame.MaxBody {
			w.out.place(0, id%3, spilled, mode == ExactlyOnce)
		} else {
			mode = ExactlyOnce // what goes in parts is always kept
			for rest := spilled; len(rest) > 0; {
				part := rest[:min(len(rest), frame.MaxBody)]
				if rest = rest[len(part):]; len(rest) > 0 {
					w.out.place(frame.Part|frame.More, id%3, part, true)
				} else {
					w.out.place(frame.Part, id%3, part, true)
				}
			}
			w.out.finishLarge(spilled)
		}
	}
	w.sent = append(w.sent, sentMessage{id, mode})
}

// receive is what the other end does with a frame.
func (w *wire) receive(t *rapid.T, f outFrame, p *parts) {
	if f.number != 0 && f.number <= w.taken {
		return
	}
	if f.number > w.taken+1 {
		t.Fatalf("frame %d follows %d", f.number, w.taken)
	}
	if f.number != 0 {
		w.taken = f.number
	}
	entries := frame.ParseEntries(f.seg.mem[f.from+frame.HeaderSize : f.to])
	for {
		e, ok := entries.Next()
		if !ok {
			break
		}
		body := e.Body
		if e.Flags&frame.Part != 0 {
			whole, done, err := p.add(e, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if !done {
				continue
			}
			body = whole
		}
		w.got = append(w.got, checkedID(t, body, e.Lane))
	}
	if err := entries.Err(); err != nil {
		t.Fatal(err)
	}
}

// checkedID returns the id of a message, all of whose bytes must be right.
func checkedID(t *rapid.T, body []byte, lane uint32) uint32 {
	id := binary.BigEndian.Uint32(body)
	for i, b := range body[4:] {
		if b != byte(id)+byte(i) {
			t.Fatalf("message %d has other bytes than were sent", id)
		}
	}
	if lane != id%3 {
		t.Fatalf("message %d came on lane %d", id, lane)
	}
	return id
}

// check compares what was received with what was sent: in order, no message twice, none
// that must arrive missing before one that did arrive.
func (w *wire) check(t *rapid.T, all bool) {
	i := 0
	for _, m := range w.sent {
		if i < len(w.got) && w.got[i] == m.id {
			i++
		} else if m.mode == ExactlyOnce && (all || i < len(w.got)) {
			t.Fatalf("message %d is missing: received %v", m.id, w.got)
		}
	}
	if i < len(w.got) {
		t.Fatalf("message %d came twice or too late: received %v", w.got[i], w.got)
	}
}

// TestOutboxModel runs an outbox against a receiver that loses connections.
func TestOutboxModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &wire{out: newOutbox(1<<20, 1<<20)}
		var theirs parts
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				w.send(t, Mode(rapid.IntRange(0, 1).Draw(t, "mode")), rapid.SampledFrom([]int{0, 7, 42, 300, 9_000, 40_000}).Draw(t, "size"))
			},
			"sendLarge": func(t *rapid.T) {
				w.send(t, ExactlyOnce, rapid.IntRange(frame.MaxBody-8, 3*frame.MaxBody).Draw(t, "size"))
			},
			"take": func(t *rapid.T) {
				if len(w.way) == 0 && w.out.due() {
					w.way = w.out.take(nil)
				}
			},
			"arrive": func(t *rapid.T) { // all of it
				for _, f := range w.way {
					w.receive(t, f, &theirs)
				}
				if w.way != nil {
					w.way = nil
					w.out.wrote()
				}
			},
			"ack": func(t *rapid.T) {
				if err := w.out.ack(rapid.Uint64Range(0, w.taken).Draw(t, "ack")); err != nil {
					t.Fatal(err)
				}
			},
			"break": func(t *rapid.T) { // some arrives, then the receiver says what it has, then it takes what it had read
				arrived := rapid.IntRange(0, len(w.way)).Draw(t, "arrived")
				for _, f := range w.way[:arrived] {
					w.receive(t, f, &theirs)
				}
				stated := w.taken
				for _, f := range w.way[arrived : arrived+rapid.IntRange(0, len(w.way)-arrived).Draw(t, "late")] {
					w.receive(t, f, &theirs)
				}
				w.way = nil
				w.out.stopped()
				if err := w.out.rewind(stated); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				w.check(t, false)
				if held := w.pending(); w.out.held != held {
					t.Fatalf("%d bytes are counted, %d are pending", w.out.held, held)
				}
				if w.out.held < 0 || w.out.head > w.out.next || w.out.next > len(w.out.frames) {
					t.Fatalf("held %d, head %d, next %d of %d", w.out.held, w.out.head, w.out.next, len(w.out.frames))
				}
			},
		})
		w.finish(t, &theirs)
	})
}

// pending returns the bytes of the frames in the queue and of the open one.
func (w *wire) pending() int {
	n := 0
	for _, f := range w.out.frames[w.out.head:] {
		n += f.to - f.from
	}
	if w.out.open.from >= 0 {
		n += w.out.last.used - w.out.open.from
	}
	return n
}

// finish ends a run: either all arrives, or all that did not is left over.
func (w *wire) finish(t *rapid.T, theirs *parts) {
	if rapid.Bool().Draw(t, "dies") {
		w.out.stopped()
		w.checkLeftovers(t)
		return
	}
	w.out.stopped()
	if err := w.out.rewind(w.taken); err != nil {
		t.Fatal(err)
	}
	for w.out.due() {
		for _, f := range w.out.take(nil) {
			w.receive(t, f, theirs)
		}
		w.out.wrote()
	}
	w.check(t, true)
	if err := w.out.ack(w.taken); err != nil {
		t.Fatal(err)
	}
	if !w.out.empty() || w.out.held > frame.HeaderSize || len(w.out.larges) > 0 {
		t.Fatalf("all is acknowledged, but %d bytes in %d frames are held, %d large", w.out.held, len(w.out.frames)-w.out.head, len(w.out.larges))
	}
}

// checkLeftovers checks that each message that must arrive was received, or is left over.
func (w *wire) checkLeftovers(t *rapid.T) {
	left := make(map[uint32]bool)
	w.out.leftovers(func(body []byte) { left[checkedID(t, body, binary.BigEndian.Uint32(body)%3)] = true })
	for _, m := range w.sent {
		if m.mode == ExactlyOnce && !left[m.id] && !slices.Contains(w.got, m.id) {
			t.Fatalf("message %d is lost: received %v, left over %v", m.id, w.got, left)
		}
	}
}

func TestOutboxRefusesWhatIsNotTrue(t *testing.T) {
	o := newOutbox(1<<20, 1<<20)
	for range 2 {
		o.place(0, 1, []byte("x"), true)
		o.take(nil)
		o.wrote()
	}
	if err := o.ack(3); err == nil {
		t.Error("frame 3 of 2 was acknowledged")
	}
	if err := o.ack(1); err != nil {
		t.Error(err)
	}
	if err := o.rewind(0); err == nil {
		t.Error("it went back before what was acknowledged")
	}
	if err := o.rewind(9); err == nil {
		t.Error("it went on after what was sent")
	}
	if err := o.rewind(1); err != nil || !o.due() {
		t.Errorf("it does not go back to what was not taken: %v", err)
	}
}

// TestSegmentsStayWithTheWriter: an acknowledgement that comes while frames are being
// written does not free their memory.
func TestSegmentsStayWithTheWriter(t *testing.T) {
	o := newOutbox(1<<20, 1<<20)
	o.place(0, 1, make([]byte, frame.MaxBody), true)
	batch := o.take(nil)
	o.place(0, 1, []byte("in another segment"), true)
	seg := batch[0].seg
	if seg == o.last {
		t.Fatal("the second message is in the segment of the first")
	}
	if err := o.ack(1); err != nil {
		t.Fatal(err)
	}
	if seg.refs == 0 {
		t.Error("the segment is free while it is being written")
	}
	o.wrote()
	if seg.refs != 0 || len(o.frames) != 0 {
		t.Errorf("the frame is kept after it was written and acknowledged: %d references, %v", seg.refs, o.frames)
	}
}

// TestWrittenFramesCountWhileTheyAreKept: behind a numbered frame that the peer does not
// acknowledge, frames without a number stay in memory, so they take credit.
func TestWrittenFramesCountWhileTheyAreKept(t *testing.T) {
	const window = 1 << 20
	o := newOutbox(window, 1<<20)
	o.place(0, 1, []byte("x"), true)
	body := make([]byte, 1000)
	n := 0
	for ; !o.full() && n < 10*window/len(body); n++ {
		o.place(0, 1, body, false)
		o.take(nil)
		o.wrote()
	}
	if most := window/len(body) + 1; n > most {
		t.Errorf("%d messages were taken, want at most %d", n, most)
	}
	if err := o.ack(1); err != nil {
		t.Fatal(err)
	}
	if o.full() || !o.empty() || o.held != 0 {
		t.Errorf("all is written and acknowledged, but %d bytes are held in %d frames", o.held, len(o.frames)-o.head)
	}
}

// TestLargeBuffersAreNotKept checks that a stream without a large message under way keeps at most
// keptParts bytes for the next.
func TestLargeBuffersAreNotKept(t *testing.T) {
	part := make([]byte, frame.MaxBody)
	for name, last := range map[string]frame.Flags{"whole": frame.Part, "void": frame.Part | frame.Void} {
		var p parts
		for len(p.body) <= keptParts {
			if _, _, err := p.add(frame.Entry{Flags: frame.Part | frame.More, Body: part}, 4*keptParts); err != nil {
				t.Fatal(err)
			}
		}
		want := len(p.body) + len(part)
		body, whole, err := p.add(frame.Entry{Flags: last, Body: part}, 4*keptParts)
		if err != nil || last == frame.Part && (!whole || len(body) != want) {
			t.Errorf("%s: %d bytes, %v, %v", name, len(body), whole, err)
		}
		if cap(p.body) > keptParts {
			t.Errorf("%s: %d bytes are kept", name, cap(p.body))
		}
	}
}
