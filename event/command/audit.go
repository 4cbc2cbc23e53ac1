package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/kv"
)

// AuditRow records one command: its sender, its time and its outcome.
type AuditRow struct {
	ID            string            `json:"id"` // a UUID that sorts by Time, with a resolution of 1/4 µs
	CommandType   string            `json:"command_type"`
	CommandID     string            `json:"command_id,omitempty"`
	AggregateID   string            `json:"aggregate_id,omitempty"`
	Actor         string            `json:"actor,omitempty"`
	TenantID      string            `json:"tenant_id,omitempty"`
	CorrelationID string            `json:"correlation_id,omitempty"`
	CausationID   string            `json:"causation_id,omitempty"`
	Error         string            `json:"error,omitempty"`
	Version       mainstem.Version  `json:"version,omitempty"` // Version of the Result
	DurationMs    float64           `json:"duration_ms"`       // milliseconds until the commit began, or until the failure
	Time          time.Time         `json:"time"`              // when Audit received the command; UTC
	Success       bool              `json:"success"`
	Metadata      map[string]string `json:"metadata,omitempty"`
}

// AuditLog is an audit trail in a log: the table audit/<name>. It is safe for concurrent use.
type AuditLog struct {
	log  mainstem.Log
	rows *kv.Bucket[AuditRow]
}

// OpenAudit returns the audit trail called name in log. It reads and writes nothing.
func OpenAudit(log mainstem.Log, name string) (*AuditLog, error) {
	rows, err := kv.Open[AuditRow](log, "audit/"+name, &kv.Options{Codec: rowsJSON})
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "command", "audit trail %.40q: %w", name, err)
	}
	return &AuditLog{log: log, rows: rows}, nil
}

// AuditOptions configure [Audit].
type AuditOptions struct {
	Log *AuditLog // receives the rows. Required; it must be in the log of the bus
	// Actor returns the name of the sender of a command. Default: the UserID of the context; see
	// [WithActor].
	Actor        func(ctx context.Context, cmd Command) string
	Skip         []string // command types that leave no row
	WithMetadata bool     // adds the custom metadata of the context to the rows
	// FailClosed adds the error to the command's error if the row of a failed command cannot be
	// written. Default: it is logged, as it is always for a command that panics.
	FailClosed bool
	Logger     *slog.Logger // default slog.Default()
}

// Audit writes a row for each command. The row of a success is part of the command's commit: there
// is no success without a row, and no row of a success that was not written. The row of a failure
// is a commit of its own, which is made even if the context has ended. A panic of the handlers inside
// Audit is a failure, and continues. A Duplicate leaves no further row.
//
// Place Audit outside of [Retry], otherwise each failed try leaves a row. If Log is nil or in
// another log than the bus, commands fail with Invalid.
func Audit(o AuditOptions) Middleware {
	o.Skip = slices.Clone(o.Skip)
	if o.Actor == nil {
		o.Actor = func(ctx context.Context, _ Command) string { return event.MetadataFrom(ctx).UserID }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			at := attemptOf(ctx)
			switch {
			case at == nil || slices.Contains(o.Skip, cmd.CommandType()):
				return next(ctx, cmd)
			case o.Log == nil || o.Log.log != at.bus.log:
				return Result{}, mainstem.Refusef(mainstem.KindInvalid, "command", "audit: AuditOptions.Log is nil, or in another log than bus %s: rows would not be in the commits of the bus", at.bus.name)
			}
			began := time.Now()
			BeforeCommit(ctx, func(ctx context.Context, b *mainstem.Batch, r *Result) error {
				row := o.row(ctx, cmd, began)
				row.Success, row.Version = true, r.Version
				if r.AggregateID != "" {
					row.AggregateID = r.AggregateID
				}
				o.Log.rows.CreateTo(b, row.ID, row)
				return nil
			})
			r, err := observe(ctx, next, cmd, func(err error) { _ = o.failed(ctx, cmd, began, err, false) })
			if err != nil {
				err = o.failed(ctx, cmd, began, err, o.FailClosed)
			}
			return r, err
		}
	}
}

// auditGrace bounds the commit of the row of a failed command.
const auditGrace = 5 * time.Second

// failed writes the row of a failed command, and returns the command's error. If the row cannot be
// written it adds that to the error if closed is true, else logs it.
func (o *AuditOptions) failed(ctx context.Context, cmd Command, began time.Time, err error, closed bool) error {
	row := o.row(ctx, cmd, began)
	row.Error = err.Error()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditGrace)
	defer cancel()
	_, failed := o.Log.rows.Create(ctx, row.ID, row)
	if failed == nil {
		return err
	}
	if closed {
		return errors.Join(err, fmt.Errorf("the failure is not in the audit trail: %w", failed))
	}
	o.Logger.Error("a failed command is not in the audit trail", "command", cmd.CommandType(), "id", row.CommandID, "err", failed)
	return err
}

// row returns the row of cmd without its outcome.
func (o *AuditOptions) row(ctx context.Context, cmd Command, began time.Time) AuditRow {
	m := event.MetadataFrom(ctx)
	row := AuditRow{
		ID: uuid.SortedAt(began).String(), CommandType: cmd.CommandType(), CommandID: baseOf(cmd).CommandID,
		Actor: o.Actor(ctx, cmd), TenantID: m.TenantID, CorrelationID: m.CorrelationID, CausationID: baseOf(cmd).CausationID,
		DurationMs: float64(time.Since(began)) / float64(time.Millisecond), Time: began.UTC().Round(0),
	}
	if c, ok := cmd.(AggregateCommand); ok {
		row.AggregateID = c.AggregateID()
	}
	if o.WithMetadata {
		row.Metadata = maps.Clone(m.Custom)
	}
	return row
}
