package alert

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// ownWrites knows which records of the log this server wrote: they are in the
// mirror already. It also knows up to where the records of others are.
//
// Invariant: all records up to applied, and all of ranges, are in the mirror, or will be
// when its gate opens: every query that begins shows them.
type ownWrites struct {
	sync.Mutex
	applied mainstem.Position
	last    mainstem.Position      // of this server's writes
	ranges  [][2]mainstem.Position // ascending
}

// add notes a batch of this server.
func (o *ownWrites) add(r mainstem.Receipt) {
	if r.Last == 0 {
		return
	}
	o.Lock()
	defer o.Unlock()
	o.last = r.Last
	if n := len(o.ranges); n > 0 && o.ranges[n-1][1]+1 == r.First {
		o.ranges[n-1][1] = r.Last
		return
	}
	o.ranges = append(o.ranges, [2]mainstem.Position{r.First, r.Last})
}

// newest returns the position of the last record that this server wrote; 0 if
// there is none.
func (o *ownWrites) newest() mainstem.Position {
	o.Lock()
	defer o.Unlock()
	return o.last
}

// known reports whether the record at p is in the mirror. If so, and if records
// are passed to it in order, everything up to p is.
func (o *ownWrites) known(p mainstem.Position) bool {
	o.Lock()
	defer o.Unlock()
	if p <= o.applied {
		return true
	}
	_, found := slices.BinarySearchFunc(o.ranges, p, func(r [2]mainstem.Position, p mainstem.Position) int {
		switch {
		case r[1] < p:
			return -1
		case r[0] > p:
			return 1
		}
		return 0
	})
	return found
}

// advance notes that everything up to p is in the mirror.
func (o *ownWrites) advance(p mainstem.Position) {
	o.Lock()
	defer o.Unlock()
	o.applied = max(o.applied, p)
	n := 0
	for n < len(o.ranges) && o.ranges[n][1] <= o.applied {
		n++
	}
	o.ranges = o.ranges[n:]
}

func (o *ownWrites) position() mainstem.Position {
	o.Lock()
	defer o.Unlock()
	return o.applied
}

// followAgain is the pause of the follower after an error of the log.
var followAgain = backoff.Policy{First: 10 * time.Millisecond, Max: time.Second}

// follow is the goroutine that brings what other servers write, and what is
// written without a server, into the mirror.
func (s *Server) follow() {
	failures := 0
	for s.ctx.Err() == nil {
		err := s.followOnce()
		if err == nil {
			failures = 0
			continue
		}
		if errors.Is(err, mainstem.ErrClosed) || s.ctx.Err() != nil {
			return
		}
		s.o.Logger.Error("alert: following the log", "error", err)
		failures++
		followAgain.Wait(s.ctx, failures)
	}
}

// followOnce follows the spaces that there are now, until they are others.
func (s *Server) followOnce() error {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	select {
	case <-s.changed: // what is read below is newer
	default:
	}
	done := make(chan struct{})
	defer func() { <-done }()
	defer stop()
	changed := false
	go func() {
		defer close(done)
		select {
		case <-s.changed:
			changed = true
			stop()
		case <-ctx.Done():
		}
	}()
	f := mainstem.Filter{Spaces: s.schema.Load().spaces(), After: s.own.position(), Follow: true}
	for rec, err := range s.log.Feed(ctx, f) {
		if err != nil {
			stop()
			<-done
			if changed {
				return nil
			}
			return err
		}
		if err := s.meet(rec.Position); err != nil {
			return err
		}
		if rec.Position == s.own.newest() {
			backoff.Sleep(ctx, followRest)
		}
	}
	return nil
}

// followRest is how long the follower waits when it has met everything that this
// server wrote: of a server that writes all the time it then meets many records at once,
// which costs a part of meeting them one by one.
const followRest = time.Millisecond

// meet takes notice of the record at p.
func (s *Server) meet(p mainstem.Position) error {
	if err := s.show(s.ctx, p); err != nil {
		return err
	}
	s.own.advance(p)
	return nil
}

// show returns when every query that begins then shows the record at p: if it is not
// ours, the writer looks for what is new.
func (s *Server) show(ctx context.Context, p mainstem.Position) error {
	if s.own.known(p) {
		return nil
	}
	s.commit.Lock() // a batch of ours may be on its way
	ours := s.own.known(p)
	s.commit.Unlock()
	if ours {
		return nil
	}
	return s.catchUp(ctx)
}

// catchUp has the writer bring the mirror up to what the log holds now.
func (s *Server) catchUp(ctx context.Context) error {
	_, err := s.do(ctx, alone, func(*tx) error { return s.refresh(s.ctx) })
	return err
}

