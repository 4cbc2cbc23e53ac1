package main

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/alert/osql"
)

const (
	restBatch   = 1000              // rows that a Mainstem server inserts together; others take one at a time
	maxLiterals = 32_000            // in one statement
	maxInsert   = osql.MaxText / 10 // bytes of values in one statement, whatever stands around them
)

// target implements alertImporter.
func (t *restTables) target(ctx context.Context) (ingest.Sink, int, func(string) ([]alert.Column, error), error) {
	own, err := t.client.Mainstem(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	atOnce := 1
	if own {
		atOnce = restBatch
	}
	return ingest.SinkFunc(t.insertRows), atOnce, func(table string) ([]alert.Column, error) { return t.columns(ctx, table) }, nil
}

// insertRows inserts rows by way of the collection, or by SQL if there is something to
// update, which the collection cannot say.
func (t *restTables) insertRows(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
	if len(updating) == 0 {
		return t.client.InsertRows(ctx, table, columns, rows)
	}
	values := make([][]alert.Value, len(rows))
	size := 0
	for i, row := range rows {
		values[i] = make([]alert.Value, len(row))
		for j, v := range row {
			values[i][j] = valueOf(v)
			size += len(values[i][j].String())
		}
	}
	if len(rows) > 1 && (len(rows)*len(columns) > maxLiterals || size > maxInsert) {
		// The importer tries with fewer then; nothing was sent.
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "alerts import", Outcome: mainstem.NotWritten, Err: fmt.Errorf("%d rows are too much for one statement", len(rows))}
	}
	_, err := t.client.RawSQL(ctx, insertStatement(table, columns, values, updating), func(omnirest.Row) error { return nil })
	return err
}

// valueOf returns what a mapping has made as a value.
func valueOf(v any) alert.Value {
	switch v := v.(type) {
	case string:
		return alert.Text(v)
	case int64:
		return alert.Int(v)
	case float64:
		return alert.Real(v)
	}
	return alert.Text(fmt.Sprint(v))
}
