package command

import (
	"slices"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem/codec"
)

// rowCodec is codec.JSON. The rows that each command writes are encoded without reflection, to the
// same bytes.
type rowCodec struct{ codec.Codec }

var rowsJSON = rowCodec{codec.JSON}

// Append appends v. A row with a field that the encoders below do not know is left to encoding/json.
func (c rowCodec) Append(dst []byte, v any) ([]byte, error) {
	switch row := v.(type) {
	case AuditRow:
		if row.isPlain() {
			return row.appendJSON(dst), nil
		}
	case done:
		if row.Data == nil && row.Error == "" {
			return row.appendJSON(dst), nil
		}
	}
	return c.Codec.Append(dst, v)
}

// isPlain reports whether appendJSON can encode r: it has no metadata, its number needs no exponent,
// and its time has four digits for the year and no zone.
func (r *AuditRow) isPlain() bool {
	year := r.Time.Year()
	return len(r.Metadata) == 0 && (r.DurationMs == 0 || r.DurationMs >= 1e-6 && r.DurationMs < 1e21) &&
		0 <= year && year <= 9999 && r.Time.Location() == time.UTC
}

func (r *AuditRow) appendJSON(b []byte) []byte {
	b = slices.Grow(b, 512) // mostly all that is appended
	b = appendText(append(b, `{"id":`...), r.ID)
	b = appendText(append(b, `,"command_type":`...), r.CommandType)
	b = appendField(b, `,"command_id":`, r.CommandID)
	b = appendField(b, `,"aggregate_id":`, r.AggregateID)
	b = appendField(b, `,"actor":`, r.Actor)
	b = appendField(b, `,"tenant_id":`, r.TenantID)
	b = appendField(b, `,"correlation_id":`, r.CorrelationID)
	b = appendField(b, `,"causation_id":`, r.CausationID)
	b = appendField(b, `,"error":`, r.Error)
	if r.Version != 0 {
		b = strconv.AppendUint(append(b, `,"version":`...), uint64(r.Version), 10)
	}
	b = strconv.AppendFloat(append(b, `,"duration_ms":`...), r.DurationMs, 'f', -1, 64)
	b = r.Time.AppendFormat(append(b, `,"time":"`...), time.RFC3339Nano)
	b = strconv.AppendBool(append(b, `","success":`...), r.Success)
	return append(b, '}')
}

func (d *done) appendJSON(b []byte) []byte {
	b = append(slices.Grow(b, 64+len(d.AggregateID)), '{')
	n := len(b)
	b = appendField(b, `"aggregate_id":`, d.AggregateID)
	if d.Version != 0 {
		if len(b) > n {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, `"version":`...), uint64(d.Version), 10)
	}
	return append(b, '}')
}

// appendField appends name, with the punctuation around it, and s. It appends nothing if s is "".
func appendField(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendText(append(b, name...), s)
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			b, _ = codec.JSON.Append(b, s) // a string has an encoding, whatever its bytes
			return b
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