// Wait returns when the server shows everything up to position p of the log: for
// reading what was committed without the server, with [Server.InsertTo] or by
// another server.
func (s *Server) Wait(ctx context.Context, p mainstem.Position) error {
	if p <= s.own.position() {
		return nil
	}
	return s.catchUp(ctx)
}

// refresh applies what others have written since. The writer calls it, outside
// of transactions.
func (s *Server) refresh(ctx context.Context) error {
	for {
		again, err := s.refreshOnce(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// refreshOnce applies what the feed holds up to its end, or up to a change of
// the tables: from there it goes on with other spaces. again reports that there
// may be more.
func (s *Server) refreshOnce(ctx context.Context) (again bool, err error) {
	records, reached, err := s.foreign(ctx)
	if err != nil {
		return false, err
	}
	if len(records) == 0 {
		s.own.advance(reached)
		return false, nil
	}
	if err := s.mirror.begin(s.quiet, undoable); err != nil {
		return false, s.lost(err)
	}
	t := s.newTx()
	defer t.release()
	from := t.schema
	for i := range records {
		if err := t.apply(ctx, &records[i]); err != nil {
			return false, errors.Join(err, s.mirror.rollback(s.quiet))
		}
		if t.schema != from {
			reached = records[i].Position // a new table has been read as it is now: go on from here with its space
			break
		}
	}
	err = s.mirror.commit(s.quiet, func() {
		s.own.advance(reached)
		if t.schema != from {
			s.adopt(t.schema)
		}
	})
	return t.schema != from || len(records) == maxForeign, s.lost(err)
}

// maxForeign bounds the records of others that are applied at a time.
const maxForeign = 50_000

// foreign returns the records that others have written since, and how far it
// has looked.
func (s *Server) foreign(ctx context.Context) (records []mainstem.Record, reached mainstem.Position, err error) {
	reached = s.own.position()
	for rec, err := range s.log.Feed(ctx, mainstem.Filter{Spaces: s.schema.Load().spaces(), After: reached}) {
		if err != nil {
			if errors.Is(err, mainstem.ErrNotFound) {
				break // a space was dropped meanwhile; its record in the catalog comes
			}
			return nil, 0, err
		}
		if !s.own.known(rec.Position) {
			records = append(records, rec.Clone())
		}
		reached = rec.Position
		if len(records) == maxForeign {
			break
		}
	}
	return records, reached, nil
}

// apply applies a record that somebody else wrote.
func (t *tx) apply(ctx context.Context, rec *mainstem.Record) error {
	if rec.Space == CatalogSpace {
		return t.applyCatalog(ctx, rec)
	}
	tab := t.schema.tables[strings.TrimPrefix(rec.Space, SpacePrefix)]
	if tab == nil || tab.virtual {
		return nil // dropped since
	}
	return t.applyRow(tab, rec)
}

func (t *tx) applyRow(tab *table, rec *mainstem.Record) error {
	values := make([]Value, len(tab.Columns))
	if err := decodeKey(rec.Key, tab, values); err != nil {
		return t.skip(tab, rec, err)
	}
	t.s.recent.drop(opID(rec.Space, rec.Key))
	old, err := t.s.mirror.get(t.ctx, tab, values)
	if err != nil || old != nil && old.version >= rec.Version {
		return err
	}
	if !rec.Live() {
		if old == nil {
			return nil
		}
		return t.s.mirror.remove(t.ctx, tab, old.k)
	}
	origin, err := decodeRow(rec.Value, tab, values)
	if err != nil || origin == foreignRow {
		return t.skip(tab, rec, err)
	}
	next := &stored{version: origin.version(rec), values: values}
	if old != nil && tab.incr < 0 {
		next.k = old.k
	} else if next.k, err = t.number(tab, values); err != nil {
		return err
	}
	return t.s.mirror.write(t.ctx, tab, old, next)
}

// version returns the version under which the mirror knows a record. A row that is
// ahead of its table counts as older than it is, so that it is read again when the
// feed brings it after the change of the table.
func (o origin) version(rec *mainstem.Record) mainstem.Version {
	if o == newerRow {
		return rec.Version - 1
	}
	return rec.Version
}

// skip passes over a record that is no row of the table. It stays in the log.
func (t *tx) skip(tab *table, rec *mainstem.Record, err error) error {
	if err != nil {
		t.s.o.Logger.Error("alert: a record is no row", "table", tab.String(), "error", corrupt(rec.Space, rec.Key, err))
	}
	return nil
}
