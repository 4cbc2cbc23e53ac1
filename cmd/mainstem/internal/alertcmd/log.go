package alertcmd

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// logTables are the tables of a log, in the memory of this process. What happens by
// itself, such as clearing and expiry, is left to the server that owns the log.
type logTables struct {
	server  *alert.Server
	session *alert.Session
}

func (m commands) openAlerts(ctx context.Context, log mainstem.Log, a cli.Access, flags *alertFlags) (alertTables, error) {
	if a == cli.Reading {
		_, err := log.Space(ctx, alert.CatalogSpace)
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil, errNoTables
		}
		if err != nil {
			return nil, err
		}
	}
	s, err := alert.Open(ctx, log, &alert.Options{Name: flags.name, Every: -1, Logger: m.Logger()})
	if err != nil {
		return nil, err
	}
	ss := s.Session(alert.SessionInfo{User: "mainstem", App: flags.app, Description: "command line", ReadOnly: a == cli.Reading})
	return &logTables{s, ss}, nil
}

func (t *logTables) close() error { return errors.Join(t.session.Close(), t.server.Close()) }

func (t *logTables) each(ctx context.Context, statement string, do func(*alertResult) error) error {
	return t.session.Each(ctx, func(r *alert.Rows) error {
		return do(&alertResult{
			columns: columnsOf(r.Columns()), rows: valuesOf(r),
			affected: func() int64 { return r.Result().Affected },
		})
	}, statement)
}

func columnsOf(all []alert.Column) []alertColumn {
	out := make([]alertColumn, len(all))
	for i := range all {
		out[i] = alertColumn{all[i].Name, all[i].Type.Text()}
	}
	return out
}

func valuesOf(r *alert.Rows) iter.Seq2[[]alert.Value, error] {
	return func(yield func([]alert.Value, error) bool) {
		for row, err := range r.All() {
			if err != nil {
				yield(nil, err)
				return
			}
			values := make([]alert.Value, row.Len())
			for i := range values {
				values[i] = row.At(i)
			}
			if !yield(values, nil) {
				return
			}
		}
	}
}

func (t *logTables) insert(ctx context.Context, table string, row alertInsert, do func(*alertInserted) error) error {
	values := make([]any, len(row.values))
	for i, v := range row.values {
		values[i] = v
	}
	r, err := t.session.InsertRows(ctx, table, row.columns, [][]any{values}, row.updating...)
	if err != nil {
		return err
	}
	return do(&alertInserted{affected: r.Affected, serial: r.Serial, keyField: r.KeyField, inserted: r.Inserted, position: r.Position})
}

func (t *logTables) changes(ctx context.Context, table string, o *alert.ChangeOptions) iter.Seq2[alertChange, error] {
	return func(yield func(alertChange, error) bool) {
		for c, err := range t.server.Changes(ctx, table, o) {
			if err != nil {
				yield(alertChange{}, err)
				return
			}
			out := alertChange{position: c.Position, time: c.Time, deleted: c.Deleted}
			for name, v := range c.Row.All() {
				out.names = append(out.names, name)
				out.values = append(out.values, v)
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}
