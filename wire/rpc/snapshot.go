package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// snapshots are the snapshots of clients. Each is kept until it is closed or has not been used
// for the time of a lease.
type snapshots struct {
	log   mainstem.Log
	max   int
	lease time.Duration
	mu    struct {
		sync.Mutex
		closed  bool
		opening int // number being opened, which count towards max
		held    map[string]*heldSnapshot
	}
}

// heldSnapshot is one snapshot; its fields are under the lock of snapshots.
type heldSnapshot struct {
	mainstem.Snapshot
	users  int // calls that read from it
	used   time.Time
	closed bool // its last user closes it
	timer  *time.Timer
}

func newSnapshots(log mainstem.Log, most int, lease time.Duration) *snapshots {
	s := &snapshots{log: log, max: most, lease: lease}
	s.mu.held = map[string]*heldSnapshot{}
	return s
}

// open takes a snapshot and returns its ID.
func (s *snapshots) open(ctx context.Context) (string, error) {
	from, ok := s.log.(mainstem.Snapshotter)
	if !ok {
		return "", unsupported("snapshot")
	}
	if err := s.reserve(); err != nil {
		return "", err
	}
	snapshot, err := from.Snapshot(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.opening--
	if err != nil {
		return "", err
	}
	if s.mu.closed {
		return "", errors.Join(stoppingError("snapshot"), snapshot.Close())
	}
	id := rand.Text()
	h := &heldSnapshot{Snapshot: snapshot, used: time.Now()}
	h.timer = time.AfterFunc(s.lease, func() { s.expire(id) })
	s.mu.held[id] = h
	return id, nil
}

func (s *snapshots) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return stoppingError("snapshot")
	}
	if len(s.mu.held)+s.mu.opening >= s.max {
		return mainstem.Errorf(mainstem.KindUnavailable, "snapshot", "%d snapshots are held: that is the limit", s.max).
			WithHint("close snapshots that are not needed")
	}
	s.mu.opening++
	return nil
}

// use returns the snapshot called id, which stays open until the caller calls release.
func (s *snapshots) use(op string, id []byte) (r mainstem.Reader, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.mu.held[string(id)]
	if h == nil || h.closed {
		return nil, nil, mainstem.Errorf(mainstem.KindClosed, op, "the snapshot is not held any more").
			WithHint(fmt.Sprintf("a snapshot that is not used for %v is closed", s.lease))
	}
	h.users++
	return h.Snapshot, func() { s.release(string(id), h) }, nil
}

func (s *snapshots) release(id string, h *heldSnapshot) {
	s.mu.Lock()
	h.users--
	h.used = time.Now()
	gone := h.closed && h.users == 0
	if !h.closed && h.users == 0 {
		h.timer.Reset(s.lease)
	}
	s.mu.Unlock()
	if gone {
		_ = h.Close() // the client has already closed it, so the error is not reported
	}
}

// expire closes the snapshot called id if it has not been used for the time of a lease. A timer
// that fired during a use, or just before one, has no effect: release sets it again.
func (s *snapshots) expire(id string) {
	s.mu.Lock()
	h := s.mu.held[id]
	if h == nil || h.users > 0 {
		s.mu.Unlock()
		return
	}
	if rest := s.lease - time.Since(h.used); rest > 0 {
		h.timer.Reset(rest)
		s.mu.Unlock()
		return
	}
	delete(s.mu.held, id)
	s.mu.Unlock()
	_ = h.Close() // no client waits for the error
}

// close closes the snapshot called id, now or when its last user is done.
func (s *snapshots) close(id []byte) error {
	s.mu.Lock()
	h := s.mu.held[string(id)]
	if h == nil {
		s.mu.Unlock()
		return nil
	}
	delete(s.mu.held, string(id))
	h.timer.Stop()
	h.closed = true
	idle := h.users == 0
	s.mu.Unlock()
	if idle {
		return h.Close()
	}
	return nil
}

// closeAll closes all snapshots; none may be in use.
func (s *snapshots) closeAll() error {
	s.mu.Lock()
	held := s.mu.held
	s.mu.closed, s.mu.held = true, map[string]*heldSnapshot{}
	s.mu.Unlock()
	var err error
	for _, h := range held {
		h.timer.Stop()
		err = errors.Join(err, h.Close())
	}
	return err
}

func unsupported(op string) *mainstem.Error {
	return mainstem.Errorf(mainstem.KindUnsupported, op, "the engine of this server does not offer it")
}

func stoppingError(op string) *mainstem.Error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: op, Err: errStopping}
}
