package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/kv"
)

// oldBuild is a row of the table projection-old/<store>: a version of tables that is no longer
// read. Any engine of the store removes the tables when they are due. A version is not used again,
// so it does no harm if two engines remove it.
type oldBuild struct {
	Tables []string  `json:"tables"` // with their versions; none of a replay, which has only parked events to remove
	Due    time.Time `json:"due"`    // by the clock of the process that wrote the row
}

// leaveTo records, as part of b, that a version of tables is to be removed after keep.
func (c controls) leaveTo(b *mainstem.Batch, name, tables string, version int, keep time.Duration) {
	var names []string
	for _, t := range splitTables(tables) {
		names = append(names, readmodel.VersionName(t, version))
	}
	c.old.PutTo(b, fmt.Sprintf("%s@v%d", name, max(version, 1)), oldBuild{Tables: names, Due: time.Now().Add(keep).UTC()})
}

// sweepAgain is the pause after an error.
var sweepAgain = backoff.Policy{First: 100 * time.Millisecond, Max: time.Minute, Jitter: 0.5}

// sweepEvery is the longest pause between two searches for tables to remove.
const sweepEvery = 10 * time.Minute

// sweep removes old tables when they are due, until ctx ends.
func (e *Engine) sweep(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		next, err := e.controls.removeOld(ctx, e.store, e.opts.Logger)
		if err == nil {
			failures = 0
		} else if failures++; ctx.Err() == nil {
			next = sweepAgain.Delay(failures)
			e.opts.Logger.Warn("tables that are read no more cannot be removed yet", "store", e.store.Name(), "error", err)
		}
		backoff.SleepOr(ctx, e.swept, min(next, sweepEvery))
	}
}

// removeOld removes the tables that are due, and returns the time until the next ones are.
func (c controls) removeOld(ctx context.Context, store *event.Store, logger *slog.Logger) (next time.Duration, err error) {
	next = sweepEvery
	var due []kv.Entry[oldBuild]
	for o, err := range c.old.List(ctx, nil) {
		if err != nil {
			return next, err
		}
		if left := time.Until(o.Value.Due); left > 0 {
			next = min(next, left)
			continue
		}
		due = append(due, o)
	}
	for _, o := range due {
		for _, name := range o.Value.Tables {
			table, err := kv.Open[[]byte](store.Log(), name, nil)
			if err == nil {
				err = table.Drop(ctx)
			}
			if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				return next, fmt.Errorf("remove table %s: %w", name, err)
			}
		}
		if err := dropParked(ctx, store, o.Key); err != nil { // the key is the name of the set that has built them
			return next, err
		}
		if err := c.old.Delete(ctx, o.Key); err != nil {
			return next, err
		}
		if len(o.Value.Tables) == 0 { // of a replay
			continue
		}
		logger.Info("removed tables that are read no more", "store", store.Name(), "tables", o.Value.Tables)
	}
	return next, nil
}
