package server

import (
	"context"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
)

// measured is a log that adds the calls to another one to metrics.
type measured struct {
	mainstem.Log
	metrics *metrics
}

// measure wraps log. The result has the same optional capabilities as log.
func measure(log mainstem.Log, m *metrics) mainstem.Log {
	l := &measured{Log: log, metrics: m}
	s, canSnapshot := log.(mainstem.Snapshotter)
	b, canBackup := log.(mainstem.Backuper)
	c, canCheck := log.(mainstem.Checker)
	switch {
	case canSnapshot && canBackup && canCheck:
		return struct {
			*measured
			mainstem.Snapshotter
			mainstem.Backuper
			mainstem.Checker
		}{l, s, b, c}
	case canSnapshot && canBackup:
		return struct {
			*measured
			mainstem.Snapshotter
			mainstem.Backuper
		}{l, s, b}
	case canSnapshot && canCheck:
		return struct {
			*measured
			mainstem.Snapshotter
			mainstem.Checker
		}{l, s, c}
	case canBackup && canCheck:
		return struct {
			*measured
			mainstem.Backuper
			mainstem.Checker
		}{l, b, c}
	case canSnapshot:
		return struct {
			*measured
			mainstem.Snapshotter
		}{l, s}
	case canBackup:
		return struct {
			*measured
			mainstem.Backuper
		}{l, b}
	case canCheck:
		return struct {
			*measured
			mainstem.Checker
		}{l, c}
	}
	return l
}

func (l *measured) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	begin := time.Now()
	receipt, err := l.Log.Commit(ctx, b)
	l.metrics.committed(b, receipt, err, time.Since(begin))
	return receipt, err
}

func (l *measured) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	r, err := l.Log.Get(ctx, space, key)
	l.metrics.read("get", err)
	return r, err
}

func (l *measured) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return l.counted("get many", l.Log.GetMany(ctx, space, keys))
}

func (l *measured) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return l.counted("scan", l.Log.Scan(ctx, space, r))
}

func (l *measured) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return l.followed(v.Follow, l.counted("read", l.Log.Read(ctx, space, key, v)))
}

func (l *measured) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return l.followed(f.Follow, l.counted("feed", l.Log.Feed(ctx, f)))
}

func (l *measured) counted(method string, seq iter.Seq2[mainstem.Record, error]) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		var failed error
		n := 0
		defer func() {
			l.metrics.read(method, failed)
			l.metrics.returned.WithLabelValues(method).Add(float64(n))
		}()
		for r, err := range seq {
			if err != nil {
				failed = err
			} else if r.Version != 0 { // a record of version 0 stands for an absent one
				n++
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// followed counts a follower as open until it ends.
func (l *measured) followed(follow bool, seq iter.Seq2[mainstem.Record, error]) iter.Seq2[mainstem.Record, error] {
	if !follow {
		return seq
	}
	return func(yield func(mainstem.Record, error) bool) {
		l.metrics.followers.Inc()
		defer l.metrics.followers.Dec()
		seq(yield)
	}
}

// Clock implements [mainstem.ClockKeeper] if the log does.
func (l *measured) Clock(ctx context.Context) (mainstem.ClockState, error) {
	if k, ok := l.Log.(mainstem.ClockKeeper); ok {
		return k.Clock(ctx)
	}
	return mainstem.ClockState{}, noClock("clock")
}

// FailStop implements [mainstem.FailStopper].
func (l *measured) FailStop() bool {
	f, ok := l.Log.(mainstem.FailStopper)
	return ok && f.FailStop()
}

// AcceptClock implements [mainstem.ClockKeeper] if the log does.
func (l *measured) AcceptClock(ctx context.Context) (mainstem.ClockState, error) {
	if k, ok := l.Log.(mainstem.ClockKeeper); ok {
		return k.AcceptClock(ctx)
	}
	return mainstem.ClockState{}, noClock("accept clock")
}

func noClock(op string) error {
	return mainstem.Errorf(mainstem.KindUnsupported, op, "this log does not watch its clock")
}
