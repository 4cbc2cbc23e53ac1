package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A case that takes long and goes on is not ended; one that stands still is.
func TestDeadlineOfACaseMeansProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress(time.Minute)
		defer p.stop()
		for range 10 {
			time.Sleep(59 * time.Second)
			p.moved()
		}
		if p.Err() != nil {
			t.Fatalf("ended while it went on: %v", context.Cause(p))
		}
		time.Sleep(61 * time.Second)
		if !errors.Is(context.Cause(p), context.DeadlineExceeded) {
			t.Errorf("not ended though nothing moved: %v", context.Cause(p))
		}
	})
}
