package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Rules say which record batches the partitions of a topic take. Times are milliseconds.
type Rules struct {
	MaxMessage    int64 // bytes of one record batch as it is sent
	Compact       bool  // then every record needs a key
	LogAppendTime bool  // timestamps are replaced by the time of the append
	Before        int64 // how far a producer's timestamp may lie in the past; math.MaxInt64: any
	After         int64 // how far it may lie in the future
}

// The configurations of a topic that the messages about refused batches name.
const (
	maxMessageBytes = "max.message.bytes"
	timestampType   = "message.timestamp.type"
	timestampBefore = "message.timestamp.before.max.ms"
	timestampAfter  = "message.timestamp.after.max.ms"
)

// checkTimes checks the timestamps that a producer gave to a record batch.
func (r *Rules) checkTimes(h *recordbatch.Batch, now int64) error {
	if h.LogAppendTime() {
		return badTime("the batch claims log append time: only the topic's %s can ask for it", timestampType)
	}
	if err := r.CheckTime(h.FirstTimestamp, now); err != nil {
		return err
	}
	return r.CheckTime(h.MaxTimestamp, now)
}

// CheckTime checks a producer's timestamp against the clock: one that is too far away is
// refused with a [*recordbatch.Error].
func (r *Rules) CheckTime(ms, now int64) error {
	switch {
	case ms == recordbatch.NoTimestamp:
	case ms > now && ms-now > r.After:
		return badTime("timestamp %d is %d ms ahead of the clock: %s is %d", ms, ms-now, timestampAfter, r.After)
	case r.Before < math.MaxInt64 && ms < now && now-ms > r.Before:
		return badTime("timestamp %d is %d ms behind the clock: %s is %d", ms, now-ms, timestampBefore, r.Before)
	}
	return nil
}

func badTime(format string, args ...any) error {
	return &recordbatch.Error{Reason: recordbatch.BadTimestamp, Err: fmt.Errorf(format, args...)}
}

// Refuse makes the error of a call from why a record batch may not be stored in a space:
// Invalid, and nothing was written.
func Refuse(op, space string, why error) error {
	e := &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: space, Outcome: mainstem.NotWritten, Err: why}
	var bad *recordbatch.Error
	if errors.As(why, &bad) && bad.Reason == recordbatch.TooLarge {
		e.Hint = "send smaller batches or raise " + maxMessageBytes
	}
	return e
}
