package eventtest

import (
	"fmt"
	"reflect"
	"strings"
)

// maxLines bounds the lines of one difference.
const maxLines = 20

// diff returns the fields in which two values differ, one per line, or "" if reflect.DeepEqual
// finds them equal.
func diff(got, want any) string {
	if reflect.DeepEqual(got, want) {
		return ""
	}
	var d differ
	d.values("", reflect.ValueOf(got), reflect.ValueOf(want))
	if len(d.lines) == 0 { // the values differ only for DeepEqual, such as functions
		d.add("", reflect.ValueOf(got), reflect.ValueOf(want))
	}
	if n := len(d.lines); n > maxLines {
		d.lines = append(d.lines[:maxLines], fmt.Sprintf("\t… and %d more", n-maxLines))
	}
	return strings.Join(d.lines, "\n")
}

// differ collects the lines of a difference.
type differ struct{ lines []string }

// add adds a line for the value at path.
func (d *differ) add(path string, got, want reflect.Value) {
	if path == "" {
		path = "value"
	}
	d.lines = append(d.lines, fmt.Sprintf("\t%s: got %s, want %s", strings.TrimPrefix(path, "."), show(got), show(want)))
}

// show returns a value in Go syntax, or "nothing" for a value that is missing.
func show(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return "nothing"
	case v.CanInterface():
		return fmt.Sprintf("%#v", v.Interface())
	}
	return fmt.Sprintf("%v", v) // an unexported field, whose value cannot be taken out
}

// values compares two values recursively and adds a line for each difference. Values of different
// types or lengths are compared as a whole.
func (d *differ) values(path string, got, want reflect.Value) {
	if !got.IsValid() || !want.IsValid() || got.Type() != want.Type() {
		if got.IsValid() || want.IsValid() {
			d.add(path, got, want)
		}
		return
	}
	switch got.Kind() {
	case reflect.Pointer, reflect.Interface:
		if got.IsNil() || want.IsNil() {
			d.leaf(path, got, want)
			return
		}
		if got.Kind() == reflect.Pointer && got.Pointer() == want.Pointer() {
			return
		}
		d.values(path, got.Elem(), want.Elem())
	case reflect.Struct:
		for i := range got.NumField() {
			d.values(path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if got.Len() != want.Len() || got.Kind() == reflect.Slice && got.IsNil() != want.IsNil() || got.Type().Elem().Kind() == reflect.Uint8 {
			d.leaf(path, got, want)
			return
		}
		for i := range got.Len() {
			d.values(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i))
		}
	case reflect.Map:
		if got.IsNil() != want.IsNil() {
			d.leaf(path, got, want)
			return
		}
		for _, k := range got.MapKeys() {
			d.values(fmt.Sprintf("%s[%s]", path, show(k)), got.MapIndex(k), want.MapIndex(k))
		}
		for _, k := range want.MapKeys() {
			if !got.MapIndex(k).IsValid() {
				d.add(fmt.Sprintf("%s[%s]", path, show(k)), reflect.Value{}, want.MapIndex(k))
			}
		}
	default:
		d.leaf(path, got, want)
	}
}

// leaf adds a line if two values differ as a whole.
func (d *differ) leaf(path string, got, want reflect.Value) {
	if got.Comparable() && want.Comparable() {
		if !got.Equal(want) {
			d.add(path, got, want)
		}
		return
	}
	if !got.CanInterface() || !reflect.DeepEqual(got.Interface(), want.Interface()) {
		d.add(path, got, want)
	}
}
