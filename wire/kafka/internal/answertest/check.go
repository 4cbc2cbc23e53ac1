package answertest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Check returns an error that names each field of an answer that is null against the
// rules, nil if there is none. Only the rules of the answer's API and version count.
func Check(resp kmsg.Response) error {
	nullable := Nullable(kmsg.Key(resp.Key()), resp.GetVersion())
	rules := map[string]When{}
	for _, r := range Rules {
		if int16(r.Key) == resp.Key() && slices.Contains(nullable, r.Path) {
			rules[r.Path] = r.Null
		}
	}
	c := checker{rules: rules, what: fmt.Sprintf("answer to %s version %d", kmsg.NameForKey(resp.Key()), resp.GetVersion())}
	c.structure("", reflect.ValueOf(resp).Elem())
	return errors.Join(c.errs...)
}

// checker walks over the fields of an answer.
type checker struct {
	rules map[string]When // by path
	what  string          // the answer, for errors
	errs  []error
}

func (c *checker) structure(path string, v reflect.Value) {
	failed := false
	if code := v.FieldByName("ErrorCode"); code.IsValid() {
		failed = code.Int() != 0
	}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" {
			c.field(strings.TrimPrefix(path+"."+name, "."), v.Field(i), failed)
		}
	}
}

func (c *checker) field(path string, v reflect.Value, failed bool) {
	if k := v.Kind(); (k == reflect.Pointer || k == reflect.Slice) && v.IsNil() {
		when, nullable := c.rules[path]
		if nullable && (when == Never || when == Failed && !failed) {
			c.errs = append(c.errs, fmt.Errorf("%s: %s is null: Kafka's brokers send a value", c.what, path))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		c.structure(path, v)
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct {
			c.structure(path, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				c.structure(path, v.Index(i))
			}
		}
	}
}
