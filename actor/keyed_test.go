package actor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// store keeps the balances of accounts whose actors have ended. It records in bad the keys that had
// two actors at once.
type store struct {
	mu      sync.Mutex
	balance map[string]int
	lives   int
	open    map[string]bool
	bad     []string
}

func (s *store) load(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] {
		s.bad = append(s.bad, key)
	}
	s.open[key] = true
	s.lives++
	return s.balance[key]
}

func (s *store) save(key string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[key] = false
	s.balance[key] = n
}

func newStore() *store { return &store{balance: make(map[string]int), open: make(map[string]bool)} }

// account counts for one key. It loads its balance from the store when it starts, and saves it when
// it stops.
type account struct {
	store *store
	key   string
	n     int
}

func (a *account) Start(*actor.Context[task]) error {
	if a.key == "broken" {
		return errors.New("cannot load")
	}
	a.n = a.store.load(a.key)
	return nil
}

func (a *account) Receive(_ *actor.Context[task], m task) error {
	a.n += m.n
	return m.reply.Send(a.n)
}

func (a *account) Stop(*actor.Context[task], error) { a.store.save(a.key, a.n) }

func accounts(t testing.TB, node *actor.Node, s *store, o *actor.Options) *actor.Keyed[string, task] {
	t.Helper()
	k, err := actor.NewKeyed(node, func(key string) *account { return &account{store: s, key: key} }, o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func deposit(t testing.TB, k *actor.Keyed[string, task], key string, n int) int {
	t.Helper()
	v, err := actor.Ask(t.Context(), k.Ref(key), func(r actor.Reply[int]) task { return task{n, r} })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestKeyedActorsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, s := open(t), newStore()
		k := accounts(t, node, s, &actor.Options{Name: "accounts", Idle: time.Minute})
		deposit(t, k, "ann", 1)
		deposit(t, k, "bob", 10)
		if got := deposit(t, k, "ann", 2); got != 3 || k.Len() != 2 || s.lives != 2 {
			t.Errorf("ann has %d, %d actors, %d lives: want 3, 2, 2", got, k.Len(), s.lives)
		}
		time.Sleep(40 * time.Second)
		deposit(t, k, "bob", 1)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if _, ok := k.Actor("ann"); ok || k.Len() != 1 {
			t.Errorf("%d actors, ann's too: %v: want only bob's", k.Len(), ok)
		}
		if got := deposit(t, k, "ann", 4); got != 7 || s.lives != 3 {
			t.Errorf("ann has %d after %d lives, want 7 after 3", got, s.lives)
		}
		k.Owner().Stop()
		wait(t, k.Owner())
		if s.balance["bob"] != 11 || s.balance["ann"] != 7 || k.Len() != 0 {
			t.Errorf("saved %v, %d actors", s.balance, k.Len())
		}
		if node.DeadLetters() != 0 {
			t.Errorf("%d dead letters", node.DeadLetters())
		}
		if err := k.Send(t.Context(), "ann", task{}); !errors.Is(err, actor.ErrStopped) || node.DeadLetters() != 1 {
			t.Errorf("Send after the owner's end: %v, %d dead letters, want ErrStopped, 1", err, node.DeadLetters())
		}
	})
}

func TestKeyedActorThatCannotStartOrCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		k := accounts(t, node, newStore(), nil)
		for range 2 {
			if err := k.Send(t.Context(), "broken", task{}); err == nil || err.Error() != "cannot load" {
				t.Errorf("Send: %v, want the error of Start", err)
			}
		}
		synctest.Wait()
		if k.Len() != 0 {
			t.Errorf("%d actors that did not start", k.Len())
		}
		crashing, err := actor.NewKeyed(node, func(int) actor.Func[job] { return do }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := crashing.Send(t.Context(), 1, func(*actor.Context[job]) error { panic("crash") }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		awaitHandled(t, crashing.Ref(1))
	})
}

