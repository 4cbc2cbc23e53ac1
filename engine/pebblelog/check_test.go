package pebblelog_test

import (
	"context"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// hookedContext calls hook each time that it is asked whether it has ended.
type hookedContext struct {
	context.Context
	hook func()
}

func (c hookedContext) Err() error {
	c.hook()
	return c.Context.Err()
}

// TestCloseEndsCheck closes a log while Check reads it.
func TestCloseEndsCheck(t *testing.T) {
	l, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	commitOne(t, l, func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("k"), nil)
	})
	closed := make(chan error, 1)
	var once sync.Once
	ctx := hookedContext{t.Context(), func() {
		if open, _ := l.OpenSnapshots(); open == 0 {
			return // Check has not come so far
		}
		once.Do(func() {
			go func() { closed <- l.Close() }()
			testkit.Eventually(t, "Close has closed the snapshot of Check, or waits for it", func() bool {
				open, closing := l.OpenSnapshots()
				return open == closing
			})
		})
	}}
	_, err = l.Check(ctx, func(p mainstem.Problem) { t.Errorf("%s: %s", p.Where, p.What) })
	if mainstem.KindOf(err) != mainstem.KindClosed {
		t.Errorf("Check: %v, want Closed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
