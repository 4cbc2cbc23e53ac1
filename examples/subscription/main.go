// Command subscription keeps a table of totals up to date with a stream of events. The writes of
// the handler and the checkpoint of the subscription are one commit, so each event is counted once,
// even if the program is killed at any moment.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
)

// Deposit is the data of the events.
type Deposit struct {
	Amount int64 `json:"amount"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "subscription:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		return err
	}
	defer log.Close()
	accounts, err := event.Open(log, "accounts", nil)
	if err != nil {
		return err
	}
	totals, err := kv.Open[int64](log, "bank/totals", nil)
	if err != nil {
		return err
	}

	sub, err := accounts.Subscribe(ctx, "totals", nil, func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
		var d Deposit
		if err := json.Unmarshal(ev.Data, &d); err != nil {
			return err
		}
		old, err := totals.Get(ctx, ev.Stream)
		if err != nil && mainstem.KindOf(err) != mainstem.KindNotFound {
			return err
		}
		totals.PutTo(b, ev.Stream, old.Value+d.Amount)
		return nil
	})
	if err != nil {
		return err
	}
	defer sub.Close()
	// If the subscription ends by itself (its handler fails permanently, or the log is closed), the
	// program ends too; otherwise events would remain unhandled without notice. A second instance
	// may run beside this one: one of the two handles the events, and the other continues when that
	// one has ended.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		<-sub.Done()
		stop(sub.Err())
	}()

	var last mainstem.Position
	for i := range int64(10) {
		ev, err := event.JSON("Deposited", Deposit{Amount: i})
		if err != nil {
			return err
		}
		done, err := accounts.Append(ctx, fmt.Sprintf("account-%d", i%2), event.AnyVersion, []event.Event{ev})
		if err != nil {
			return err
		}
		last = done.LastPosition
	}
	if err := sub.WaitFor(ctx, last); err != nil { // read your own writes
		return err
	}
	for e, err := range totals.List(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Println(e.Key, e.Value)
	}
	return nil
}
