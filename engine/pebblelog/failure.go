package pebblelog

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// How the log fails, from the mildest state to the worst:
//
//	short         the disk is nearly full: commits are refused, removals continue longer (checkSpace)
//	flushErr      a flush of a memtable failed: commits are refused, Pebble repeats the flush
//	failure       a write failed, its outcome is unknown: no commits until the log is opened again
//	broken        Pebble has panicked: like failure, and Pebble is not written to or closed any more
//
// The first two end by themselves. Once failure is set no frame is written, so at the next open
// the journal shows the outcome of the batches for which it was unknown. If the failed write was
// one of the journal or of Pebble's manifest, nothing at all reaches the disk from then on: the
// directory stays as a crash at that moment would have left it (guard.go).

// fatalError is the panic value of logger.Fatalf on a goroutine of the committer.
type fatalError struct{ error }

// logger passes Pebble's messages to Options.Logger. Fatalf must not return: Pebble calls it
// when it cannot write its manifest any more. The log then takes no more commits and stays
// readable, and the process continues.
type logger struct{ l *Log }

func (g logger) Infof(format string, args ...any) {
	g.l.opts.Logger.Debug(fmt.Sprintf(format, args...))
}

func (g logger) Errorf(format string, args ...any) {
	g.l.opts.Logger.Warn(fmt.Sprintf(format, args...))
}

func (g logger) Fatalf(format string, args ...any) {
	err := fatalError{fmt.Errorf(format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = fatalError{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), cause)}
		}
	}
	g.l.broken.Store(true)
	_ = g.l.fail(err)
	if onCommitPath() {
		panic(err)
	}
	select {} // a goroutine of Pebble, which must not continue and cannot return an error
}

// onCommitPath reports whether a function that recovers panics is on the stack.
func onCommitPath() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		for _, recovers := range []string{"showCold", "writeCold", "openPebble", "replay"} {
			if strings.HasSuffix(f.Function, "pebblelog.(*Log)."+recovers) {
				return true
			}
		}
		if !more {
			return false
		}
	}
}

// fail makes the log refuse commits from now on. It returns the error for the batches being
// committed, which may or may not survive the next open.
func (l *Log) fail(cause any) error {
	err, ok := cause.(error)
	if !ok {
		err = fmt.Errorf("%v", cause)
	}
	var f fatalError
	if errors.As(err, &f) {
		err = f.error
	}
	mapped := mapError("commit", err)
	var e *mainstem.Error
	if !errors.As(mapped, &e) || e.Kind == mainstem.KindInternal {
		e = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Err: err}
	}
	e.Outcome = mainstem.Unknown
	if e.Hint == "" {
		e.Hint = "the log is read-only until it is opened again"
	}
	first := l.failure.CompareAndSwap(nil, e)
	l.interrupts.all(e) // after failure is set: see interrupts.begin
	if first {
		l.opts.Logger.Error("the log can no longer be written and is read-only until it is opened again", "dir", l.dir.path, "error", err)
	}
	return e
}

// writable returns an error if commits are refused after a failure.
func (l *Log) writable(op string) error {
	if l.opts.ReadOnly {
		return mainstem.Refusef(mainstem.KindDenied, op, "the log was opened for reading only").WithHint("open it where its directory can be written")
	}
	l.noticeJournal()
	f := l.failure.Load()
	if f == nil {
		if err := l.fs.flushErr.Load(); err != nil {
			return mainstem.Refusef(mainstem.KindUnavailable, op, "what is in memory cannot be written to sorted files: %w", *err).
				WithHint("free disk space; commits go on by themselves")
		}
		return nil
	}
	return mainstem.Refusef(mainstem.KindUnavailable, op, "the log is read-only after a failed write: %w", f.Err).WithHint(f.Hint)
}

