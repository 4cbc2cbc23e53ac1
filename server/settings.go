package server

import (
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Setting is one field of a [Config] in its textual form: a flag --name, a key name in a file,
// and a variable MAINSTEM_NAME. It is defined by the type and the tags of the field:
//
//	name     the name; a field without one is no setting
//	help     the help text, a phrase without a full stop
//	unit     the meaning of the value, for help texts: "directory", "host:port". For a number
//	         it may be "size": bytes, which may be written as 16MiB
//	default  the meaning of the zero value, for help texts
//	least    the smallest valid duration
//
// A Setting reads and writes its Config, so only one goroutine may use both.
type Setting struct {
	Name    string
	Type    string // the unit, or else the type: "bool", "number", "duration"
	Usage   string // the help text, with the default unless that is a value
	Default string // meaning of the zero value, "" if it has no special one

	least time.Duration
	value any // pointer to the field
}

// Settings returns the settings of c and of its components, in the order of help texts.
func (c *Config) Settings() []Setting {
	all := settingsOf(c)
	for _, component := range c.Components {
		if component, ok := component.(Configured); ok {
			all = append(all, settingsOf(component.Settings())...)
		}
	}
	return all
}

// settingsOf returns the settings of a struct, given a pointer to it. Only the types of fields
// that [Setting.Set] can parse are allowed, which Set checks.
func settingsOf(of any) []Setting {
	var all []Setting
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name, ok := tag.Lookup("name")
		if !ok {
			continue
		}
		s := Setting{Name: name, Type: tag.Get("unit"), Usage: tag.Get("help"), Default: tag.Get("default"), value: v.Field(i).Addr().Interface()}
		if s.Type == "" {
			s.Type = typeName(s.value)
		}
		if s.Default != "" {
			s.Usage += " (default " + s.Default + ")"
		}
		s.least, _ = time.ParseDuration(tag.Get("least")) // 0 without the tag
		all = append(all, s)
	}
	return all
}

// typeName returns the name of the type of a field without a unit.
func typeName(field any) string {
	switch field.(type) {
	case *bool:
		return "bool"
	case *int, *int64:
		return "number"
	case *time.Duration:
		return "duration"
	}
	return "text"
}

// Env returns the name of the setting's environment variable.
func (s Setting) Env() string { return envName(s.Name) }

// Get returns the value of the setting in the form that Set parses, or "" for a zero that means
// the default.
func (s Setting) Get() string {
	switch p := s.value.(type) {
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return zeroIsEmpty(int64(*p), strconv.Itoa(*p))
	case *int64:
		return zeroIsEmpty(*p, strconv.FormatInt(*p, 10))
	case *time.Duration:
		return zeroIsEmpty(int64(*p), p.String())
	case *slog.Level:
		return strings.ToLower(p.String())
	case *mainstem.Durability:
		return p.String()
	}
	return *s.value.(*string)
}

func zeroIsEmpty(n int64, text string) string {
	if n == 0 {
		return ""
	}
	return text
}

// Set parses v and sets the field. Errors have the name of the setting, the value and the valid
// values.
func (s Setting) Set(v string) error {
	if err := s.parse(v); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: s.Name, Err: err}
	}
	return nil
}

func (s Setting) parse(v string) error {
	switch p := s.value.(type) {
	case *string:
		*p = v
	case *bool:
		return parseInto(p, v, strconv.ParseBool, "true or false")
	case *int:
		n, err := s.number(v)
		if err == nil && int64(int(n)) != n {
			err = fmt.Errorf("%q is out of range", v)
		}
		if err == nil {
			*p = int(n)
		}
		return err
	case *int64:
		n, err := s.number(v)
		if err == nil {
			*p = n
		}
		return err
	case *time.Duration:
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 1m30s", v)
		}
		if d < s.least {
			return fmt.Errorf("%q is less than %v", v, s.least)
		}
		*p = d
	case *slog.Level:
		return parseInto(p, v, func(v string) (l slog.Level, err error) { err = l.UnmarshalText([]byte(v)); return l, err }, "debug, info, warn or error")
	case *mainstem.Durability:
		d, err := mainstem.ParseDurability(v)
		if err == nil {
			*p = d
		}
		return err
	default:
		return fmt.Errorf("a field of type %T cannot be a setting", s.value)
	}
	return nil
}

// parseInto sets *p to the result of parse, or returns an error that v is not what want
// describes.
func parseInto[T any](p *T, v string, parse func(string) (T, error), want string) error {
	value, err := parse(v)
	if err != nil {
		return fmt.Errorf("%q is not %s", v, want)
	}
	*p = value
	return nil
}

// number parses a count, or a size in bytes, which must be at least 1.
func (s Setting) number(v string) (int64, error) {
	if s.Type == "size" {
		n, err := ParseSize(v)
		if err == nil && n <= 0 {
			err = fmt.Errorf("%q is out of range", v)
		}
		return n, err
	}
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not a number from 1 on", v)
	}
	return int64(n), nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

// ParseSize parses a number of bytes, such as 4096, 16MiB or 2GB.
func ParseSize(s string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n > (1<<62)/u.bytes || n < -(1<<62)/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q is not a number of bytes such as 4096, 16MiB or 2GB", s)
}
