package omnibus

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// maxPending bounds the bytes of a feed that wait for its client. Then the
// feed stops reading the log until the client has taken them.
const maxPending = 1 << 20

// The names of a feed's events.
const (
	eventChange = "change" // a row as it is now
	eventDelete = "delete" // the primary key of a row that is gone
	eventReady  = "ready"  // all rows of the beginning were sent
	eventError  = "error"  // the feed ends for a reason that asking again does not mend
)

// feed is one subscriber of a table's changes. A goroutine of its own follows the
// table; the one of the request sends, and sends together what came meanwhile.
type feed struct {
	x       *exchange
	table   string
	collist string

	mu struct {
		sync.Mutex
		pending []byte
		events  int
	}
	wake chan struct{} // capacity 1: something is pending
	room chan struct{} // capacity 1: what was pending is being sent

	layout  []alert.Column // that keys and shown are for
	shown   []int
	keys    rowset
	scratch []byte
}

// feed answers with the changes of a table, as server-sent events, until the client goes.
func (x *exchange) feed() error {
	f := &feed{x: x, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	start, err := f.start()
	if err != nil {
		return err
	}
	select {
	case x.h.feeds <- struct{}{}:
		defer func() { <-x.h.feeds }()
	default:
		x.w.Header().Set("Retry-After", "5")
		return unavailable("%d feeds are open, the limit: try later", cap(x.h.feeds))
	}
	x.h.metrics.subscribers.Inc()
	defer x.h.metrics.subscribers.Dec()
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	header := x.w.Header()
	header["Content-Type"] = []string{"text/event-stream"}
	header["X-Accel-Buffering"] = []string{"no"} // proxies must not hold events back
	x.out.sent = true
	x.w.WriteHeader(http.StatusOK)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.follow(ctx, start)
	}()
	err = f.send(ctx, done)
	cancel()
	<-done
	return err
}

// begin is where a feed begins.
type begin struct {
	after mainstem.Position
	since time.Time // zero: none
}

// start reads the request.
func (f *feed) start() (begin, error) {
	var b begin
	head, err := f.x.h.server.Log().Head(f.x.ctx)
	if err != nil {
		return b, err
	}
	// The table has to be as it is where the feed begins: the feed tells only of later changes.
	if err := f.x.h.server.Wait(f.x.ctx, head); err != nil {
		return b, err
	}
	t, err := f.x.table()
	if err != nil {
		return b, err
	}
	f.table = t.Database + "." + t.Name
	p, err := f.x.parameters(true, paramCollist, paramSince, paramAfter)
	if err != nil {
		return b, err
	}
	if t.Space == "" || t.System {
		return b, failed(http.StatusBadRequest, mainstem.KindUnsupported, "the table %s is in memory only: it has no feed", f.table)
	}
	f.collist = p[paramCollist]
	if _, err := parseCollist(f.collist, &t); err != nil {
		return b, err
	}
	last := f.x.r.Header.Get("Last-Event-ID") // of a client that comes again
	if last == "" {
		last = p[paramAfter]
	}
	if last != "" {
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil {
			return b, badRequest("%.40q is no place in the log: want the id of an event", last)
		}
		switch at := mainstem.Position(n); {
		case at == 0:
			return b, badRequest("0 is no id of an event: since=0 begins with all rows")
		case at < t.Begins:
			return b, failed(http.StatusGone, mainstem.KindInvalid, "the table %s was created at %d, behind %d: the rows from before were dropped; begin anew", f.table, t.Begins, at)
		case at > head:
			return b, failed(http.StatusGone, mainstem.KindInvalid, "the log ends at %d, before %d: it is another one; begin anew", head, n)
		}
		b.after = mainstem.Position(n)
		return b, nil
	}
	b.after = head
	if p[paramSince] != "" {
		n, err := parseTime(p[paramSince])
		if err != nil {
			return b, err
		}
		if _, err := findColumn(&t, columnSince); err != nil {
			return b, err
		}
		b.since = time.Unix(n, 0)
	}
	return b, nil
}

// send sends what is pending, and a comment now and then, until ctx or the feed ends.
func (f *feed) send(ctx context.Context, done <-chan struct{}) error {
	tick := time.NewTicker(f.x.h.o.Heartbeat)
	defer tick.Stop()
	defer f.x.out.deadline(time.Time{})
	buf := append([]byte(nil), ": changes of "+f.table+"\n\n"...)
	for {
		f.x.out.deadline(time.Now().Add(f.x.h.o.WriteTimeout))
		if _, err := f.x.w.Write(buf); err != nil {
			return err
		}
		if err := http.NewResponseController(f.x.w).Flush(); err != nil {
			return err
		}
		f.x.out.bytes += int64(len(buf))
		buf = buf[:0]
		select {
		case <-f.wake:
			buf = f.take(buf)
		case <-tick.C:
			if _, err := f.x.h.authenticate(f.x.r); err != nil {
				return nil // the user is gone: the client is told when it comes again
			}
			buf = append(buf, ":\n\n"...)
		case <-done:
			if buf = f.take(buf); len(buf) == 0 {
				return nil
			}
		case <-ctx.Done():
			return nil
		case <-f.x.h.stopping:
			return nil
		}
	}
}

