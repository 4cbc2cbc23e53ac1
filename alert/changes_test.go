package alert

import (
	"context"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// hold keeps the writer of s from its work until end is called.
func hold(t *testing.T, s *Server) (end func()) {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		_, err := s.do(context.WithoutCancel(t.Context()), alone, func(*tx) error {
			close(held)
			<-release
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	<-held
	return func() { close(release) }
}

// TestChangesOfATableAlteredElsewhere: changes after an alteration have its columns, also at
// a server that has not come to it.
func TestChangesOfATableAlteredElsewhere(t *testing.T) {
	log := testengines.Memory(t)
	a, b := open(t, log, Options{}), open(t, log, Options{})
	end := hold(t, b)
	altered := exec(t, a, "alter table alerts.status add column X int")
	exec(t, a, "insert into alerts.status (Identifier, X) values ('a', 5)")
	got := make(chan int64, 1)
	go func() {
		x := int64(-1)
		for c, err := range b.Changes(t.Context(), "alerts.status", &ChangeOptions{After: altered.Position, NoFollow: true}) {
			if err != nil {
				t.Error(err)
				break
			}
			x = c.Row.Int("X")
		}
		got <- x
	}()
	testkit.Eventually(t, "the follower and the changes wait for the server", func() bool { return len(b.jobs) == 2 })
	end()
	if x := <-got; x != 5 {
		t.Errorf("the new column is %d", x)
	}
}
