package natskv

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Envelope is a stored value with all that go-orb and go-micro keep about it in
// their JSON form:
//
//	{"key":"<key without its table>","data":"<base64>","metadata":{…}}
//
// A [Bucket] of Envelope reads and writes it whole. In layouts without envelopes
// it has the key, the stored bytes and, as an object of strings, the metadata.
type Envelope struct {
	Key      string          `json:"key"`
	Data     []byte          `json:"data"`     // null in JSON is nil, "" is empty
	Metadata json.RawMessage `json:"metadata"` // a JSON value; nil if there is none
}

// append appends e in the form of go-orb or go-micro, byte for byte what their
// encoding/json writes: HTML escaped, without a line feed.
func (e *Envelope) append(dst []byte, f form) ([]byte, error) {
	dst = slices.Grow(dst, len(e.Key)+base64.StdEncoding.EncodedLen(len(e.Data))+len(e.Metadata)+40)
	dst = append(dst, `{"key":`...)
	dst, err := appendString(dst, e.Key)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"data":`...)
	if e.Data == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, e.Data)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"metadata":`...)
	switch {
	case len(e.Metadata) > 0:
		m, err := json.Marshal(e.Metadata) // without blanks, HTML escaped
		if err != nil {
			return dst, fmt.Errorf("the metadata is not JSON: %w", err)
		}
		dst = append(dst, m...)
	case f == formOrb:
		dst = append(dst, "{}"...)
	default:
		dst = append(dst, "null"...)
	}
	return append(dst, '}'), nil
}

// appendString appends s as encoding/json does.
func appendString(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			b, err := json.Marshal(s)
			return append(dst, b...), err
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}

// parse reads an envelope of either world. Its Data shares no memory with src; its
// Metadata does.
func (e *Envelope) parse(src []byte) error {
	if e.parseFast(src) {
		return nil
	}
	*e = Envelope{}
	if len(src) == 0 {
		return errors.New("the body is empty: not a JSON envelope")
	}
	var in struct {
		Key      string          `json:"key"`
		Data     []byte          `json:"data"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(src, &in); err != nil {
		return fmt.Errorf("not a JSON envelope: %w", err)
	}
	*e = Envelope{Key: in.Key, Data: in.Data, Metadata: meaningful(in.Metadata)}
	return nil
}

// parseFast reads what append writes of plain keys. It does not take anything
// that encoding/json would refuse or read otherwise; what it does not take is
// not wrong.
func (e *Envelope) parseFast(src []byte) bool {
	rest, ok := bytes.CutPrefix(src, []byte(`{"key":"`))
	if !ok {
		return false
	}
	n := bytes.IndexByte(rest, '"')
	if n < 0 || !plain(rest[:n]) {
		return false
	}
	key := rest[:n]
	if rest, ok = bytes.CutPrefix(rest[n+1:], []byte(`,"data":`)); !ok {
		return false
	}
	var data []byte
	if after, null := bytes.CutPrefix(rest, []byte("null")); null {
		rest = after
	} else if data, rest, ok = fastData(rest); !ok {
		return false
	}
	rest, ok = bytes.CutPrefix(rest, []byte(`,"metadata":`))
	if !ok || len(rest) < 2 || rest[len(rest)-1] != '}' {
		return false
	}
	meta := rest[:len(rest)-1]
	if !json.Valid(meta) {
		return false
	}
	*e = Envelope{Key: string(key), Data: data, Metadata: meaningful(meta)}
	return true
}

// fastData reads a base64 string at the start of src.
func fastData(src []byte) (data, rest []byte, ok bool) {
	if len(src) == 0 || src[0] != '"' {
		return nil, nil, false
	}
	n := bytes.IndexByte(src[1:], '"')
	if n < 0 {
		return nil, nil, false
	}
	text := src[1 : n+1]
	if bytes.IndexByte(text, '\\') >= 0 || bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, nil, false
	}
	data = make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	m, err := base64.StdEncoding.Decode(data, text)
	return data[:m:m], src[n+2:], err == nil
}

// plain reports whether the bytes of a JSON string stand for themselves.
func plain(s []byte) bool {
	for _, c := range s {
		if c < ' ' || c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

// meaningful returns nil for metadata that says nothing.
func meaningful(m json.RawMessage) json.RawMessage {
	m = bytes.TrimSpace(m)
	if len(m) == 0 || string(m) == "null" || string(m) == "{}" {
		return nil
	}
	return m
}

// metadata returns the fields of the metadata, if it is an object: strings as
// they are, all else as its JSON.
func (e *Envelope) metadata() map[string]string {
	if e.Metadata == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Metadata, &fields) != nil || len(fields) == 0 {
		return nil
	}
	m := make(map[string]string, len(fields))
	for name, v := range fields {
		var s string
		if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil {
			m[name] = s
		} else {
			m[name] = string(v)
		}
	}
	return m
}
