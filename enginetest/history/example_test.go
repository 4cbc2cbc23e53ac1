package history_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/history"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

func Example() {
	ctx := context.Background()
	log := model.New(nil)
	rec := history.NewRecorder(log)
	if err := log.CreateSpace(ctx, "s", mainstem.Policy{}); err != nil {
		panic(err)
	}
	var clients sync.WaitGroup
	for i := range 4 {
		c := rec.Client()
		clients.Go(func() {
			for n := range 10 {
				last, _ := c.Get(ctx, "s", "counter")
				b := mainstem.NewBatch()
				if last.Version > 0 {
					b.IfVersion("s", []byte("counter"), last.Version)
				}
				b.Put("s", []byte("counter"), fmt.Appendf(nil, "client %d, write %d", i, n))
				_, _ = c.Commit(ctx, b)
			}
		})
	}
	clients.Wait()
	_, err := rec.Client().Feed(ctx, 0)
	fmt.Println(err, history.Check(rec.Operations()))
	// Output: <nil> []
}
