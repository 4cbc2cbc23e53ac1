package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// recorders spawns n actors that record their messages.
func recorders(t testing.TB, node *actor.Node, n int) ([]actor.Ref[int], [][]int) {
	t.Helper()
	refs, got := make([]actor.Ref[int], n), make([][]int, n)
	for i := range n {
		refs[i] = spawn(t, node, func(_ *actor.Context[int], m int) error {
			got[i] = append(got[i], m)
			return nil
		}, nil)
	}
	return refs, got
}

func TestRoundRobinPassesOverStoppedRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		refs, got := recorders(t, node, 3)
		r, err := actor.NewRouter(actor.RoundRobin, nil, refs...)
		if err != nil {
			t.Fatal(err)
		}
		send(t, r.Ref(), 1, 2, 3, 4, 5, 6)
		synctest.Wait()
		refs[1].Stop()
		wait(t, refs[1])
		synctest.Wait()
		send(t, r.Ref(), 7, 8, 9)
		if !r.Remove(refs[0]) || r.Remove(refs[0]) {
			t.Error("Remove: want true once")
		}
		send(t, r.Ref(), 10, 11)
		synctest.Wait()
		if want := [][]int{{1, 4, 7}, {2, 5}, {3, 6, 8, 9, 10, 11}}; !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got %v, want %v", got, want)
		}
		r.Remove(refs[1])
		r.Remove(refs[2])
		if err := r.Ref().Send(t.Context(), 12); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Send without routes: %v, want ErrStopped", err)
		}
		more, gotMore := recorders(t, node, 1)
		r.Add(more[0])
		send(t, r.Ref(), 13)
		synctest.Wait()
		if !slices.Equal(gotMore[0], []int{13}) {
			t.Errorf("the added route got %v", gotMore[0])
		}
	})
}

func TestRouterRemovesTheRouteThatIsMeant(t *testing.T) {
	node := open(t)
	far := func(name string) actor.Ref[int] {
		r, err := actor.At[int](node, actor.Address{Node: "far", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	k, err := actor.NewKeyed(node, func(any) actor.Func[int] {
		return func(*actor.Context[int], int) error { return nil }
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	inner := [2]*actor.Router[int]{}
	for i := range inner {
		if inner[i], err = actor.NewRouter[int](actor.RoundRobin, nil); err != nil {
			t.Fatal(err)
		}
	}
	adapted := actor.Adapt(far("c"), func(m int) int { return m })
	routes := []actor.Ref[int]{
		far("a"), far("b"), k.Ref(1), k.Ref(2), k.Ref([]int{3}), inner[0].Ref(), inner[1].Ref(), adapted, {},
	}
	r, err := actor.NewRouter(actor.RoundRobin, nil, routes...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		route actor.Ref[int]
		index int // in routes
	}{{inner[1].Ref(), 6}, {k.Ref(2), 3}, {far("b"), 1}, {actor.Ref[int]{}, 8}, {adapted, 7}} {
		if !r.Remove(c.route) || r.Remove(c.route) {
			t.Errorf("Remove of route %d: want true once", c.index)
		}
	}
	if r.Remove(far("c")) || r.Remove(k.Ref([]int{3})) {
		t.Error("a route was removed that is not equal to the reference")
	}
	left := r.Routes()
	if len(left) != 4 || left[0] != routes[0] || left[1] != routes[2] || left[3] != routes[5] {
		t.Errorf("left %v, want routes 0, 2, 4 and 5", left)
	}
}

func TestRouterThatDoesNotFitItsKey(t *testing.T) {
	key := func(int) string { return "" }
	for _, c := range []struct {
		routing actor.Routing
		key     func(int) string
	}{{actor.ByKey, nil}, {actor.RoundRobin, key}, {actor.ByKey + 1, nil}} {
		if _, err := actor.NewRouter(c.routing, c.key); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("NewRouter(%d, key %v): %v, want Invalid", c.routing, c.key != nil, err)
		}
	}
}

func TestLeastLoadedPrefersTheIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		busy, idle := worker(t, node, nil), worker(t, node, nil)
		hold := make(chan struct{})
		send(t, busy, func(*actor.Context[job]) error { <-hold; return nil })
		synctest.Wait()
		r, err := actor.NewRouter(actor.LeastLoaded, nil, busy, idle)
		if err != nil {
			t.Fatal(err)
		}
		var by []string
		for range 6 {
			send(t, r.Ref(), func(c *actor.Context[job]) error { by = append(by, c.Self().String()); return nil })
			synctest.Wait()
		}
		close(hold)
		if want := slices.Repeat([]string{idle.String()}, 6); !slices.Equal(by, want) {
			t.Errorf("handled by %v, want %v", by, want)
		}
	})
}

func TestByKeyKeepsKeysTogetherAndMovesFew(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		node, err := actor.Open("keys", nil)
		if err != nil {
			rt.Fatal(err)
		}
		defer node.Close()
		n := rapid.IntRange(1, 9).Draw(rt, "routes")
		keys := rapid.IntRange(100, 400).Draw(rt, "keys")
		var mu sync.Mutex
		at := make(map[string][]int) // the routes that have handled a key
		route := func(i int) actor.Ref[string] {
			return spawn(t, node, func(_ *actor.Context[string], m string) error {
				mu.Lock()
				defer mu.Unlock()
				at[m] = append(at[m], i)
				return nil
			}, nil)
		}
		var refs []actor.Ref[string]
		for i := range n {
			refs = append(refs, route(i))
		}
		r, err := actor.NewRouter(actor.ByKey, func(m string) string { return m }, refs...)
		if err != nil {
			rt.Fatal(err)
		}
		say := func() {
			for k := range keys {
				if err := r.Ref().Send(t.Context(), strconv.Itoa(k)); err != nil {
					rt.Fatal(err)
				}
			}
		}
		say()
		say()
		r.Add(route(n))
		say()
		if err := node.Stop(t.Context()); err != nil {
			rt.Fatal(err)
		}
		for k, by := range at {
			// Each route keeps its own order, so routes are compared, not times.
			slices.Sort(by)
			old := by[0]
			if moved := by[2] != old; len(by) != 3 || by[1] != old || moved && by[2] != n {
				rt.Fatalf("key %s was handled by %v of %d routes: want one, and only the new one after it came", k, by, n)
			}
		}
	})
}

