//go:build !unix

package coordinator

import (
	"testing"
	"time"
)

// processorTime is not known on this system: 0.
func processorTime(testing.TB) time.Duration { return 0 }
