package enginetest

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
)

// follower runs a following read in a goroutine of its own.
type follower struct {
	e       *env
	doing   string
	cancel  context.CancelFunc
	records chan mainstem.Record
	done    chan struct{} // closed when it has ended
	err     error         // why it ended; read it after done
}

func (e *env) follow(f mainstem.Filter) *follower {
	f.Follow = true
	ctx, cancel := context.WithCancel(e.ctx)
	return e.start(fmt.Sprintf("feed %+v", f), cancel, e.log.Feed(ctx, f))
}

func (e *env) followKey(space, key string, v mainstem.Versions) *follower {
	v.Follow = true
	ctx, cancel := context.WithCancel(e.ctx)
	return e.start(fmt.Sprintf("read %s/%q %+v", space, key, v), cancel, e.log.Read(ctx, space, []byte(key), v))
}

func (e *env) start(doing string, cancel context.CancelFunc, seq iter.Seq2[mainstem.Record, error]) *follower {
	fl := &follower{e: e, doing: doing, cancel: cancel, records: make(chan mainstem.Record, 1<<16), done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(fl.done)
		fl.err = guarded(func() error {
			for r, err := range seq {
				if err != nil {
					return err
				}
				fl.records <- r.Clone()
			}
			return nil
		})
	}()
	return fl
}

// next returns the next record; the case fails if none comes in time.
func (fl *follower) next() mainstem.Record {
	fl.e.Helper()
	select {
	case r := <-fl.records:
		return r
	default:
	}
	select {
	case r := <-fl.records:
		return r
	case <-fl.done:
		if len(fl.records) > 0 {
			return <-fl.records
		}
		fl.e.Fatalf("%s: ended with %v, want one more record", fl.doing, fl.err)
	case <-time.After(fl.e.f.Patience):
		fl.e.Fatalf("%s: nothing came for %v: the follower was not woken", fl.doing, fl.e.f.Patience)
	}
	return mainstem.Record{}
}

// wants fails unless the next records are these.
func (fl *follower) wants(want ...string) {
	fl.e.Helper()
	for _, w := range want {
		if r := fl.next(); brief(r) != w {
			fl.e.Fatalf("%s: the next record is %s, want %s", fl.doing, brief(r), w)
		}
	}
}

// ended returns the error that ended the follower, nil if it ended without
// one. It must end in time and bring no more records.
func (fl *follower) ended() error {
	fl.e.Helper()
	select {
	case <-fl.done:
	case <-time.After(fl.e.f.Patience):
		fl.e.Fatalf("%s: did not end within %v", fl.doing, fl.e.f.Patience)
	}
	if len(fl.records) > 0 {
		fl.e.Fatalf("%s: brought %s too many", fl.doing, brief(<-fl.records))
	}
	return fl.err
}

// stop cancels the follower, which must end with Canceled.
func (fl *follower) stop() {
	fl.e.Helper()
	fl.cancel()
	fl.e.kind(fl.doing+" after cancel", fl.ended(), mainstem.KindCanceled)
}
