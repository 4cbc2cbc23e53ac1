package server

import (
	"context"
	"io"
	"testing"

	"github.com/mainstemdev/mainstem"
)

type canSnapshot struct{}

func (canSnapshot) Snapshot(context.Context) (mainstem.Snapshot, error) { return nil, nil }

type canBackup struct{}

func (canBackup) Backup(context.Context, io.Writer) error { return nil }

type canCheck struct{}

func (canCheck) Check(context.Context, func(mainstem.Problem)) (mainstem.CheckStats, error) {
	return mainstem.CheckStats{}, nil
}

// TestMeasureKeepsExactlyTheCapabilities: a log that gains one it has not would
// fail when it is used, one that loses one would do less than it can.
func TestMeasureKeepsExactlyTheCapabilities(t *testing.T) {
	type (
		l = mainstem.Log
		s = canSnapshot
		b = canBackup
		c = canCheck
	)
	for _, log := range []mainstem.Log{
		struct{ l }{},
		struct {
			l
			s
		}{},
		struct {
			l
			b
		}{},
		struct {
			l
			c
		}{},
		struct {
			l
			s
			b
		}{},
		struct {
			l
			s
			c
		}{},
		struct {
			l
			b
			c
		}{},
		struct {
			l
			s
			b
			c
		}{},
	} {
		if got, want := capabilities(measure(log, newMetrics())), capabilities(log); got != want {
			t.Errorf("%T: %v became %v", log, want, got)
		}
	}
}

// stops is a log that says whether it takes commits after one of unknown outcome.
type stops struct {
	mainstem.Log
	failStop bool
}

func (s stops) FailStop() bool { return s.failStop }

// A measured log stops after a failure if its log does.
func TestMeasureFailStop(t *testing.T) {
	for _, log := range []mainstem.Log{stops{failStop: true}, stops{}, struct{ mainstem.Log }{}} {
		want, _ := log.(stops)
		got, ok := measure(log, newMetrics()).(mainstem.FailStopper)
		if !ok || got.FailStop() != want.failStop {
			t.Errorf("%T: %v, want %v", log, got, want.failStop)
		}
	}
}

func capabilities(log mainstem.Log) (has [3]bool) {
	_, has[0] = log.(mainstem.Snapshotter)
	_, has[1] = log.(mainstem.Backuper)
	_, has[2] = log.(mainstem.Checker)
	return has
}
