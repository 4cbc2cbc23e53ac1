package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// narrow is a log that refuses large batches of rows.
type narrow struct {
	mainstem.Log
	space  string // begins so
	writes int
}

func (n narrow) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if w := b.Writes(); len(w) > n.writes && strings.HasPrefix(w[0].Space, n.space) {
		return mainstem.Receipt{}, mainstem.Refusef(mainstem.KindInvalid, "commit", "the batch has %d writes", len(w))
	}
	return n.Log.Commit(ctx, b)
}

// TestStatementsTooLargeTogether are waiting at once. Each fits in a batch but one.
func TestStatementsTooLargeTogether(t *testing.T) {
	s := open(t, narrow{testengines.Memory(t), "alert/d.t#", 2}, Options{})
	exec(t, s, "create database d; create table d.t (A int primary key)")
	held, end := make(chan struct{}), make(chan struct{})
	go func() {
		_, err := s.do(context.WithoutCancel(t.Context()), alone, func(*tx) error {
			close(held)
			<-end
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	<-held
	const statements = 7
	errs := make([]chan error, statements)
	for i := range errs {
		errs[i] = make(chan error, 1)
		text := fmt.Sprintf("insert into d.t values (%d), (%d)", 10*i, 10*i+1)
		if i == 3 {
			text += ", (100)"
		}
		go func() {
			_, err := s.Exec(context.WithoutCancel(t.Context()), text)
			errs[i] <- err
		}()
	}
	testkit.Eventually(t, "the statements are waiting", func() bool { return len(s.jobs) == statements })
	close(end)
	for i := range errs {
		if err := <-errs[i]; errors.Is(err, mainstem.ErrInvalid) != (i == 3) {
			t.Errorf("statement %d: %v", i, err)
		}
	}
	want(t, s, "[[12]]", "select count(*) from d.t")
}
