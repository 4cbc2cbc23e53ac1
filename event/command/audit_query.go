package command

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/kv"
)

// AuditQuery selects the rows for which all fields that are set match.
type AuditQuery struct {
	CommandType   string
	Actor         string
	TenantID      string
	AggregateID   string
	CorrelationID string
	From, To      time.Time // From <= Time < To
	Success       *bool
	Limit         int  // maximum number of rows; 0 means no limit
	Offset        int  // number of rows to skip
	Desc          bool // newest first
}

func (q *AuditQuery) check() error {
	switch {
	case q.Limit < 0 || q.Offset < 0:
		return mainstem.Refusef(mainstem.KindInvalid, "command", "audit query: Limit %d and Offset %d: want 0 or more", q.Limit, q.Offset)
	case !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From):
		return mainstem.Refusef(mainstem.KindInvalid, "command", "audit query: To %v is before From %v", q.To, q.From)
	}
	return nil
}

func (q *AuditQuery) matches(r *AuditRow) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(q.CommandType, r.CommandType) && is(q.Actor, r.Actor) && is(q.TenantID, r.TenantID) &&
		is(q.AggregateID, r.AggregateID) && is(q.CorrelationID, r.CorrelationID) &&
		(q.From.IsZero() || !r.Time.Before(q.From)) && (q.To.IsZero() || r.Time.Before(q.To)) &&
		(q.Success == nil || *q.Success == r.Success)
}

// Find returns the rows that q selects by time, oldest first unless Desc is set. It reads all rows
// between From and To, up to Limit matches.
func (a *AuditLog) Find(ctx context.Context, q AuditQuery) ([]AuditRow, error) {
	var rows []AuditRow
	skip := q.Offset
	err := a.each(ctx, &q, func(r *AuditRow) bool {
		if skip--; skip < 0 {
			rows = append(rows, *r)
		}
		return q.Limit == 0 || len(rows) < q.Limit
	})
	return rows, err
}

// Count returns the number of rows that q selects. It ignores Limit and Offset.
func (a *AuditLog) Count(ctx context.Context, q AuditQuery) (int, error) {
	n := 0
	err := a.each(ctx, &q, func(*AuditRow) bool { n++; return true })
	return n, err
}

// each calls do for each row that q selects, in order, until do returns false.
func (a *AuditLog) each(ctx context.Context, q *AuditQuery, do func(*AuditRow) bool) error {
	if err := q.check(); err != nil {
		return err
	}
	keys := kv.Query{Reverse: q.Desc}
	if !q.From.IsZero() {
		keys.Start = firstID(q.From)
	}
	if !q.To.IsZero() {
		keys.End = firstID(q.To.Add(time.Millisecond))
	}
	for e, err := range a.rows.List(ctx, &keys) {
		if err != nil {
			return err
		}
		if q.matches(&e.Value) && !do(&e.Value) {
			return nil
		}
	}
	return nil
}

// The first and the last time that an ID can hold: 1970 and a day of the year 10889.
var firstTime, lastTime = time.UnixMilli(0), time.UnixMilli(1<<48 - 1)

// firstID returns a lower bound of the IDs of rows of time t or later, to the millisecond.
func firstID(t time.Time) string {
	switch {
	case t.Before(firstTime):
		t = firstTime
	case t.After(lastTime):
		t = lastTime
	}
	id := uuid.Sorted(t.UnixMilli())
	clear(id[6:])
	return id.String()
}

// cleanupBatch is the number of rows that one commit of Cleanup removes.
const cleanupBatch = 500

// Cleanup removes the rows with a Time before the given one, in commits of up to 500. It returns
// the number of removed rows, with an error too. It may be called again.
func (a *AuditLog) Cleanup(ctx context.Context, before time.Time) (int, error) {
	removed := 0
	for {
		b := mainstem.NewBatch()
		n := 0
		for e, err := range a.rows.List(ctx, &kv.Query{End: firstID(before.Add(time.Millisecond))}) {
			if err != nil {
				return removed, err
			}
			if !e.Value.Time.Before(before) {
				continue
			}
			a.rows.PurgeTo(b, e.Key)
			if n++; n == cleanupBatch {
				break
			}
		}
		if n == 0 {
			return removed, nil
		}
		if _, err := a.log.Commit(ctx, b); err != nil {
			return removed, err
		}
		removed += n
	}
}
