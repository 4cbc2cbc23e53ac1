package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
)

// A tap may hear of the end of the owner before the event does. Nobody finds the event after Ended.
func TestTapThatHearsOfTheEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		var e *Event[int]
		r, err := Spawn(n, Func[string](func(c *Context[string], name string) (err error) {
			e, err = NewEvent[int](c, name, nil)
			return err
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Send(t.Context(), "numbers"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		owner := r.core()
		var own *watch // the event's
		for w := range owner.coreExtras.watchers {
			own = w
		}
		ends := 0
		if _, err := e.tap(Tap{
			Ready: func(int) {},
			Value: func(context.Context, any) error { return nil },
			Ended: func(error) {
				ends++
				if _, err := LookupEvent[int](n, "numbers"); !errors.Is(err, mainstem.ErrNotFound) {
					t.Errorf("LookupEvent in Ended: %v, want NotFound", err)
				}
				if _, err := e.Publish(t.Context(), 1); !errors.Is(err, ErrStopped) {
					t.Errorf("Publish in Ended: %v, want ErrStopped", err)
				}
			},
		}); err != nil {
			t.Fatal(err)
		}
		for w := range owner.coreExtras.watchers {
			if w != own {
				w.notify(Killed)
			}
		}
		synctest.Wait()
		if ends != 1 {
			t.Errorf("Ended was called %d times, want once", ends)
		}
	})
}
