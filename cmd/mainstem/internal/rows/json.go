package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonDecoder reads one JSON object from each line.
type jsonDecoder struct{}

func (jsonDecoder) next(lines *lineReader, from int64) (Row, error) {
	for {
		ln, err := lines.next()
		if err != nil {
			return Row{}, err
		}
		if ln.number < from || (ln.err == nil && blank(ln.text)) {
			continue
		}
		if ln.err != nil {
			return Row{}, &LineError{ln.number, ln.err}
		}
		text := bytes.TrimSpace(ln.text)
		fields, err := parseObject(text)
		if err != nil {
			return Row{}, &LineError{ln.number, err}
		}
		return Row{Line: ln.number, Last: ln.number, Fields: fields, Text: text}, nil
	}
}

// parseObject reads text, which must be one JSON object and nothing else.
func parseObject(text []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, jsonError(err)
	}
	if rest := bytes.TrimSpace(text[dec.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("not JSON: %.20q follows the value", rest)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want a JSON object, got %s", describe(v))
	}
	return plainFields(m), nil
}

func jsonError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("not JSON: the line ends inside the value")
	}
	var s *json.SyntaxError
	if errors.As(err, &s) {
		return fmt.Errorf("not JSON: %w at byte %d", err, s.Offset)
	}
	return fmt.Errorf("not JSON: %w", err)
}

func describe(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case []any:
		return "an array"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}
