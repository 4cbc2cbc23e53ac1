package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// retryPolicy is the pause before an insert that failed is tried again.
var retryPolicy = backoff.Policy{First: 20 * time.Millisecond, Max: 5 * time.Second}

// logEvery is how often a receiver says in the log what it refuses.
const logEvery = time.Second

// job is a row that waits to be written.
type job struct {
	row  []any
	done func(error)  // called once, unless nil
	hold *budget.Hold // of the row, until it is written
}

// Limits in bytes, besides those in rows.
const (
	maxQueueBytes  = 64 << 20 // of rows that wait or are being written
	maxInsertBytes = 8 << 20  // of rows that are inserted at a time; the last one may exceed it
)

// rowBytes is about how many bytes of memory a row takes.
func rowBytes(row []any) int64 {
	const cell = 32
	n := cell * len(row)
	for _, v := range row {
		if s, ok := v.(string); ok {
			n += len(s)
		}
	}
	return int64(n)
}

// writer takes rows from a queue and inserts all that are waiting at a time. It owns
// one goroutine.
type writer struct {
	sink    Sink
	mapping *Mapping
	batch   int
	logger  *slog.Logger
	count   *counting

	queue  chan job
	slots  chan struct{} // as many as rows are in the queue, or will be at once
	now    func() time.Time
	room   *budget.Budget  // of maxQueueBytes
	ctx    context.Context // done when what is waiting is given up
	giveUp context.CancelFunc
	ended  chan struct{} // closed when the goroutine has ended

	said time.Time // when something was logged last; the goroutine's

	mu struct {
		sync.RWMutex
		closed bool
	}
	// order makes the order of the stamps that of the queue. Else the sink would take a row that is
	// behind another with a later stamp for one that comes late.
	order struct {
		sync.Mutex
		received, sequence int64 // of the last row
	}
}

func newWriter(sink Sink, o *ReceiverOptions, count *counting) *writer {
	w := &writer{sink: sink, mapping: o.Mapping, batch: o.BatchRows, logger: o.Logger, count: count, now: o.Now, ended: make(chan struct{})}
	w.queue, w.slots = make(chan job, o.Queue), make(chan struct{}, o.Queue)
	w.room = budget.New("rows that wait", maxQueueBytes)
	w.ctx, w.giveUp = context.WithCancel(context.Background())
	go w.run()
	return w
}

// offer puts a row into the queue if there is room for it.
func (w *writer) offer(d *draft) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.mu.closed {
		return false
	}
	hold := w.room.Hold()
	if !hold.Try(rowBytes(d.row)) {
		return false
	}
	select {
	case w.slots <- struct{}{}:
		w.count.waiting.Add(1)
		w.enqueue(d, nil, &hold)
		return true
	default:
		hold.Release()
		return false
	}
}

// enqueue stamps a row and puts it into the queue. The caller has a slot, so it does not wait.
func (w *writer) enqueue(d *draft, done func(error), hold *budget.Hold) {
	w.order.Lock()
	defer w.order.Unlock()
	w.order.received = max(w.order.received, w.now().Unix())
	w.order.sequence = w.order.sequence%(1<<31-1) + 1 // fits a column of 32 bits
	d.stamp(w.order.received, w.order.sequence)
	w.queue <- job{d.row, done, hold}
}

// put puts a row into the queue as soon as there is room for it. While it waits the
// queue cannot be closed, but it is emptied: the goroutine goes on until then.
func (w *writer) put(ctx context.Context, d *draft, done func(error)) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.mu.closed {
		return closed()
	}
	began := time.Now()
	w.count.waiting.Add(1)
	hold := w.room.Hold()
	if w.acquire(ctx, &hold, rowBytes(d.row)) {
		select {
		case w.slots <- struct{}{}:
			w.enqueue(d, done, &hold)
			return nil
		case <-ctx.Done():
		case <-w.ctx.Done():
		}
		hold.Release()
	}
	w.count.waiting.Add(-1)
	if w.ctx.Err() != nil {
		return closed()
	}
	return mainstem.Ended(ctx, "ingest", began, "room in the queue").WithOutcome(mainstem.NotWritten)
}

