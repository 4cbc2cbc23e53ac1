package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// replay is a state, and what is known of frames that are incomplete: what reading the
// stream from its beginning leads to.
type replay struct {
	st      state
	pending *pending // the newest frame, as long as it is incomplete
	torn    []uint64 // messages of frames that were never completed
}

// pending is a frame of which not all messages have been seen.
type pending struct {
	frame
	seq   uint64 // of its first message
	parts uint32
	seen  uint32
}

// take takes the message with sequence seq. A frame becomes true with its last message, and
// is returned with its unit then, for the caller to apply. If its last message never came,
// because the power failed, or if its first one is gone, because it is being deleted, it
// never does.
func (r *replay) take(p piece, seq uint64) (*frame, *unit) {
	if seq > r.st.seq+1 { // messages between have left the stream
		r.st.gap, r.st.unseen = true, max(r.st.unseen, p.base)
	}
	if p.part == 0 {
		r.abandon()
		r.pending = &pending{frame: p.frame, seq: seq, parts: p.parts, seen: 1}
	} else if q := r.pending; q != nil && q.nonce == p.nonce && q.seq+uint64(q.seen) == seq && q.seen == p.part && q.parts == p.parts {
		q.facts = append(q.facts, p.facts...)
		q.head = p.head
		q.seen++
	} else {
		r.abandon()
		r.torn = append(r.torn, seq)
	}
	if q := r.pending; q != nil && q.seen == q.parts {
		r.pending = nil
		return &q.frame, &unit{seq: q.seq, parts: q.parts, nonce: q.nonce}
	}
	r.st.seq = seq
	return nil, nil
}

// abandon gives up the frame that is incomplete: another one has begun.
func (r *replay) abandon() {
	if q := r.pending; q != nil {
		for i := range uint64(q.seen) {
			r.torn = append(r.torn, q.seq+i)
		}
		r.pending = nil
	}
}

// errMissed says that messages have left the stream that the state has not seen.
var errMissed = errors.New("messages have left the stream before they were read")

// reading is a state that is being read from the beginning of the stream. It goes on over the next
// connection when one is lost.
type reading struct {
	replay
	began  time.Time
	there  streamNow // what the stream held then
	found  uint64    // how many of those messages were read
	missed bool      // later ones left the stream before they were read
}

// receive takes the next message.
func (r *reading) receive(l *Log, p piece, seq uint64) {
	if seq <= r.there.last {
		r.found++
	} else if seq > max(r.st.seq, r.there.last)+1 {
		r.missed = true
	}
	if f, u := r.take(p, seq); f != nil {
		r.st.apply(f, u)
	}
	l.reread()
}

// rebuild reads a new state from the beginning of the stream with a new consumer and replaces
// the old one by it. The consumer goes on for the new state then. If it fails, the next call goes
// on with what was read.
//
// It is for a log that is opened, and for one that was away for so long that messages left the
// stream before it saw them. A message leaves when a state is the same without it, and that of a
// process which has seen what came before may not be: what removed a record, forgot a key or
// dropped a space leaves the stream after the record, the key or the space. Until the new state is
// complete reads go on with the old one, of a moment in the past, and commits wait: the
// stream takes nothing that was evaluated on a state that is behind.
//
// The same may happen to what is being read. It cannot if nothing leaves the stream meanwhile,
// nor if that takes less than Options.Grace, by which the first of two such messages leaves
// before the second. Else rebuild returns Unavailable, and the next call reads everything again.
func (l *Log) rebuild(ctx context.Context, c *tailConsumer) error {
	if l.reading == nil {
		began := time.Now()
		there, err := l.askNow(ctx)
		if err != nil {
			return err
		}
		l.reading = &reading{replay: replay{st: newState()}, began: began, there: there}
	}
	r := l.reading
	if err := l.attach(ctx, c, r.st.seq+1, func(p piece, seq uint64) error {
		r.receive(l, p, seq)
		return nil
	}); err != nil {
		return err
	}
	for r.st.seq < max(r.there.last, l.seen()) { // a new leader may say less than was seen
		n, err := c.poll()
		if err == nil && n == 0 {
			_, err = c.wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	l.reading = nil
	whole := r.found == r.there.messages && !r.missed
	if took := time.Since(r.began); !whole && took > l.opts.Grace {
		return l.overtaken(took)
	}
	c.take = l.receive
	l.replace(&r.replay)
	return ctx.Err()
}

// reread notes that a message was read for a new state.
func (l *Log) reread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rereads++
}

// overtaken returns the error for a new state that may be wrong, because other processes deleted
// messages while it was read. The caller does not use it. A log that is being opened gives up
// after maxOvertaken of them.
func (l *Log) overtaken(took time.Duration) error {
	err := mainstem.Errorf(mainstem.KindUnavailable, "read stream", "other processes deleted messages during the %v in which the stream was read", took).
		WithHint(fmt.Sprintf("give Options.Grace more than that in every process: it is %v", l.opts.Grace))
	l.mu.Lock()
	l.overtakes++
	give := !l.loaded && l.overtakes >= maxOvertaken
	l.mu.Unlock()
	if give {
		l.breakDown(err)
	}
	return err
}

// maxOvertaken is how many times a log that is opened reads a stream without success.
const maxOvertaken = 5

// replace makes r the state. That a unit or a record which another goroutine holds is of the old
// one is known by state.current.
func (l *Log) replace(r *replay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claimOpenLocked() {
		switch u := r.st.units[l.claim.seq]; {
		case u != nil:
			l.claim.nonce = u.nonce
		case r.pending == nil || r.pending.seq != l.claim.seq:
			l.claim.missed = true
		}
	}
	l.setBacks += r.st.clock.setBacks - l.st.clock.setBacks // those since the log was opened stay as many
	l.replay, l.loaded, l.overtakes = *r, true, 0
	l.st.findIdle()
	l.wakeFollowers()
	l.seqLocked()
}

// takeLocked takes the message with sequence seq into the state. It returns Corrupt for
// a frame that was not written on top of what the state has seen, and errMissed, and
// takes nothing, if there was more between.
func (l *Log) takeLocked(p piece, seq uint64) error {
	missed := seq > l.st.seq+1
	if missed {
		l.claim.missed = l.claim.missed || l.claimOpenLocked()
	}
	if l.loaded && p.part == 0 && (p.base < l.st.head || p.base > l.st.head && !missed && !l.st.gap) {
		return otherStream("message %d follows position %d, and the log is at %d", seq, p.base, l.st.head)
	}
	if missed && l.loaded {
		return errMissed
	}
	if f, u := l.take(p, seq); f != nil {
		l.applyLocked(f, u)
		return nil
	}
	l.seqLocked()
	return nil
}

// current reports whether u belongs to the state, and not to one that was replaced.
func (s *state) current(u *unit) bool { return s.units[u.seq] == u }

// again returns where the record that r was is now, nil if nowhere.
func (l *Log) again(r *record) *record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sp := l.st.byID[r.key.space.id] // r may be of a state that was replaced
	if sp == nil || sp.dropped || sp.keys[r.key.name] == nil {
		return nil
	}
	return sp.keys[r.key.name].at(r.version)
}

// otherStream is the error of a log whose stream is not the one that its state is of.
func otherStream(format string, args ...any) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "read stream", "the stream is not the one that was read before: "+format, args...).
		WithHint("open the log again to go on with what the stream holds now")
}
