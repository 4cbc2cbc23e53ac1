package rows

import (
	"bytes"
	"encoding/json"
)

// Object is a JSON object inside a row. It prints as JSON.
type Object map[string]any

// Array is a JSON array inside a row. It prints as JSON.
type Array []any

// String returns o as JSON with its names sorted.
func (o Object) String() string { return compactJSON(o) }

// String returns a as JSON.
func (a Array) String() string { return compactJSON(a) }

// null is a JSON null inside an array, where leaving it out would move its neighbours.
type null struct{}

func (null) String() string               { return "null" }
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// plainFields converts a decoded object for templates: a null field is as
// missing as one that is not there, and what is nested prints as JSON.
func plainFields(m map[string]any) map[string]any {
	for k, v := range m {
		if v == nil {
			delete(m, k)
			continue
		}
		m[k] = plain(v)
	}
	return m
}

func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return Object(plainFields(v))
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		return Array(v)
	case nil:
		return null{}
	}
	return v
}

// compactJSON encodes what came from a JSON or CSV decoder, which cannot fail.
func compactJSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte{'\n'}))
}
