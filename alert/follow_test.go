package alert

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// ahead is a log whose first feed that follows begins late, and yields what it has read even
// when its context has ended.
type ahead struct {
	mainstem.Log
	called, begin, ended chan struct{}
	calls                atomic.Int32
}

func (l *ahead) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	if !f.Follow || l.calls.Add(1) > 1 {
		return l.Log.Feed(ctx, f)
	}
	return func(yield func(mainstem.Record, error) bool) {
		defer close(l.ended)
		close(l.called)
		<-l.begin
		f.Follow = false
		l.Log.Feed(context.WithoutCancel(ctx), f)(yield)
	}
}

// TestFollowerOfATableFromNow: another server writes to a table that this one has just made,
// and the follower is still in a feed without its space.
func TestFollowerOfATableFromNow(t *testing.T) {
	log := testengines.Memory(t)
	late := &ahead{Log: log, called: make(chan struct{}), begin: make(chan struct{}), ended: make(chan struct{})}
	s, other := open(t, late, Options{}), open(t, log, Options{})
	begin := sync.OnceFunc(func() { close(late.begin) })
	t.Cleanup(begin)
	<-late.called
	r := exec(t, s, "create database d; create table d.t (A int primary key)")
	if err := other.Wait(t.Context(), r.Position); err != nil {
		t.Fatal(err)
	}
	theirs := exec(t, other, "insert into d.t values (1)")
	exec(t, s, "insert into alerts.conversions (KeyField) values ('behind it')")
	begin()
	<-late.ended
	if err := s.Wait(t.Context(), theirs.Position); err != nil {
		t.Fatal(err)
	}
	want(t, s, "[[1]]", "select A from d.t")
}