// take returns what is pending, and gives spare in its place.
func (f *feed) take(spare []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.mu.pending
	if cap(spare) > maxPending/4 {
		spare = nil
	}
	f.mu.pending = spare[:0]
	f.x.h.metrics.events.Add(float64(f.mu.events))
	f.mu.events = 0
	wake.Signal(f.room)
	return p
}

// event adds an event, when there is room. Without an id the client comes again
// where it was before.
func (f *feed) event(ctx context.Context, id mainstem.Position, name string, data []byte) error {
	for {
		f.mu.Lock()
		if len(f.mu.pending) < f.x.h.maxPending {
			break
		}
		f.mu.Unlock()
		select {
		case <-f.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	b := f.mu.pending
	if id > 0 {
		b = append(strconv.AppendUint(append(b, "id: "...), uint64(id), 10), '\n')
	}
	b = append(append(b, "event: "...), name...)
	b = append(append(b, "\ndata: "...), data...)
	f.mu.pending = append(b, "\n\n"...)
	f.mu.events++
	f.mu.Unlock()
	wake.Signal(f.wake)
	return nil
}

// follow adds events until ctx ends.
func (f *feed) follow(ctx context.Context, b begin) {
	var err error
	if !b.since.IsZero() {
		// Without ids: a client that breaks off here has to begin anew.
		_, err = f.changes(ctx, &alert.ChangeOptions{Since: b.since, NoFollow: true}, false)
	}
	if err == nil {
		err = f.event(ctx, b.after, eventReady, strconv.AppendUint(nil, uint64(b.after), 10))
	}
	after := b.after
	for err == nil && ctx.Err() == nil {
		var last mainstem.Position
		last, err = f.changes(ctx, &alert.ChangeOptions{After: after}, true)
		if _, ok := f.x.h.server.Table(f.table); ok && errors.Is(err, mainstem.ErrUnavailable) && ctx.Err() == nil && last >= after {
			err = f.altered(ctx) // the table was altered: go on with its new columns
		}
		after = max(after, last)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, mainstem.ErrClosed) {
		return
	}
	f.x.h.o.Logger.Warn("omnibus: a feed ended", "table", f.table, "user", f.x.who.User, "error", err)
	data := append(rowjson.AppendString([]byte(`{"message":`), err.Error()), '}')
	_ = f.event(ctx, 0, eventError, data) // only fails when the client is gone
}

// alteredPause keeps a feed from asking again and again for a table that another
// server on the log has altered and this one does not know yet.
const alteredPause = 20 * time.Millisecond

func (f *feed) altered(ctx context.Context) error {
	if !backoff.Sleep(ctx, alteredPause) {
		return context.Cause(ctx)
	}
	return nil
}

// changes adds the changes that o asks for, and returns the position of the last.
func (f *feed) changes(ctx context.Context, o *alert.ChangeOptions, ids bool) (mainstem.Position, error) {
	last := o.After
	for c, err := range f.x.h.server.Changes(ctx, f.table, o) {
		if err != nil {
			return last, err
		}
		name, id := eventChange, mainstem.Position(0)
		if c.Deleted {
			name = eventDelete
		}
		if ids {
			id = c.Position
		}
		if err := f.event(ctx, id, name, f.row(&c)); err != nil {
			return last, err
		}
		last = c.Position
	}
	return last, nil
}

// row returns the columns of a change that the client wants; of a deleted row,
// its primary key.
func (f *feed) row(c *alert.Change) []byte {
	columns := c.Row.Columns()
	if len(f.layout) != len(columns) || &f.layout[0] != &columns[0] {
		f.lay(columns)
	}
	b := append(f.scratch[:0], '{')
	from, first := 0, true
	for i, at := range f.shown {
		key := f.keys.keys[from:f.keys.ends[i]]
		from = f.keys.ends[i]
		if c.Deleted && !columns[at].PrimaryKey {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendValue(append(b, key...), c.Row.At(at), f.keys.boolean[i])
	}
	f.scratch = append(b, '}')
	return f.scratch
}

// lay notes which of a row's columns are shown. The primary key always is.
func (f *feed) lay(columns []alert.Column) {
	f.layout, f.shown, f.keys = columns, f.shown[:0], rowset{}
	names := splitList(f.collist)
	for i := range columns {
		if c := &columns[i]; len(names) == 0 || slices.Contains(names, "*") || c.PrimaryKey || slices.Contains(names, c.Name) {
			f.shown = append(f.shown, i)
			f.keys.key(c)
		}
	}
}
