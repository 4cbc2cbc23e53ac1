package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxDepth bounds objects and lists within each other.
const maxDepth = 32

// decodeJSON adds the fields of a JSON object to e: those of an object within it under
// "outer.inner", the items of a list under "list.0" and so on, and those that are no
// objects or lists joined by commas under "list". Null is no field.
func decodeJSON(line []byte, e *Event) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return jsonError(err)
	}
	if t != json.Delim('{') {
		return errors.New("want a JSON object")
	}
	f := flattener{d: d, e: e}
	if err := f.object("", 1); err != nil {
		return jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the JSON object")
	}
	return nil
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON object is not complete")
	}
	return err
}

type flattener struct {
	d *json.Decoder
	e *Event
}

func (f *flattener) set(name, value string) error {
	if !f.e.Set(name, value) {
		return fmt.Errorf("more than %d fields", MaxFields)
	}
	return nil
}

// object reads an object up to its end.
func (f *flattener) object(prefix string, depth int) error {
	for f.d.More() {
		t, err := f.d.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return fmt.Errorf("%v is no name", t)
		}
		if _, err := f.value(prefix+name, depth); err != nil {
			return err
		}
	}
	_, err := f.d.Token()
	return err
}

// list reads a list up to its end.
func (f *flattener) list(name string, depth int) error {
	var plain []string
	for i := 0; f.d.More(); i++ {
		v, err := f.value(name+"."+strconv.Itoa(i), depth)
		if err != nil {
			return err
		}
		if v != "" {
			plain = append(plain, v)
		}
	}
	if _, err := f.d.Token(); err != nil {
		return err
	}
	return f.set(name, strings.Join(plain, ","))
}

// value reads a value and returns its text, if it is no object and no list.
func (f *flattener) value(name string, depth int) (string, error) {
	t, err := f.d.Token()
	if err != nil {
		return "", err
	}
	text := ""
	switch t := t.(type) {
	case json.Delim:
		if depth == maxDepth {
			return "", fmt.Errorf("more than %d objects and lists within each other", maxDepth)
		}
		if t == '{' {
			return "", f.object(name+".", depth+1)
		}
		return "", f.list(name, depth+1)
	case string:
		text = t
	case json.Number:
		text = t.String()
	case bool:
		text = map[bool]string{true: "1", false: "0"}[t]
	default:
		return "", nil
	}
	return text, f.set(name, text)
}
