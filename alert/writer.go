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
	maxGroupBytes = 8 << 20 // in their rows; a statement that joins may exceed it
	maxGroupOps   = 10_000  // changes of records; likewise
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
	// light jobs find rows by their keys only, and so see the changes of their transaction.
	light mode = iota
	// reading jobs query the mirror: they are the first of their transaction.
	reading
	// trial jobs query the mirror after changes of their own, see tx.trial: they share nothing.
	trial
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

// together runs jobs in one transaction and returns how many of them. If the log refuses their
// batch as Invalid, fewer share one: no job fails for the changes of another.
func (s *Server) together(jobs []*job) int {
	for attempt := 1; ; attempt++ {
		n, err := s.try(jobs)
		if err == nil {
			return n
		}
		if n > 1 && errors.Is(err, mainstem.ErrInvalid) { // too large together, or one is at fault
			jobs = jobs[:n/2]
			continue
		}
		if attempt < maxAttempts && retriable(err) && s.ctx.Err() == nil {
			if err = s.refresh(s.ctx); err == nil {
				if attempt > pauseAfter {
					contention.Wait(s.ctx, 1)
				}
				continue
			}
		}
		failAll(jobs[:n], err)
		return n
	}
}

// failAll is how jobs end that had no error of their own, if their callers still wait.
func failAll(jobs []*job, err error) {
	for _, j := range jobs {
		if j.err == nil && j.state.Load() == jobTaken {
			j.err = err
		}
	}
}

// try runs the first of jobs, as many as can share a transaction, commits it and applies
// it to the mirror. An error is that of the commit: nothing was changed. What is wrong with
// a job is in the job.
func (s *Server) try(jobs []*job) (n int, err error) {
	if jobs[0].mode == alone {
		jobs[0].err = jobs[0].run(nil)
		return 1, nil
	}
	t := s.newTx()
	defer t.release()
	if jobs[0].mode == trial {
		jobs[0].err = t.dryRun(jobs[0].run)
		return 1, s.commit(t, jobs[:1])
	}
	for ; n < len(jobs) && (n == 0 || t.takes(jobs[n].mode)); n++ {
		j, m := jobs[n], t.mark()
		if j.err = j.run(t); j.err != nil {
			t.reset(m)
		}
	}
	return n, s.commit(t, jobs[:n])
}

// takes reports whether a job can join the transaction.
func (t *tx) takes(m mode) bool {
	return !t.defines && t.bytes < maxGroupBytes && len(t.ops) < maxGroupOps && (m == light || m == reading && len(t.ops) == 0)
}

// dryRun runs a job that may make its changes in the mirror, too, and takes them back there.
func (t *tx) dryRun(run func(*tx) error) error {
	err := run(t)
	if err != nil {
		t.reset(mark{})
	}
	if t.tried {
		if failed := t.s.mirror.rollback(t.ctx); failed != nil {
			return t.s.lost(failed)
		}
	}
	return err
}

// commit commits the batch of t, if it has one, and applies it to the mirror. An error is
// that of the log.
func (s *Server) commit(t *tx, jobs []*job) error {
	if len(t.ops) == 0 {
		return nil
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	var r mainstem.Receipt
	if b := t.batch(); b != nil {
		var err error
		if r, err = s.log.Commit(s.ctx, b); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		j.at = r.Last
	}
	if err := s.project(t, r, jobs); err != nil {
		failAll(jobs, broken("the changes are in the log, and could not be shown", err).WithOutcome(mainstem.NoOutcome))
	}
	return nil
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