// Actors passivate all the time while many send: each message is counted once,
// and no key ever has two actors.
func TestKeyedLosesNothingBetweenTwoLives(t *testing.T) {
	node, s := open(t), newStore()
	k := accounts(t, node, s, &actor.Options{Idle: time.Microsecond})
	const senders, rounds, keys = 4, 1500, 3
	var wg sync.WaitGroup
	for from := range senders {
		wg.Go(func() {
			for i := range rounds {
				key := fmt.Sprint((from + i) % keys)
				var err error
				if i%2 == 0 {
					err = k.Send(t.Context(), key, task{n: 1})
				} else {
					_, err = actor.Ask(t.Context(), k.Ref(key), func(r actor.Reply[int]) task { return task{1, r} })
				}
				if err != nil {
					t.Errorf("message %d to %s: %v", i, key, err)
				}
			}
		})
	}
	wg.Wait()
	if err := node.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range s.balance {
		total += n
	}
	if total != senders*rounds || len(s.bad) != 0 || node.DeadLetters() != 0 {
		t.Errorf("counted %d of %d, keys with two actors %v, %d dead letters", total, senders*rounds, s.bad, node.DeadLetters())
	}
	if s.lives < 2*keys {
		t.Errorf("only %d lives: nothing was passivated", s.lives)
	}
}

func TestKeyedStartsOneActorForManySenders(t *testing.T) {
	node := open(t)
	for range 50 {
		var started, handled atomic.Int64
		k, err := actor.NewKeyed(node, func(int) *slowStart { return &slowStart{&started, &handled} }, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := k.Send(t.Context(), 7, 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		k.Owner().Drain()
		wait(t, k.Owner())
		if started.Load() != 1 || handled.Load() != 8 {
			t.Errorf("%d started, %d handled, want 1 and 8", started.Load(), handled.Load())
		}
	}
}

// A question to a key or a router can be passed on to another node.
func TestQuestionsToManyCanBeEncoded(t *testing.T) {
	type question struct{ reply actor.Reply[error] }
	node := open(t)
	encode := actor.Func[question](func(_ *actor.Context[question], m question) error {
		_, err := m.reply.MarshalText()
		return m.reply.Send(err)
	})
	k, err := actor.NewKeyed(node, func(string) actor.Func[question] { return encode }, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := actor.NewRouter(actor.RoundRobin, nil, k.Ref("a"), spawn(t, node, encode, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []actor.Ref[question]{k.Ref("b"), r.Ref(), r.Ref()} {
		got, err := actor.Ask(t.Context(), to, func(p actor.Reply[error]) question { return question{p} })
		if got != nil || err != nil {
			t.Errorf("%s: %v, %v", to, got, err)
		}
		g := group[question](t, node, "")
		if err := g.Join(to); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s joined a group: %v", to, err)
		}
	}
}

// lives counts the starts and ends that a node reports.
type lives struct {
	actor.NoObserver
	started, ended atomic.Int64
}

func (l *lives) Started(actor.AnyRef)      { l.started.Add(1) }
func (l *lives) Ended(actor.AnyRef, error) { l.ended.Add(1) }

// Of two senders that make the actor of a key at once, one discards its own: the observer does not
// see that, and Walk may see it at any time.
func TestKeyedDiscardsTheSecondActor(t *testing.T) {
	seen := new(lives)
	node, err := actor.Open("test", &actor.NodeOptions{Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 100
	done := make(chan struct{})
	var walker sync.WaitGroup
	walker.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				for range node.Walk() {
				}
			}
		}
	})
	for range rounds {
		var both sync.WaitGroup // both senders have found that there is no actor
		both.Add(2)
		k, err := actor.NewKeyed(node, func(int) actor.Func[int] {
			both.Done()
			both.Wait()
			return func(*actor.Context[int], int) error { return nil }
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var senders sync.WaitGroup
		for range 2 {
			senders.Go(func() {
				if err := k.Send(t.Context(), 7, 1); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
	}
	close(done)
	walker.Wait()
	if n := seen.ended.Load(); n != 0 {
		t.Errorf("%d ends of actors that were not started", n)
	}
	if err := node.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, e := seen.started.Load(), seen.ended.Load(); s != 2*rounds || e != s {
		t.Errorf("%d starts and %d ends, want %d of each: the owners and one actor for each", s, e, 2*rounds)
	}
}

type slowStart struct{ started, handled *atomic.Int64 }

func (s *slowStart) Start(*actor.Context[int]) error { s.started.Add(1); return nil }

func (s *slowStart) Receive(*actor.Context[int], int) error { s.handled.Add(1); return nil }

func ExampleNewKeyed() {
	node, err := actor.Open("bank", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	// An account is in memory while it is used, and for a minute after that.
	s := newStore()
	k, err := actor.NewKeyed(node, func(key string) *account {
		return &account{store: s, key: key}
	}, &actor.Options{Idle: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, n := range []int{20, 22} {
		v, err := actor.Ask(ctx, k.Ref("ann"), func(r actor.Reply[int]) task { return task{n, r} })
		fmt.Println(v, err)
	}
	// Output:
	// 20 <nil>
	// 42 <nil>
}
