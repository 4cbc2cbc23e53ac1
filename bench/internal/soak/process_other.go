//go:build !unix

package soak

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
