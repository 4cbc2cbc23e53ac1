package answertest

import (
	"bytes"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Nullable returns the paths of the fields that can be null in one version of an answer: those
// whose null is written with other bytes than an empty value.
func Nullable(key kmsg.Key, version int16) []string {
	resp := key.Response()
	resp.SetVersion(version)
	le := learner{resp: resp}
	le.structure("", reflect.ValueOf(resp).Elem())
	return le.found
}

// learner finds the nullable fields of an answer by changing them and encoding the answer.
type learner struct {
	resp  kmsg.Response
	found []string // paths
}

// structure visits the fields of a structure that is part of the answer.
func (le *learner) structure(path string, v reflect.Value) {
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" {
			le.field(strings.TrimPrefix(path+"."+name, "."), v.Field(i))
		}
	}
}

// field visits one field. It leaves one element in an array, and a value in a pointer, so that
// the fields inside of them are written.
func (le *learner) field(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		le.structure(path, v)
	case reflect.Pointer:
		le.compare(path, v, reflect.New(v.Type().Elem()))
		if v.Type().Elem().Kind() == reflect.Struct {
			le.structure(path, v.Elem())
		}
	case reflect.Slice:
		le.compare(path, v, reflect.MakeSlice(v.Type(), 0, 0))
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type().Elem().Kind() == reflect.Struct {
			le.structure(path, v.Index(0))
		}
	}
}

// compare encodes the answer with null in a field and with an empty value, and adds the field
// to found if they differ. The empty value stays in the field.
func (le *learner) compare(path string, v, empty reflect.Value) {
	v.SetZero()
	null := le.resp.AppendTo(nil)
	v.Set(empty)
	if !bytes.Equal(null, le.resp.AppendTo(nil)) {
		le.found = append(le.found, path)
	}
}
