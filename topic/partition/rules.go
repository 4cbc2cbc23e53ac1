package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Rules are the rules for record batches that are appended to a topic. Times are milliseconds.
type Rules struct {
	MaxMessage    int64 // the most bytes of a record batch, as it is sent
	Compact       bool  // the topic is compacted: every record must have a key
	LogAppendTime bool  // timestamps are replaced by the time of the append; Before and After do not apply
	Before        int64 // how far a timestamp may be behind the clock; math.MaxInt64: no limit
	After         int64 // how far a timestamp may be ahead of the clock
}

// The configurations that errors for refused batches name.
const (
	maxMessageBytes = "max.message.bytes"
	timestampType   = "message.timestamp.type"
	timestampBefore = "message.timestamp.before.max.ms"
	timestampAfter  = "message.timestamp.after.max.ms"
)

// CheckSize returns a [*recordbatch.Error] of reason TooLarge if a record batch of n bytes is larger
// than MaxMessage. If that is 0, all are.
func (r *Rules) CheckSize(n int) error {
	if int64(n) > r.MaxMessage {
		return &recordbatch.Error{Reason: recordbatch.TooLarge, Err: fmt.Errorf("the batch has %d bytes: the limit is %d", n, r.MaxMessage)}
	}
	return nil
}

// checkTimes checks the first and the max timestamp of a batch, and that the producer has not set
// the attribute of log append time. now is the clock, in milliseconds since 1970.
func (r *Rules) checkTimes(h *recordbatch.Batch, now int64) error {
	if h.LogAppendTime() {
		return badTime("the batch claims log append time: only the topic's %s can ask for it", timestampType)
	}
	if err := r.CheckTime(h.FirstTimestamp, now); err != nil {
		return err
	}
	return r.CheckTime(h.MaxTimestamp, now)
}

// CheckTime returns a [*recordbatch.Error] of reason BadTimestamp if the timestamp ms is too far
// from the clock, now. Both are in milliseconds since 1970. NoTimestamp is allowed.
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

// Refuse returns the error of a call op that may not store a record batch in a space because of
// why: Invalid, with the outcome NotWritten.
func Refuse(op, space string, why error) error {
	e := &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: space, Outcome: mainstem.NotWritten, Err: why}
	var bad *recordbatch.Error
	if errors.As(why, &bad) && bad.Reason == recordbatch.TooLarge {
		e.Hint = "send smaller batches or raise " + maxMessageBytes
	}
	return e
}