// diskCheck checks the free disk space from time to time. Only the leader uses it. Between two
// checks commits may write MinFree/diskCheckShare bytes, so the log itself cannot fill the disk
// unnoticed.
type diskCheck struct {
	written int64     // bytes since the last check
	last    time.Time // time of the last check
	short   bool      // the last check found less than MinFree, so every commit checks
}

const (
	diskCheckEvery = time.Second
	diskCheckShare = 8 // check again after MinFree/8 bytes
	removalShare   = 16
)

// removalFloor returns the free space, in bytes, below which even removals are refused. They
// free space in the end, but first their frames are written, and so are new sorted files without
// the removed records.
func (l *Log) removalFloor() int64 { return l.opts.MinFree / removalShare }

// removes reports whether w only removes, and adds no more than small markers of removals.
func (w *waiter) removes() bool {
	if w.batch == nil {
		return w.frees
	}
	if len(w.batch.Ensures()) > 0 {
		return false
	}
	for i := range w.batch.Writes() {
		wr := &w.batch.Writes()[i]
		if wr.Op == mainstem.OpPut || wr.Op == mainstem.OpRewrite || len(wr.Headers) > 0 {
			return false
		}
	}
	return true
}

func removesAll(run []*waiter) bool {
	for _, w := range run {
		if !w.removes() {
			return false
		}
	}
	return true
}

// checkSpace returns an error for a commit of n bytes at now if the disk is nearly full.
// Removals have a lower limit than other commits. Only the leader calls it.
func (l *Log) checkSpace(now time.Time, n int, removes bool) error {
	if l.opts.MinFree < 0 {
		return nil
	}
	d := &l.disk
	d.written += int64(n)
	if !d.short && d.written < l.opts.MinFree/diskCheckShare && now.Sub(d.last) < diskCheckEvery {
		return nil
	}
	d.written, d.last = 0, now
	free := l.free()
	d.short = free < l.opts.MinFree+int64(n)
	limit := l.opts.MinFree
	if removes {
		limit = l.removalFloor()
	}
	if free >= limit+int64(n) {
		return nil
	}
	return mainstem.Refusef(mainstem.KindUnavailable, "commit", "the disk has %d bytes free: commits stop below %d, removals below %d", free, l.opts.MinFree, l.removalFloor()).
		WithHint("free disk space, or delete, forget, truncate or drop what is not needed; commits go on by themselves")
}

// free returns the free disk space in bytes. It is unlimited in memory, and if the file system
// does not report it.
func (l *Log) free() int64 {
	usage, err := l.opts.FS.GetDiskUsage(l.dir.path)
	if err != nil {
		return math.MaxInt64
	}
	return int64(min(usage.AvailBytes, math.MaxInt64))
}

// roomToMerge returns an error if the disk has no room for n bytes of sorted files that replace
// others. They have the limit of removals.
func (l *Log) roomToMerge(n uint64) error {
	if l.opts.MinFree < 0 {
		return nil
	}
	if free := l.free(); free-l.removalFloor() < int64(min(n, math.MaxInt64)) {
		return mainstem.Errorf(mainstem.KindUnavailable, "merge sorted files", "the disk has %d bytes free, of which %d are not used: too few to write %d bytes", free, l.removalFloor(), n).
			WithHint("free disk space")
	}
	return nil
}

// nearlyFull reports whether commits are refused for lack of disk space, or soon may be.
func (l *Log) nearlyFull() bool { return l.opts.MinFree > 0 && l.free()/2 < l.opts.MinFree }

// FailStop implements [mainstem.FailStopper]: after a failed write the log is read-only until it is
// opened again.
func (l *Log) FailStop() bool { return true }

// sound returns an error if a write has failed since the log was opened.
func (l *Log) sound(op string) error {
	l.noticeJournal()
	f := l.failure.Load()
	if f == nil {
		return nil
	}
	e := *f
	e.Op, e.Outcome, e.Hint = op, mainstem.NoOutcome, ""
	return &e
}