// acquire waits for the bytes of a row; false: ctx has ended, or what waits is given up.
func (w *writer) acquire(ctx context.Context, hold *budget.Hold, n int64) bool {
	if hold.Try(n) {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(w.ctx, cancel)
	defer stop()
	return hold.Acquire(ctx, n) == nil
}

func closed() error {
	return mainstem.Refusef(mainstem.KindClosed, "ingest", "the receiver is closed")
}

// close writes what is waiting, and gives it up when ctx is done. Nobody may put rows
// any more when it returns.
func (w *writer) close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, w.giveUp)
	defer stop()
	w.mu.Lock()
	if !w.mu.closed {
		w.mu.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.ended
	w.giveUp()
	if n := w.count.lost.Load(); n > 0 {
		return mainstem.Errorf(mainstem.KindUnavailable, "ingest", "alerts that were received could not be written in time").
			WithOutcome(mainstem.Unknown).WithHint("see the log for what the sink answered")
	}
	return nil
}

func (w *writer) run() {
	defer close(w.ended)
	for j := range w.queue {
		<-w.slots
		jobs := append(make([]job, 0, min(w.batch, len(w.queue)+1)), j)
		for bytes := j.hold.Size(); len(jobs) < w.batch && bytes < maxInsertBytes; {
			more, ok := w.ready()
			if !ok {
				break
			}
			jobs = append(jobs, more)
			bytes += more.hold.Size()
		}
		w.write(jobs)
	}
}

// ready returns a row that is waiting, if one is.
func (w *writer) ready() (job, bool) {
	select {
	case j, ok := <-w.queue:
		if ok {
			<-w.slots
		}
		return j, ok
	default:
		return job{}, false
	}
}

// write writes rows, however long it takes. Of rows that the sink refuses, or that are for
// columns which are missing, it finds out which are to blame.
func (w *writer) write(jobs []job) {
	err := w.insert(jobs)
	if half := len(jobs) / 2; half > 0 && misplaced(err) {
		w.write(jobs[:half])
		w.write(jobs[half:])
		return
	}
	w.count.waiting.Add(-int64(len(jobs)))
	switch {
	case err == nil:
		w.count.written.Add(int64(len(jobs)))
		w.count.batches.Add(1)
	case misplaced(err):
		w.count.rejected.Add(1)
		w.say("an alert was refused and is left out", err)
	default:
		w.count.lost.Add(int64(len(jobs)))
		w.say("alerts could not be written and are lost", err)
	}
	for _, j := range jobs {
		j.hold.Release()
		if j.done != nil {
			j.done(err)
		}
	}
}

// insert inserts rows until the sink takes or refuses them.
func (w *writer) insert(jobs []job) error {
	rows := make([][]any, len(jobs))
	for i := range jobs {
		rows[i] = jobs[i].row
	}
	for failures := 1; ; failures++ {
		err := w.attempt(rows)
		if err == nil || misplaced(err) || over(err) || w.ctx.Err() != nil {
			return err
		}
		w.count.retries.Add(1)
		w.say("alerts cannot be written now and are tried again", err)
		if !retryPolicy.Wait(w.ctx, failures) {
			return err
		}
	}
}

// attempt inserts rows once, without columns that were dropped.
func (w *writer) attempt(rows [][]any) error {
	err := insert(w.ctx, w.sink, w.mapping, rows, nil)
	if !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	gone := w.mapping.gone()
	if len(gone) == 0 {
		return err
	}
	w.say("what alerts have for columns that were dropped is left out", err)
	return insert(w.ctx, w.sink, w.mapping, rows, gone)
}

// say logs, but not much.
func (w *writer) say(text string, err error) {
	if now := time.Now(); now.Sub(w.said) >= logEvery {
		w.said = now
		w.logger.Warn("ingest: "+text, "source", string(w.mapping.Source()), "error", err)
	}
}
