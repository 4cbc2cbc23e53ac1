package natslog

import (
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// A process that leaves sweeping to another one forgets what that has removed, and deletes
// nothing itself.
func TestForgetWhatOthersHaveRemoved(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	o := &Options{SweepEvery: -1, Grace: time.Nanosecond, BatchIDAge: time.Nanosecond, Latest: true}
	var logs [2]*Log
	for i := range logs {
		l, err := Open(srv.URL(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		logs[i] = l
	}
	l, sweeper := logs[0], logs[1]
	commit := func(fill func(b *mainstem.Batch)) {
		t.Helper()
		b := mainstem.NewBatch()
		fill(b)
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	const commits = 50
	for n := range commits {
		commit(func(b *mainstem.Batch) {
			b.ID = fmt.Sprint(n)
			b.Ensure("s", mainstem.Policy{History: 1})
			b.Add(mainstem.Write{Space: "s", Key: []byte("k"), TTL: time.Hour})
			b.Put("s", fmt.Append(nil, n), nil)
		})
	}
	commit(func(b *mainstem.Batch) {
		for n := range commits {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "s", Key: fmt.Append(nil, n)})
		}
	})
	forget := func() {
		t.Helper()
		if err := l.forget(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	units := func() int {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return len(l.st.units)
	}
	forget()
	if n := units(); n < commits {
		t.Errorf("%d of %d frames are known before one is deleted", n, commits)
	}
	if _, err := l.get(t.Context(), 2); err != nil {
		t.Errorf("a message that is dead was deleted: %v", err)
	}
	if _, err := sweeper.Head(t.Context()); err != nil { // it sees everything
		t.Fatal(err)
	}
	for range 3 { // with what the first one frees
		if err := sweeper.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		forget()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.st
	for what, n := range map[string]int{
		"frames": len(s.units), "dead frames": len(s.dead), "sparse frames": len(s.sparse), "receipts": len(s.receipts),
		"idle keys": len(s.idle), "keys": len(s.spaces["s"].keys), "records that expire": len(s.expiring),
	} {
		if n > 3 {
			t.Errorf("%d %s are remembered", n, what)
		}
	}
}
