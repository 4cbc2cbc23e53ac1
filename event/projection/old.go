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

// oldBuild is tables that are not read any more. Every engine of the store removes them when they are due; a
// version is never used again, so removing it twice does no harm.
type oldBuild struct {
	Tables []string  `json:"tables"`
	Due    time.Time `json:"due"`
}

// leaveTo notes that a version of tables is to be removed after a time.
func (c controls) leaveTo(b *mainstem.Batch, name, tables string, version int, keep time.Duration) {
	var names []string
	for _, t := range splitTables(tables) {
		names = append(names, readmodel.VersionName(t, version))
	}
	c.old.PutTo(b, fmt.Sprintf("%s@v%d", name, max(version, 1)), oldBuild{Tables: names, Due: time.Now().Add(keep).UTC()})
}

// sweepAgain is the pause after an error.
var sweepAgain = backoff.Policy{First: 100 * time.Millisecond, Max: time.Minute, Jitter: 0.5}

// sweepEvery is how often an engine looks for tables to remove that other engines have left.
const sweepEvery = 10 * time.Minute

// sweep removes old tables until ctx ends.
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

// removeOld removes the tables that are due, and returns when the next are.
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
		if err := c.old.Delete(ctx, o.Key); err != nil {
			return next, err
		}
		logger.Info("removed tables that are read no more", "store", store.Name(), "tables", o.Value.Tables)
	}
	return next, nil
}
