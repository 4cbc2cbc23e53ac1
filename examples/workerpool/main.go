// Command workerpool sums numbers with workers that panic at random. A supervisor
// restarts them, and the caller that asked for a job that failed asks again: nothing is lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

func main() {
	if err := run(context.Background(), 1000); err != nil {
		fmt.Fprintln(os.Stderr, "workerpool:", err)
		os.Exit(1)
	}
}

// job asks for the square of a number.
type job struct {
	n     int
	reply actor.Reply[int]
}

// worker does jobs, with tools that it takes from a shelf without looking.
type worker struct {
	shelf  [9]string
	failed *atomic.Int64
}

// Receive panics one time in ten: it reaches beyond the end of the shelf.
func (w *worker) Receive(_ *actor.Context[job], j job) error {
	hand := rand.IntN(len(w.shelf) + 1)
	if hand == len(w.shelf) {
		w.failed.Add(1)
	}
	_ = w.shelf[hand]
	return j.reply.Send(j.n * j.n)
}

func run(ctx context.Context, jobs int) error {
	node, err := actor.Open("factory", nil)
	if err != nil {
		return err
	}
	defer node.Close()
	var failed atomic.Int64
	pool, err := actor.NewPool(node, func() *worker { return &worker{failed: &failed} }, &actor.PoolOptions[job]{
		Workers: 4,
		Routing: actor.LeastLoaded,
		// A limit for bad luck: a bug that fails each time is beyond it soon.
		Limit: actor.Limit{Intensity: 100_000, Window: time.Minute},
	})
	if err != nil {
		return err
	}

	results := make([]int, jobs)
	errs := make([]error, jobs)
	var clients sync.WaitGroup
	for n := range jobs {
		clients.Go(func() { results[n], errs[n] = square(ctx, pool.Ref(), n) })
	}
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	sum := 0
	for _, r := range results {
		sum += r
	}
	fmt.Println("the sum of the squares below", jobs, "is", sum)
	fmt.Println("workers panicked on the way:", failed.Load() > 0)
	return nil
}

// square asks until it gets an answer. A worker that fails while it does the job
// answers with ErrNoReply.
func square(ctx context.Context, pool actor.Ref[job], n int) (int, error) {
	for {
		v, err := actor.Ask(ctx, pool, func(r actor.Reply[int]) job { return job{n, r} })
		if !errors.Is(err, actor.ErrNoReply) {
			return v, err
		}
	}
}
