package crashtest

import (
	"sync/atomic"
	"time"
)

// Epoch is where the clock of every workload begins. Read at Epoch, nothing that
// a workload wrote has expired yet.
var Epoch = time.Date(2031, time.March, 1, 0, 0, 0, 0, time.UTC)

// Clock is a clock that moves only when it is told to. Its zero value shows
// [Epoch]. It may be used from many goroutines.
type Clock struct{ past atomic.Int64 }

// Now returns the time shown.
func (c *Clock) Now() time.Time { return Epoch.Add(time.Duration(c.past.Load())) }

// Set moves the clock to d after [Epoch], forwards or backwards.
func (c *Clock) Set(d time.Duration) { c.past.Store(int64(d)) }
