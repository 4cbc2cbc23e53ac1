package command

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/kv"
)

// AuditQuery selects rows of a trail: those for which all fields that are set hold.
type AuditQuery struct {
	CommandType   string
	Actor         string
	TenantID      string
	AggregateID   string
	CorrelationID string
	From, To      time.Time // rows with From <= Time < To
	Success       *bool
	Limit         int  // at most that many; 0 means no limit
	Offset        int  // leave out the first that many
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

// Find returns the rows that q selects, oldest first unless it says otherwise, by their times. It
// reads all rows between From and To.
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

// Count returns how many rows q selects, whatever its Limit and Offset.
func (a *AuditLog) Count(ctx context.Context, q AuditQuery) (int, error) {
	n := 0
	err := a.each(ctx, &q, func(*AuditRow) bool { n++; return true })
	return n, err
}

// each calls do for the rows that q selects until it returns false.
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

// firstID returns what no ID of a row of time t or later is below.
func firstID(t time.Time) string {
	id := uuid.Sorted(max(0, t.UnixMilli()))
	clear(id[6:])
	return id.String()
}

// cleanupBatch is how many rows one commit of Cleanup removes.
const cleanupBatch = 500

// Cleanup removes the rows of commands that came before a time, in commits of 500, and returns
// how many it removed, also with an error.
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
