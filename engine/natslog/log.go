package natslog

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// Log is a [mainstem.Log] on a JetStream stream, and a [mainstem.Checker] and
// [mainstem.ClockKeeper]. Open returns it.
type Log struct {
	opts    Options
	conn    *nats.Conn
	js      jetstream.JetStream
	subject string    // of every message
	api     string    // prefix of the subjects of the JetStream API
	limit   int       // bytes in one message
	owned   bool      // the connection is ours to close
	created time.Time // of the stream

	root     context.Context // ends with Close
	end      context.CancelFunc
	ctx      context.Context // ends when Close begins; below root
	cancel   context.CancelFunc
	stopping chan struct{} // closed when Close is called
	closing  sync.Once
	running  sync.WaitGroup

	clock     *wallclock.Clock
	queue     queue
	cache     *cache
	followers wake.Set[string, chan<- struct{}] // by space; a signal means: look again
	pace      pace
	readers   readers
	reading   *reading // nil if the state is not being read anew; of the goroutine that follows

	mu        sync.RWMutex
	replay                       // the state and what belongs to it; under mu
	loaded    bool               // the state holds what the stream held at open; under mu
	setBacks  uint64             // of the clock, in what the stream held at open; under mu
	claim     claim              // under mu
	rereads   uint64             // messages that were read for new states; under mu
	overtakes int                // how many new states were not used since the last one that was; see overtaken; under mu
	waiters   []waiter           // for sequences; under mu
	wrote     time.Time          // when this process has last written; under mu
	session   context.Context    // ends when the connection has been lost and is back; under mu
	renew     context.CancelFunc // begins a new session; under mu
	stall     stall              // under mu
	damage    error              // what makes the log unusable; under mu
	hurry     chan struct{}      // capacity 1: somebody waits for what others wrote
	sweeping  sync.Mutex
}

// claim is the place in the stream that the committer wants for its frame, and what the state
// has seen of it.
type claim struct {
	seq    uint64 // where the frame is to begin
	nonce  uint64 // of the frame that has come to begin there; 0: none
	missed bool   // messages that were there had left the stream before they were seen
}

// stall is what [Log.stalled] knows.
type stall struct {
	session time.Time     // when the session began
	seen    uint64        // the progress beyond which the log did not come
	after   time.Duration // how old a session is that is ended for that
}

// waiter waits until the state has seen a sequence.
type waiter struct {
	seq  uint64
	done chan struct{}
}

// Close implements [mainstem.Log].
func (l *Log) Close() error {
	l.closing.Do(func() {
		close(l.stopping)
		l.cancel()
		l.wakeFollowers()
		l.running.Wait()
		l.end()
		if l.owned {
			l.conn.Close()
		}
	})
	return nil
}

// Head implements [mainstem.Reader].
func (l *Log) Head(ctx context.Context) (mainstem.Position, error) {
	if err := l.ready(ctx, "head"); err != nil {
		return 0, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return mainstem.Position(l.st.head), nil
}

// broken returns what makes the log unusable, or nil.
func (l *Log) broken() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.damage
}

// ready returns nil if a read may go on. With Options.Latest it first waits until
// the state holds everything that was committed anywhere before.
func (l *Log) ready(ctx context.Context, op string) error {
	if l.ctx.Err() != nil || ctx.Err() != nil {
		return l.ended(ctx, op, time.Time{}, "")
	}
	if err := l.broken(); err != nil {
		return err
	}
	if !l.opts.Latest {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	if err := l.catchUp(limited); err != nil {
		return l.explain(ctx, op, "", nil, err)
	}
	return nil
}

// catchUp waits until the state holds everything that the stream holds now.
func (l *Log) catchUp(ctx context.Context) error {
	newest, err := l.newestSeq(ctx)
	if err != nil {
		return err
	}
	return l.awaitSeq(ctx, newest, time.Now().Add(l.opts.Timeout))
}

// newestSeq asks the leader of the stream for the sequence of its newest message. It
// asks again while there is no leader.
func (l *Log) newestSeq(ctx context.Context) (uint64, error) {
	now, err := l.askStream(ctx)
	return now.last, err
}

// streamNow is what the leader says of the stream.
type streamNow struct {
	created  time.Time
	last     uint64 // sequence of the newest message
	messages uint64 // that are there
}

// askStream asks the leader of the stream what it holds, again while there is no leader.
func (l *Log) askStream(ctx context.Context) (now streamNow, err error) {
	for {
		try, cancel := l.try(ctx)
		reply, err := l.conn.RequestWithContext(try, l.api+"STREAM.INFO."+l.opts.Stream, nil)
		cancel()
		if err == nil {
			var info struct {
				Error *struct {
					Code        int    `json:"code"`
					Description string `json:"description"`
				} `json:"error"`
				Created time.Time `json:"created"`
				State   struct {
					LastSeq  uint64 `json:"last_seq"`
					Messages uint64 `json:"messages"`
				} `json:"state"`
			}
			if err = json.Unmarshal(reply.Data, &info); err == nil && info.Error == nil {
				return streamNow{info.Created, info.State.LastSeq, info.State.Messages}, nil
			}
			if err == nil {
				err = fmt.Errorf("stream %s: %s", l.opts.Stream, info.Error.Description)
				if info.Error.Code == 404 {
					return now, err
				}
			}
		}
		if ctx.Err() != nil || !l.pause(retryPause) {
			return now, err
		}
	}
}

// awaitSeq waits until the state has seen the message with sequence seq, and is complete if
// the log is being opened.
func (l *Log) awaitSeq(ctx context.Context, seq uint64, deadline time.Time) error {
	l.mu.Lock()
	if l.holdsLocked(seq) {
		l.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	l.waiters = append(l.waiters, waiter{seq, done})
	seen := l.progressLocked()
	l.mu.Unlock()
	wake.Signal(l.hurry)
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		t.Reset(max(0, min(time.Until(deadline), 2*tryTimeout)))
		select {
		case <-done:
			return l.broken()
		case <-l.ctx.Done():
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		now := l.progress()
		if !time.Now().Before(deadline) {
			return fmt.Errorf("the stream has message %d, but none after %d arrived", seq, l.seen())
		}
		if now == seen {
			l.stalled(now)
		}
		seen = now
	}
}

// holdsLocked reports whether the state has seen the message with sequence seq.
func (l *Log) holdsLocked(seq uint64) bool { return l.loaded && l.st.seq >= seq }

// progress grows with every message that is read.
func (l *Log) progress() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.progressLocked()
}

func (l *Log) progressLocked() uint64 { return l.st.seq + l.rereads }

// seqLocked wakes those who wait for what the state has now seen.
func (l *Log) seqLocked() {
	if len(l.waiters) == 0 {
		return
	}
	kept := l.waiters[:0]
	for _, w := range l.waiters {
		if l.damage == nil && !l.holdsLocked(w.seq) {
			kept = append(kept, w)
			continue
		}
		close(w.done)
	}
	clear(l.waiters[len(kept):])
	l.waiters = kept
}