type task struct {
	n     int
	reply actor.Reply[int]
}

func TestPoolSurvivesItsWorkers(t *testing.T) {
	node := open(t)
	boom := errors.New("boom")
	pool, err := actor.NewPool(node, func() actor.Func[task] {
		return func(_ *actor.Context[task], m task) error {
			if m.n%3 == 0 {
				return boom
			}
			return m.reply.Send(m.n * m.n)
		}
	}, &actor.PoolOptions[task]{Name: "squares", Workers: 4, Limit: actor.Limit{Intensity: 1000, Window: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		v, err := actor.Ask(t.Context(), pool.Ref(), func(r actor.Reply[int]) task { return task{n, r} })
		switch {
		case n%3 == 0 && !errors.Is(err, actor.ErrNoReply):
			t.Errorf("%d: %v, want ErrNoReply", n, err)
		case n%3 != 0 && (err != nil || v != n*n):
			t.Errorf("%d: %d, %v", n, v, err)
		}
	}
	children, err := pool.Supervisor().Children(t.Context())
	if err != nil || len(children) != 4 {
		t.Fatalf("children %v, %v, want 4", children, err)
	}
	if pool.Ref().Address().Name != "squares" {
		t.Errorf("address %s", pool.Ref().Address())
	}
	pool.Ref().Stop()
	if _, err := actor.Wait(t.Context(), pool.Ref()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all actors to end", func() bool { return node.Len() == 0 })
}

func TestPoolPushesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		release := make(chan struct{})
		pool, err := actor.NewPool(node, func() actor.Func[int] {
			return func(*actor.Context[int], int) error { <-release; return nil }
		}, &actor.PoolOptions[int]{Workers: 2, Worker: actor.ChildOptions{Options: actor.Options{Mailbox: 2, Overflow: actor.Block}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			send(t, pool.Ref(), i)
			synctest.Wait() // each worker takes one
		}
		for i := range 4 {
			send(t, pool.Ref(), i) // each worker has room for two
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := pool.Ref().Send(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Send to a full pool: %v, want a deadline", err)
		}
		close(release)
		send(t, pool.Ref(), 6)
	})
}

func TestPoolResizesWithoutLoss(t *testing.T) {
	node := open(t)
	var handled atomic.Int64
	pool, err := actor.NewPool(node, func() actor.Func[int] {
		return func(*actor.Context[int], int) error { handled.Add(1); return nil }
	}, &actor.PoolOptions[int]{Workers: 2, Routing: actor.LeastLoaded})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, n := range []int{8, 1, 3, 1, 5} {
		for range 500 {
			send(t, pool.Ref(), sent)
			sent++
		}
		if err := pool.Resize(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if w := pool.Workers(); len(w) != n {
			t.Errorf("%d workers, want %d", len(w), n)
		}
	}
	testkit.Eventually(t, "all messages to be handled", func() bool { return handled.Load() == int64(sent) })
	if err := pool.Resize(t.Context(), 0); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Resize to 0: %v, want Invalid", err)
	}
}

// lazy is a worker that may take an hour to start.
type lazy struct{ start func() }

func (l *lazy) Start(*actor.Context[job]) error {
	l.start()
	return nil
}

func (l *lazy) Receive(c *actor.Context[job], m job) error { return m(c) }

// A Resize that is given up still starts or stops a worker; the next one counts that.
func TestPoolResizeThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		start := func() {
			if slow.Load() {
				time.Sleep(time.Hour)
			}
		}
		pool, err := actor.NewPool(open(t), func() *lazy { return &lazy{start} }, &actor.PoolOptions[job]{
			Workers: 2, Worker: actor.ChildOptions{Options: actor.Options{Grace: -1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		resize := func(workers int, want error) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := pool.Resize(ctx, workers); !errors.Is(err, want) {
				t.Fatalf("Resize to %d: %v, want %v", workers, err, want)
			}
			slow.Store(false)
			time.Sleep(2 * time.Hour)
		}
		slow.Store(true)
		resize(4, context.DeadlineExceeded) // the third worker is started after that
		resize(5, nil)
		send(t, pool.Workers()[4], func(*actor.Context[job]) error { time.Sleep(time.Hour); return nil })
		resize(3, context.DeadlineExceeded) // the fifth worker ends after that
		resize(2, nil)
		children, err := pool.Supervisor().Children(t.Context())
		if n := len(pool.Workers()); err != nil || n != 2 || len(children) != 2 {
			t.Errorf("%d workers, children %v, %v, want 2", n, children, err)
		}
	})
}

// A Resize waits for another one only as its context allows.
func TestPoolResizeBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		var slow atomic.Bool
		start := func() {
			if slow.Load() {
				<-let
			}
		}
		pool, err := actor.NewPool(open(t), func() *lazy { return &lazy{start} }, &actor.PoolOptions[job]{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		slow.Store(true)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- pool.Resize(t.Context(), 2) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { second <- pool.Resize(ctx, 3) }()
		cancel()
		synctest.Wait()
		select {
		case err := <-second:
			if !errors.Is(err, mainstem.ErrCanceled) {
				t.Errorf("Resize behind another: %v, want Canceled", err)
			}
		default:
			t.Error("Resize waits for another one longer than its context")
		}
		close(let)
		if err := <-first; err != nil || len(pool.Workers()) != 2 {
			t.Errorf("%d workers, %v, want 2", len(pool.Workers()), err)
		}
	})
}

func TestPoolsThatCannotBe(t *testing.T) {
	node := open(t)
	fresh := func() actor.Func[int] {
		return func(*actor.Context[int], int) error { return nil }
	}
	for name, o := range map[string]*actor.PoolOptions[int]{
		"fewer than none": {Workers: -1},
		"too many":        {Workers: actor.MaxWorkers + 1},
		"one name":        {Worker: actor.ChildOptions{Options: actor.Options{Name: "x"}}},
		"idle":            {Worker: actor.ChildOptions{Options: actor.Options{Idle: time.Second}}},
		"no key":          {Routing: actor.ByKey},
		"worker":          {Worker: actor.ChildOptions{Options: actor.Options{Mailbox: -1}}},
	} {
		if _, err := actor.NewPool(node, fresh, o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
	if node.Len() != 0 {
		t.Errorf("%d actors are left", node.Len())
	}
}

func ExampleNewPool() {
	node, err := actor.Open("shop", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	square := func() actor.Func[task] {
		return func(_ *actor.Context[task], m task) error { return m.reply.Send(m.n * m.n) }
	}
	pool, err := actor.NewPool(node, square, &actor.PoolOptions[task]{Workers: 4, Routing: actor.LeastLoaded})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := actor.Ask(context.Background(), pool.Ref(), func(r actor.Reply[int]) task { return task{12, r} })
	fmt.Println(v, err)
	// Output: 144 <nil>
}
