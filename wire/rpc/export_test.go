package rpc

import (
	"context"
	"runtime"
	"time"
)

// KeepsTurn locks the one session of h for longer than its timer needs to find that a call keeps
// the reader. It returns whether there was such a call, and whether it has lost its turn.
func (h *Handler) KeepsTurn() (serving, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.mu.sessions {
		s.mu.Lock()
		defer s.mu.Unlock()
		turn := s.turn.Load()
		for begun := time.Now(); turn != 0 && time.Since(begun) < 20*h.watchEvery; {
			runtime.Gosched()
		}
		return turn != 0, s.turn.Load() != turn
	}
	return false, false
}

// CancelAfter cancels a call of the one session of h after do, during which it locks the session.
func (h *Handler) CancelAfter(call uint64, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.mu.sessions {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
		s.cancelLocked(s.mu.calls[call], context.Canceled)
	}
}

// NeverWatch lets calls of later sessions keep the reader for as long as they do not give it
// away themselves.
func (h *Handler) NeverWatch() { h.watchEvery = time.Hour }

// SetTokenGrace sets how long calls may continue in a session whose token is not valid any more.
func (h *Handler) SetTokenGrace(d time.Duration) { h.tokenGrace = d }

// IdleWorkers returns how many goroutines wait for calls of sessions.
func (h *Handler) IdleWorkers() int { return len(h.workers.idle) }
