package alert

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// Limits of what is committed together.
const (
	maxGroup      = 256     // statements
	maxGroupBytes = 8 << 20 // in their rows
)

// job is a piece of work for the writer.
type job struct {
	mode mode
	// run makes changes. It may be called again, in another transaction, if somebody
	// else wrote first: it must set what it returns anew each time.
	run   func(t *tx) error
	state atomic.Int32 // see jobWaiting
	err   error
	done  chan struct{}
	at    mainstem.Position // of the last record of the batch
}

// mode says what a job needs.
type mode uint8

const (
	// light jobs find rows by their keys only, and so see what waits in their transaction.
	light mode = iota
	// reading jobs query the mirror: nothing may wait when they run.
	reading
	// direct jobs have a direct transaction of their own.
	direct
	// alone jobs run outside of transactions and are given none.
	alone
)

const (
	jobWaiting int32 = iota
	jobTaken
	jobGone
)

// do has the writer run a job, and returns when it is committed and every query
// that begins then will show it. When ctx ends, a job that the writer has not taken
// yet is taken back.
func (s *Server) do(ctx context.Context, m mode, run func(t *tx) error) (mainstem.Position, error) {
	if err := s.failed(); err != nil {
		return 0, err
	}
	if ctx.Err() != nil { // or the writer might be faster than the look at it below
		return 0, canceled(ctx)
	}
	j := &job{mode: m, run: run, done: make(chan struct{})}
	select {
	case s.jobs <- j:
	case <-s.ctx.Done():
		return 0, closed()
	case <-ctx.Done():
		return 0, canceled(ctx)
	}
	var gone error
	select {
	case <-j.done:
		return j.at, j.err
	case <-ctx.Done():
		gone = canceled(ctx)
	case <-s.ctx.Done():
		gone = closed()
	}
	if j.state.CompareAndSwap(jobWaiting, jobGone) {
		return 0, gone
	}
	<-j.done
	return j.at, j.err
}

// write is the goroutine that makes all changes. It takes as many jobs at a time
// as are waiting: they share one transaction and one commit.
func (s *Server) write() {
	for {
		select {
		case j := <-s.jobs:
			s.group(j)
		case <-s.ctx.Done():
			for {
				select {
				case j := <-s.jobs:
					if j.state.CompareAndSwap(jobWaiting, jobTaken) {
						j.err = closed()
						release([]*job{j})
					}
				default:
					return
				}
			}
		}
	}
}

func (s *Server) group(first *job) {
	jobs := make([]*job, 0, 8)
	take := func(j *job) {
		if j.state.CompareAndSwap(jobWaiting, jobTaken) {
			jobs = append(jobs, j)
		}
	}
	take(first)
	for len(jobs) < maxGroup {
		select {
		case j := <-s.jobs:
			take(j)
			continue
		default:
		}
		break
	}
	for len(jobs) > 0 {
		n := s.together(jobs)
		release(jobs[:n])
		jobs = jobs[n:]
	}
}

// release lets the callers of jobs go on, if they do not already.
func release(jobs []*job) {
	for _, j := range jobs {
		if j.state.CompareAndSwap(jobTaken, jobGone) {
			close(j.done)
		}
	}
}

// Attempts to commit what others were faster with.
const (
	maxAttempts = 100
	pauseAfter  = 3
)

// contention is the pause that lets another server that writes the same rows have its turn.
var contention = backoff.Policy{First: 20 * time.Millisecond, Jitter: 1}

// together runs jobs in one transaction and returns how many of them.
func (s *Server) together(jobs []*job) int {
	for attempt := 1; ; attempt++ {
		n, err := s.try(jobs)
		if err == nil {
			return n
		}
		if attempt < maxAttempts && retriable(err) && s.ctx.Err() == nil {
			if err = s.refresh(s.ctx); err == nil {
				if attempt > pauseAfter {
					contention.Wait(s.ctx, 1)
				}
				continue
			}
		}
		for _, j := range jobs[:n] {
			if j.err == nil && j.state.Load() == jobTaken { // else its rows are in the log and its caller has gone on
				j.err = err
			}
		}
		return n
	}
}

