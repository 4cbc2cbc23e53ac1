package soak

import (
	"context"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mainstemdev/mainstem/bench/suite"
)

const significantDigits = 3

// recorder collects the times of one writer. The writer and who takes them need not wait
// for each other for longer than it takes to count one.
type recorder struct {
	mu struct {
		sync.Mutex
		took *hdrhistogram.Histogram
		late time.Duration // the latest that the timer was
	}
}

func newRecorder() *recorder {
	var r recorder
	r.mu.took = newHistogram()
	return &r
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(suite.MaxLatency), significantDigits)
}

func (r *recorder) took(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.mu.took.RecordValue(int64(min(max(d, 1), suite.MaxLatency))) // it is in the range
}

func (r *recorder) late(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.late = max(r.mu.late, d)
}

// take adds what was collected since the last call to sum, and returns the latest that the
// timer was meanwhile.
func (r *recorder) take(sum *hdrhistogram.Histogram) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum.Merge(r.mu.took)
	r.mu.took.Reset()
	late := r.mu.late
	r.mu.late = 0
	return late
}

// schedule says when one writer calls: first at begin, then after every interval, and not from
// end on. Calls that could not begin until grace after the end are missed, but for the first: how
// late that was says what happened.
type schedule struct {
	begin, end time.Time
	every      time.Duration
	grace      time.Duration
}

// calls returns how many calls the schedule has.
func (s schedule) calls() int64 {
	if !s.begin.Before(s.end) {
		return 0
	}
	return 1 + int64((s.end.Sub(s.begin)-1)/s.every)
}

// follow makes the calls of the schedule, however late, and returns how many it missed. A call
// counts from its time, or from when the writer woke up if the timer was late.
func (s schedule) follow(ctx context.Context, r *recorder, call func() error) (missed int64, err error) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	var woke time.Time
	for i := range s.calls() {
		at := s.begin.Add(time.Duration(i) * s.every)
		if wait := time.Until(at); wait > 0 {
			t.Reset(wait)
			select {
			case <-t.C:
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
			woke = time.Now()
			r.late(woke.Sub(at))
		} else if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		} else if i > 0 && time.Since(s.end) > s.grace {
			return s.calls() - i, nil
		}
		if woke.After(at) {
			at = woke
		}
		if err := call(); err != nil {
			return 0, err
		}
		r.took(time.Since(at))
	}
	return 0, nil
}
