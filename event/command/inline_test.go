package command_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// A command with an inline projection is one commit, and commands that change one row lose no
// update.
func TestInlineProjection(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) { testInlineProjection(t, &logUnderTest{Log: log}) })
}

func testInlineProjection(t *testing.T, under *logUnderTest) {
	s := shopWith(t, under, true, command.Retry(command.RetryOptions{Attempts: 100, First: time.Millisecond, Max: 10 * time.Millisecond}))
	before := under.commits.Load()
	if r := s.dispatch(place{ID: "0", Item: "book"}); r.Version != 1 || s.ordered("book") != 1 || s.sold("book") != 1 {
		t.Errorf("%+v, %d ordered, %d sold", r, s.ordered("book"), s.sold("book"))
	}
	if n := under.commits.Load() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	if _, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book", Fail: aggregate.ErrTerminal}); !errors.Is(err, aggregate.ErrTerminal) || s.ordered("book") != 1 {
		t.Errorf("a command that fails: %v, %d ordered", err, s.ordered("book"))
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5 {
				if _, err := s.bus.Dispatch(t.Context(), place{ID: fmt.Sprint("g", g, i), Item: "book"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s.ordered("book") != 41 || s.sold("book") != 41 {
		t.Errorf("%d ordered, %d sold", s.ordered("book"), s.sold("book"))
	}

	plain := shopOn(t, under) // a program without the projection
	var refused *event.InlineError
	if _, err := plain.bus.Dispatch(t.Context(), place{ID: "2", Item: "book"}); !errors.As(err, &refused) || !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a program without the projection: %v", err)
	}
	if len(s.events("2")) != 0 {
		t.Error("its event was written")
	}
}
