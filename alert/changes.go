package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// ChangeOptions says what [Server.Changes] yields. Nil and the zero value: what
// is committed from now on, until ctx ends.
type ChangeOptions struct {
	// After resumes: everything that the log still holds after this position. 0: from now on.
	After mainstem.Position
	// Since begins with the rows whose StateChange is not before it, as they are
	// now. The table needs such a column. Not with After.
	Since time.Time
	// NoFollow ends when everything that is committed was yielded; with Since, when its rows were.
	NoFollow bool
	// Ready is called once, when the rows of Since were yielded, without them at once. If
	// the loop ends before another change, resume After its position. Nil: nothing is called.
	Ready func(after mainstem.Position)
}

// Change is one change of a row.
type Change struct {
	Position mainstem.Position // to resume After; 0 for rows of [ChangeOptions.Since]
	Time     time.Time         // of the commit; zero for rows of [ChangeOptions.Since]
	Deleted  bool
	// Row is the row after the change; of a deleted one, only the primary key is there.
	Row Row
}

// Changes yields the changes of the table called name, as the log has them: in
// the order in which they were committed, no matter which program wrote them. The log keeps the
// newest state of each row, so what changed several times since may be yielded once.
// When a change is yielded, every query of this server shows it, or what came after it.
//
// With Since, rows come first in the order of their StateChange. If the loop ends among
// them, begin anew; later, resume After the position of [ChangeOptions.Ready] or of the last
// change. A change in the meantime may be yielded twice, and none is lost. Deletions before
// Since are not told.
//
// The loop ends with an error when ctx is done, the log is closed, or the table
// is dropped or altered: then ask again, After the last position. If that lies before the
// table, because one of the same name was dropped meanwhile, it is Invalid: begin anew. Do so
// too after more than [mainstem.DefaultTombstoneAge], since deletions may be forgotten.
func (s *Server) Changes(ctx context.Context, name string, o *ChangeOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var options ChangeOptions
		if o != nil {
			options = *o
		}
		if err := s.changes(ctx, name, options, yield); err != nil && !errors.Is(err, errStopped) {
			yield(Change{}, err)
		}
	}
}

// errStopped ends changes whose loop was left.
var errStopped = errors.New("stopped")

func (s *Server) changes(ctx context.Context, name string, o ChangeOptions, yield func(Change, error) bool) error {
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	after := o.After
	if after == 0 {
		after = head
	}
	// The table has to be as it is at after: the feed tells only of later changes.
	if err := s.Wait(ctx, min(after, head)); err != nil {
		return err
	}
	tab := s.table(name)
	switch {
	case tab == nil:
		return mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no table %s", name)
	case tab.virtual:
		return mainstem.Refusef(mainstem.KindUnsupported, "alert", "the table %s is in memory only: the log does not know its changes", tab)
	case o.After > 0 && !o.Since.IsZero():
		return mainstem.Refusef(mainstem.KindInvalid, "alert", "After and Since exclude each other")
	case o.After > 0 && o.After < tab.begins:
		return mainstem.Refusef(mainstem.KindInvalid, "alert", "the table %s was created at %d, behind %d: the rows from before were dropped; begin anew", tab, tab.begins, o.After)
	}
	if !o.Since.IsZero() {
		if err := s.since(ctx, tab, o.Since, yield); err != nil {
			return err
		}
	}
	if o.Ready != nil {
		o.Ready(after)
	}
	if o.NoFollow && !o.Since.IsZero() {
		return nil // the rows are those at after or later
	}
	f := mainstem.Filter{Spaces: []string{tab.space, CatalogSpace}, After: after, Follow: !o.NoFollow}
	for rec, err := range s.log.Feed(ctx, f) {
		if err != nil {
			return err
		}
		if rec.Space == CatalogSpace {
			if string(rec.Key) == keyTable+tab.String() && rec.Version > tab.version {
				return mainstem.Refusef(mainstem.KindUnavailable, "alert", "the table %s was altered or dropped: ask again", tab)
			}
			continue
		}
		c, o, err := change(tab, &rec)
		if err != nil {
			return err
		}
		if o == foreignRow {
			continue
		}
		if err := s.show(ctx, rec.Position); err != nil {
			return err
		}
		if !yield(c, nil) {
			return errStopped
		}
	}
	return nil
}

// since yields the rows that have changed since a time, as they are now.
func (s *Server) since(ctx context.Context, tab *table, since time.Time, yield func(Change, error) bool) error {
	col := tab.Column("StateChange")
	if col < 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "alert", "the table %s has no column StateChange", tab)
	}
	types := []Type{osql.Integer64, osql.Integer64}
	for i := range tab.Columns {
		types = append(types, tab.Columns[i].Type)
	}
	m := osql.MirrorColumn(&tab.Columns[col])
	c, err := s.mirror.open(ctx, types, fmt.Sprintf("SELECT %s FROM %s WHERE %s >= ? ORDER BY %[3]s", tab.columnList, tab.mirror(), m), bindInt(since.Unix()))
	if err != nil {
		return err
	}
	rows := &Rows{h: newHeader(append([]Column{{Name: osql.RowID}, {Name: osql.Version}}, tab.Columns...)), c: c, ctx: ctx}
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		if !yield(Change{Row: Row{tab.header, row.values[2:]}}, nil) {
			return errStopped
		}
	}
	return nil
}

// change makes a record a change, unless it is of another table.
func change(tab *table, rec *mainstem.Record) (c Change, o origin, err error) {
	c = Change{Position: rec.Position, Time: rec.Time, Deleted: !rec.Live()}
	values := make([]Value, len(tab.Columns))
	if c.Deleted {
		for i := range values {
			values[i] = zeroOf(tab.Columns[i].Type)
		}
		o, err = ownRow, decodeKey(bytes.Clone(rec.Key), tab, values)
	} else {
		o, err = decodeRow(rec.Value, tab, values)
	}
	if err != nil {
		return c, foreignRow, mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(rec.Space, rec.Key)
	}
	c.Row = Row{tab.header, values}
	return c, o, nil
}
