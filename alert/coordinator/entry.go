package coordinator

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// keepBuffer is the most that is kept of the memory for an answer, and flushBytes how
// much of a streamed answer is written at a time.
const (
	keepBuffer = 1 << 20
	flushBytes = 32 << 10
)

// form is how an answer is laid out.
type form uint8

const (
	arrayForm form = iota // one JSON array, an object for each cluster
	linesForm             // a JSON object in each line, for each row and for each end
	mergeForm             // as arrayForm, but the rows are kept to be merged
)

// errGone says that the client of the request takes no more.
var errGone = errors.New("the client of the request is gone")

// reply is the answer to one request. Entries write to it in turns.
type reply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // for a client that takes nothing
	turn    chan struct{} // held by the entry that writes
	begun   bool          // guarded by turn
}

// entry is what one cluster answers.
type entry struct {
	cluster string
	form    form
	reply   *reply
	buf     []byte
	ends    []int // mergeForm: of each row in buf
	start   int   // where the rows begin in buf
	rows    int
	limits  *OMNIConfig

	affected  int64
	err       error
	streaming bool // something was written: the turn is the entry's in arrayForm
	bytes     int64
	timer     *time.Timer
	ctx       context.Context
}

var entryBuffers = sync.Pool{New: func() any { return new([]byte) }}

func (e *entry) begin() {
	if p, ok := entryBuffers.Get().(*[]byte); ok {
		e.buf = (*p)[:0]
	}
	if e.form == arrayForm {
		e.buf = append(rowjson.AppendString(append(e.buf, `{"clusterName":`...), e.cluster), `,"rows":[`...)
	}
	e.start = len(e.buf)
}

// free gives the memory back. The entry must not be used again.
func (e *entry) free() {
	if cap(e.buf) <= keepBuffer {
		buf := e.buf[:0]
		entryBuffers.Put(&buf)
	}
	e.buf = nil
}

// reset forgets the rows, and reports whether none was written yet.
func (e *entry) reset() bool {
	if e.streaming {
		return false
	}
	e.buf, e.ends, e.rows, e.affected, e.bytes = e.buf[:e.start], e.ends[:0], 0, 0, 0
	return true
}

// row takes a row. The bytes are lent.
func (e *entry) row(json []byte) error {
	if e.bytes += int64(len(json)); e.bytes > e.limits.MaxResult {
		return mainstem.Refusef(mainstem.KindInvalid, "coordinator", "the result has more than %d bytes: ask for less, or raise omnibus.max_result", e.limits.MaxResult)
	}
	switch e.form {
	case arrayForm:
		if e.rows > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(e.buf, json...)
	case mergeForm:
		e.buf = append(e.buf, json...)
		e.ends = append(e.ends, len(e.buf))
	case linesForm:
		e.buf = append(rowjson.AppendString(append(e.buf, `{"clusterName":`...), e.cluster), `,"row":`...)
		e.buf = append(append(e.buf, json...), "}\n"...)
	}
	e.rows++
	switch {
	case e.form == linesForm && len(e.buf) >= flushBytes:
		return e.flushLines()
	case e.form == arrayForm && (len(e.buf) >= e.limits.StreamAfter || e.streaming && len(e.buf) >= flushBytes):
		return e.flush()
	}
	return nil
}

// flush writes what is there; from the first time on, the turn is the entry's. The
// cluster's time does not run meanwhile: the client is waited for.
func (e *entry) flush() error {
	e.pause()
	if !e.streaming {
		if err := e.reply.take(e.ctx); err != nil {
			return err
		}
		e.streaming = true
		e.reply.separate(&e.buf)
	}
	err := e.reply.write(e.buf)
	e.buf = e.buf[:0]
	e.resume()
	return err
}

func (e *entry) flushLines() error {
	e.pause()
	if err := e.reply.take(e.ctx); err != nil {
		return err
	}
	e.streaming = true
	e.reply.begun = true
	err := e.reply.write(e.buf)
	e.reply.give()
	e.buf = e.buf[:0]
	e.resume()
	return err
}

func (e *entry) pause() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

func (e *entry) resume() {
	if e.timer != nil {
		e.timer.Reset(e.limits.QueryTimeout)
	}
}

// finish completes the entry with how it ended. Rows that were written before an
// error stay.
func (e *entry) finish() {
	if e.err != nil {
		e.affected = 0
		e.reset()
	}
	switch e.form {
	case mergeForm:
		return
	case linesForm:
		e.buf = rowjson.AppendString(append(e.buf, `{"clusterName":`...), e.cluster)
	case arrayForm:
		e.buf = append(e.buf, ']')
	}
	e.buf = append(e.buf, `,"affectedRows":`...)
	e.buf = strconv.AppendInt(e.buf, e.affected, 10)
	if e.err != nil {
		p := problemOf(e.err)
		e.buf = p.append(append(e.buf, `,"error":`...))
	}
	e.buf = append(e.buf, '}')
	switch {
	case e.form == linesForm:
		e.buf = append(e.buf, '\n')
		_ = e.flushLines() // nobody is left to tell
	case e.streaming:
		_ = e.reply.write(e.buf) // nobody is left to tell
		e.buf = e.buf[:0]
		e.reply.give()
	}
}

// take waits for the turn to write.
func (r *reply) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return canceled(ctx)
	}
}

func (r *reply) give() { <-r.turn }

// separate puts what comes before an entry at its front.
func (r *reply) separate(buf *[]byte) {
	sign := byte('[')
	if r.begun {
		sign = ','
	}
	r.begun = true
	*buf = append(*buf, 0)
	copy((*buf)[1:], *buf)
	(*buf)[0] = sign
}

func (r *reply) write(b []byte) error {
	if err := r.control.SetWriteDeadline(time.Now().Add(r.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return mainstem.Refusef(mainstem.KindUnavailable, "coordinator", "%w: %w", errGone, err)
	}
	if _, err := r.w.Write(b); err != nil {
		return mainstem.Refusef(mainstem.KindUnavailable, "coordinator", "%w: %w", errGone, err)
	}
	if err := r.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return mainstem.Refusef(mainstem.KindUnavailable, "coordinator", "%w: %w", errGone, err)
	}
	return nil
}
