package viewhttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// value is bytes in JSON, as exactly one of: json, a document whose bytes are stored as they
// came; text, in UTF-8; base64, any bytes.
type value struct {
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   *string         `json:"text,omitempty"`
	Base64 *[]byte         `json:"base64,omitempty"`
}

// bytes returns what the value stands for. what names it in the error if not exactly one of its
// forms is there.
func (v *value) bytes(what string) ([]byte, error) {
	n := 0
	var out []byte
	if v.JSON != nil {
		n, out = n+1, v.JSON
	}
	if v.Text != nil {
		n, out = n+1, []byte(*v.Text)
	}
	if v.Base64 != nil {
		n, out = n+1, *v.Base64
	}
	if n != 1 {
		return nil, invalid("%s has %d of json, text and base64: want exactly one", what, n)
	}
	if out == nil {
		out = []byte{}
	}
	return out, nil
}

// form says how values are shown.
type form string

// The forms of ?as=.
const (
	asText   form = "text"   // text where it is UTF-8, else base64
	asJSON   form = "json"   // json where it is a document, else as text
	asBase64 form = "base64" // always base64
)

// valueOf shows bytes. Their owner may change them afterwards.
func valueOf(data []byte, as form) value {
	if as == asJSON && utf8.Valid(data) && json.Valid(data) {
		return value{JSON: bytes.Clone(data)}
	}
	if as != asBase64 && utf8.Valid(data) {
		s := string(data)
		return value{Text: &s}
	}
	b := append([]byte{}, data...)
	return value{Base64: &b}
}

// name is a key or another name of any bytes in JSON: key where it is UTF-8, else key64.
type name struct {
	Key   *string `json:"key,omitempty"`
	Key64 *[]byte `json:"key64,omitempty"`
}

func nameOf(key string) name {
	if utf8.ValidString(key) {
		return name{Key: &key}
	}
	b := []byte(key)
	return name{Key64: &b}
}

// text returns the name, which must be there exactly once.
func (n *name) text() (string, error) {
	switch {
	case n.Key != nil && n.Key64 != nil:
		return "", invalid("both key and key64 are there: want one")
	case n.Key != nil:
		return *n.Key, nil
	case n.Key64 != nil:
		return string(*n.Key64), nil
	}
	return "", invalid("there is neither key nor key64: want one")
}

// decode64 reads base64 of either alphabet, with or without padding.
func decode64(s string) ([]byte, error) {
	s = string(bytes.TrimRight([]byte(s), "="))
	if out, err := base64.RawURLEncoding.DecodeString(s); err == nil {
		return out, nil
	}
	return base64.RawStdEncoding.DecodeString(s)
}
