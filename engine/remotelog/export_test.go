package remotelog

import "time"

// SetGrace changes how long Close waits for running calls.
func (l *Log) SetGrace(d time.Duration) { l.grace = d }
