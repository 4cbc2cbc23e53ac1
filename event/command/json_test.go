package command

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
)

// The rows of commands are stored as encoding/json would write them.
func TestRowsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringMatching(`[a-z-]{1,12}`),
			rapid.SampledFrom([]string{"\"", "\\", "\n", "\x7f", "\x80", "a\xffb", "<&>", "\u2028", "\x00"}))
		number := rapid.OneOf(rapid.Float64Range(0, 1e4), rapid.SampledFrom([]float64{0, 1e-7, 1e-6, 0.1, 1e21, math.MaxFloat64, -1, math.Copysign(0, -1)}))
		row := AuditRow{
			ID: text.Draw(t, "id"), CommandType: text.Draw(t, "type"), CommandID: text.Draw(t, "command"), AggregateID: text.Draw(t, "aggregate"),
			Actor: text.Draw(t, "actor"), TenantID: text.Draw(t, "tenant"), CorrelationID: text.Draw(t, "correlation"),
			CausationID: text.Draw(t, "causation"), Error: text.Draw(t, "error"), Version: mainstem.Version(rapid.Uint64().Draw(t, "version")),
			DurationMs: number.Draw(t, "duration"), Success: rapid.Bool().Draw(t, "success"),
			Time: time.Unix(rapid.Int64Range(-1e11, 3e11).Draw(t, "seconds"), rapid.Int64Range(0, 1e9).Draw(t, "nanoseconds")),
		}
		if rapid.Bool().Draw(t, "in UTC") {
			row.Time = row.Time.UTC()
		}
		if rapid.Bool().Draw(t, "with metadata") {
			row.Metadata = map[string]string{text.Draw(t, "name"): text.Draw(t, "value")}
		}
		compareJSON(t, row)
		record := done{AggregateID: row.AggregateID, Version: row.Version, Error: row.Error}
		if rapid.Bool().Draw(t, "with data") {
			record.Data = []byte(`{"a":1}`)
		}
		compareJSON(t, record)
		compareJSON(t, done{})
	})
}

// compareJSON compares both encodings of v, and their errors.
func compareJSON(t *rapid.T, v any) {
	want, failed := codec.JSON.Append([]byte("x"), v)
	got, err := rowsJSON.Append([]byte("x"), v)
	if string(got) != string(want) || (err == nil) != (failed == nil) {
		t.Fatalf("%+v: %s, %v; want %s, %v", v, got, err, want, failed)
	}
}
