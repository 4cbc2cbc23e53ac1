package natslog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Servers that answer late are given more time, and less again when they are quick.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		want := func(d time.Duration) {
			t.Helper()
			if got := p.limit(); got != d {
				t.Errorf("a request may take %v, want %v", got, d)
			}
		}
		want(tryTimeout)
		p.note(tryTimeout, true)
		p.note(tryTimeout, true) // it was sent before the first one was late
		want(2 * tryTimeout)
		p.note(2*tryTimeout, false) // one that is quick says nothing about the others
		want(2 * tryTimeout)
		for range 5 {
			p.note(p.limit(), true)
		}
		want(maxTryTimeout)
		for range 5 {
			time.Sleep(paceCalm + 1)
			p.note(p.limit(), false)
		}
		want(tryTimeout)
	})
}

// A state that does not move on renews the session ever less often, or requests of
// servers that are slow would never be answered.
func TestStalledStateRenewsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Log{replay: replay{st: newState()}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l.root = ctx
		l.newSession()
		renewed := func() bool {
			before := l.session
			l.stalled(l.st.seq)
			return l.session != before
		}
		var after []time.Duration
		begin := time.Now()
		for time.Since(begin) < 100*time.Second {
			time.Sleep(time.Second)
			if renewed() {
				after = append(after, time.Since(begin))
				begin = time.Now()
			}
			if len(after) == 5 {
				break
			}
		}
		for i, want := range []time.Duration{4, 8, 16, 30, 30} {
			if i >= len(after) || after[i] != want*time.Second {
				t.Fatalf("renewed after %v", after)
			}
		}
		l.st.seq++
		time.Sleep(3 * time.Second)
		if renewed() {
			t.Error("renewed though the state has just moved on")
		}
		time.Sleep(time.Second)
		if !renewed() {
			t.Error("not renewed")
		}
		if l.stalled(l.st.seq - 1); l.stall.seen != l.st.seq {
			t.Error("what was seen before counts")
		}
	})
}