// try runs the first of jobs, as many as can share a transaction, and commits
// it. An error is that of the commit: nothing was changed. What is wrong with a job
// is in the job.
func (s *Server) try(jobs []*job) (n int, err error) {
	switch jobs[0].mode {
	case direct:
		return 1, s.tryDirect(jobs[0])
	case alone:
		jobs[0].err = jobs[0].run(nil)
		return 1, nil
	}
	t := s.newTx()
	defer t.release()
	for n < len(jobs) && (n == 0 || t.bytes < maxGroupBytes) {
		j := jobs[n]
		if j.mode > reading || j.mode == reading && len(t.rows) > 0 {
			break
		}
		m := t.mark()
		if j.err = j.run(t); j.err != nil {
			t.reset(m)
		}
		n++
	}
	if err := s.send(t, jobs[:n]); err != nil {
		return n, err
	}
	if t.waits() {
		// The rows are in the log, and queries wait for the gate: the callers can go on.
		if len(t.inside) == 0 {
			release(jobs[:n])
		}
		if err := t.applyRows(); err != nil {
			return n, errors.Join(s.lost(err), s.mirror.rollback(s.quiet))
		}
		if err := s.mirror.commit(s.quiet, t.inside...); err != nil {
			return n, s.lost(err)
		}
	}
	t.finish()
	return n, nil
}

// tryDirect runs a job in a direct transaction.
func (s *Server) tryDirect(j *job) error {
	if err := s.mirror.begin(s.quiet, undoable); err != nil {
		return s.lost(err)
	}
	t := s.newTx()
	defer t.release()
	t.direct = true
	if j.err = j.run(t); j.err != nil {
		return s.lost(s.mirror.rollback(s.quiet))
	}
	if err := s.send(t, []*job{j}); err != nil {
		return errors.Join(err, s.mirror.rollback(s.quiet))
	}
	if err := s.mirror.commit(s.quiet, t.inside...); err != nil {
		return s.lost(err)
	}
	t.finish()
	return nil
}

// send commits the batch of t, if it has one, and shuts the gate of the mirror if
// t has something for it.
func (s *Server) send(t *tx, jobs []*job) error {
	// Who meets the batch in the log must wait until it is known to be ours, and who knows
	// that must not find an older mirror.
	s.commit.Lock()
	defer s.commit.Unlock()
	var receipt mainstem.Receipt
	if len(t.ops) > 0 {
		b, writes := t.batch()
		var err error
		if receipt, err = s.log.Commit(s.ctx, b); err != nil {
			return err
		}
		for _, j := range jobs {
			j.at = receipt.Last
		}
		if err := t.confirm(receipt, writes); err != nil {
			return s.lost(err)
		}
	}
	if t.waits() {
		if err := s.mirror.begin(s.quiet, final); err != nil {
			return s.lost(err)
		}
	}
	s.own.add(receipt)
	return nil
}

// waits reports whether there are changes that the mirror does not have yet.
func (t *tx) waits() bool { return !t.direct && (len(t.rows) > 0 || len(t.inside) > 0) }

func (t *tx) finish() {
	for _, f := range t.after {
		f()
	}
}

// lost notes that the mirror failed: it may not show what the log holds. The
// server serves nothing from then on; opening it anew reads the log again.
func (s *Server) lost(err error) error {
	if err == nil {
		return nil
	}
	s.o.Logger.Error("alert: the mirror failed", "error", err)
	e := broken("the mirror of the tables failed; open the server anew", err)
	s.failure.CompareAndSwap(nil, e)
	return e
}

func (s *Server) failed() error {
	if e := s.failure.Load(); e != nil {
		return e
	}
	return nil
}

// rowPolicy is what the space of a table keeps: the newest record of each row.
func rowPolicy() mainstem.Policy {
	return mainstem.Policy{History: 1, Metadata: map[string]string{"view": "alert"}}
}
