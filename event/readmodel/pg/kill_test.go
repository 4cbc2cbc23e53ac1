package readmodelpg_test

import (
	"context"
	"time"
)

const workerVariable = "READMODELPG_WORKER"

func worker(string) int { return 1 }

// pause waits, but not after ctx has ended.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
