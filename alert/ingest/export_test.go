package ingest

import "time"

// SetMemoryWait sets how long a request waits for memory. It is called before the first request.
func (h *Webhook) SetMemoryWait(d time.Duration) { h.memoryWait = d }
