package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/journal"
)

const dir = "/data/journal"

// small are options under which a few frames fill a segment.
func small() journal.Options {
	return journal.Options{Create: true, FirstSegment: 16 << 10, MaxSegment: 64 << 10, SyncEvery: 8 << 10}
}

// outcome is what is known of one attempt to append a frame.
type outcome int

const (
	begun      outcome = iota // Append has not returned, or with an unknown outcome
	written                   // it survives a killed process
	durable                   // it survives a power cut
	notWritten                // it must never be seen
)

// ledger remembers every attempt to append a frame to a journal, and knows what may be
// found there. The serial number of an attempt is in its effects; all else of the frame
// follows from it.
type ledger struct {
	mu       sync.Mutex
	attempts []outcome // serial - 1
	absorbed int       // attempts up to this serial need not be found
	position mainstem.Position
}

// frame returns the frame of the attempt.
func frame(serial int) journal.Frame {
	rng := rand.New(rand.NewPCG(uint64(serial), 1))
	size := rng.IntN(600)
	switch rng.IntN(40) {
	case 0:
		size = rng.IntN(20 << 10)
	case 1:
		size = 0
	}
	effects := binary.LittleEndian.AppendUint64(nil, uint64(serial))
	for range size {
		effects = append(effects, byte(rng.Uint32()))
	}
	return journal.Frame{Count: 1 + uint32(rng.IntN(3)), Time: int64(serial) * 3, Clock: -int64(serial), Effects: effects}
}

func (l *ledger) begin() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = append(l.attempts, begun)
	return len(l.attempts)
}

func (l *ledger) set(serial int, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[serial-1] = o
}

// append makes n attempts with one Append, and syncs them if sync says so.
func (l *ledger) append(j *journal.Journal, n int, sync bool) error {
	frames, serials := make([]journal.Frame, n), make([]int, n)
	for i := range frames {
		serials[i] = l.begin()
		frames[i] = frame(serials[i])
	}
	last, err := j.Append(frames)
	l.note(serials, err, written)
	if err == nil && sync {
		if err = j.Sync(last); err == nil {
			l.synced(serials[n-1])
		}
	}
	return err
}

func (l *ledger) note(serials []int, err error, o outcome) {
	var e *mainstem.Error
	for _, s := range serials {
		switch {
		case err == nil:
			l.set(s, o)
		case errors.As(err, &e) && e.Outcome == mainstem.NotWritten:
			l.set(s, notWritten)
		}
	}
}

// synced notes that everything up to an attempt is on stable storage. There is one
// goroutine that appends.
func (l *ledger) synced(serial int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.attempts[:serial] {
		if l.attempts[i] == written {
			l.attempts[i] = durable
		}
	}
}

// absorb notes that the frames up to serial are no longer needed.
func (l *ledger) absorb(serial int, p mainstem.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absorbed, l.position = serial, p
}

// clone returns what is known now.
func (l *ledger) clone() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{attempts: slices.Clone(l.attempts), absorbed: l.absorbed, position: l.position}
}

// since returns what may be found in a file system that was copied after before was
// cloned: of attempts that were made or confirmed meanwhile nobody knows.
func (l *ledger) since(before *ledger) *ledger {
	now := l.clone()
	copy(now.attempts, before.attempts)
	for i := len(before.attempts); i < len(now.attempts); i++ {
		now.attempts[i] = begun
	}
	return now
}

// found is what a journal held.
type found struct {
	serials []int
	last    mainstem.Position
}

// take notes a frame that was read. It checks what can be checked of it alone.
func (f *found) take(got journal.Frame) error {
	if len(got.Effects) < 8 {
		return fmt.Errorf("a frame with effects %x", got.Effects)
	}
	serial := int(binary.LittleEndian.Uint64(got.Effects))
	want := frame(serial)
	if got.Count != want.Count || got.Time != want.Time || got.Clock != want.Clock || !bytes.Equal(got.Effects, want.Effects) {
		return fmt.Errorf("frame %d came back changed", serial)
	}
	if n := len(f.serials); n > 0 && (serial <= f.serials[n-1] || got.First != f.last+1) {
		return fmt.Errorf("frame %d at position %d after frame %d up to %d", serial, got.First, f.serials[n-1], f.last)
	}
	f.serials, f.last = append(f.serials, serial), got.Last()
	return nil
}

// check compares what was found with what may be. Everything at least as well done as
// least must be there.
func (l *ledger) check(f *found, least outcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := 0
	there := map[int]bool{}
	for _, s := range f.serials {
		if s > len(l.attempts) || l.attempts[s-1] == notWritten {
			return fmt.Errorf("frame %d was never written", s)
		}
		there[s], end = true, s
	}
	for i, o := range l.attempts {
		s := i + 1
		if s <= l.absorbed || there[s] || o == notWritten || o == begun {
			continue
		}
		if o == durable || least == written {
			return fmt.Errorf("frame %d of %d is missing; the last is %d", s, len(l.attempts), end)
		}
		if s < end {
			return fmt.Errorf("frame %d is missing although frame %d is there", s, end)
		}
	}
	return nil
}

// reopen opens the journal on fs as it is found and returns what it held.
func reopen(fs vfs.FS, from mainstem.Position, o journal.Options) (*journal.Journal, *found, error) {
	f := &found{}
	o.From, o.Replay = from, f.take
	j, err := journal.Open(fs, dir, o)
	return j, f, err
}
