package crashtest

import (
	"context"

	"github.com/mainstemdev/mainstem"
)

// Log is what this package demands of an engine under test.
type Log interface {
	mainstem.Log
	mainstem.Snapshotter
	mainstem.Backuper
	mainstem.Checker
	// Sweep removes what has expired or exceeds the limits of its space, now.
	Sweep(ctx context.Context) error
}
