package alert

import (
	"database/sql/driver"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/mainstemdev/mainstem/internal/regex"
)

// register gives SQLite the functions that translated statements call. They are
// known to every connection of the process that is opened afterwards.
var register = sync.OnceValue(func() error {
	for _, f := range []struct {
		name string
		args int32
		do   func(args []driver.Value) (driver.Value, error)
	}{
		{"osql_like", 2, like},
		{"osql_to_char", 2, toChar},
		{"osql_to_time", 2, toTime},
		{"osql_nvp_get", 2, nvpGet},
		{"osql_nvp_exists", 2, nvpExists},
		{"osql_nvp_set", 3, nvpSet},
	} {
		err := sqlite.RegisterDeterministicScalarFunction(f.name, f.args, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			return f.do(args)
		})
		if err != nil {
			return err
		}
	}
	return nil
})

func textOf(x driver.Value) string {
	switch x := x.(type) {
	case string:
		return x
	case nil:
		return ""
	}
	return fmt.Sprint(x)
}

// patterns are the compiled patterns of LIKE, with errors of those that are none.
var patterns struct {
	sync.RWMutex
	compiled map[string]pattern
	size     int // of all, see maxPatternSizes
}

type pattern struct {
	*regexp.Regexp
	err error
}

// MaxPatterns bounds the number of compiled patterns that are kept; when it is reached, they are
// forgotten.
const MaxPatterns = 1000

// MaxPattern is the greatest length of a pattern of LIKE in bytes, and the greatest number of its
// parts when its repetitions are written out, of about 40 bytes each.
const MaxPattern = 8 << 10

// maxPatternSizes bounds the sum of the sizes of all patterns that are kept: their parts, and their
// texts in units of 40 bytes.
const maxPatternSizes = 64 * MaxPattern

func compile(p string) (*regexp.Regexp, error) {
	patterns.RLock()
	c, ok := patterns.compiled[p]
	patterns.RUnlock()
	if ok {
		return c.Regexp, c.err
	}
	if len(p) > MaxPattern {
		return nil, fmt.Errorf("it has %d bytes: the limit is %d", len(p), MaxPattern)
	}
	var size int
	c.Regexp, size, c.err = regex.Compile(p, MaxPattern)
	size += len(p) / 40
	patterns.Lock()
	defer patterns.Unlock()
	if len(patterns.compiled) >= MaxPatterns || patterns.size+size > maxPatternSizes || patterns.compiled == nil {
		patterns.compiled, patterns.size = map[string]pattern{}, 0
	}
	patterns.compiled[p] = c
	patterns.size += size
	return c.Regexp, c.err
}

func like(args []driver.Value) (driver.Value, error) {
	re, err := compile(textOf(args[1]))
	if err != nil {
		return nil, fmt.Errorf("the pattern of LIKE: %w", err)
	}
	if re.MatchString(textOf(args[0])) {
		return int64(1), nil
	}
	return int64(0), nil
}

// layouts are the parts of a time's format and what time.Format calls them.
var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'b': "Jan", 'h': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'j': "002", 'Z': "MST", 'z': "-0700",
	'T': "15:04:05", 'D': "01/02/06", 'F': "2006-01-02", 'c': defaultLayout, 'x': "01/02/06", 'X': "15:04:05", 'R': "15:04",
}

const defaultLayout = "Mon Jan _2 15:04:05 2006"

// eachPart calls text and spec for the parts of a format.
func eachPart(format string, text func(string), spec func(layout string)) error {
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 || i == len(format)-1 {
			text(format)
			return nil
		}
		text(format[:i])
		switch c := format[i+1]; {
		case c == '%':
			text("%")
		case layouts[c] != "":
			spec(layouts[c])
		default:
			return fmt.Errorf("the format of a time has the unknown part %%%c", c)
		}
		format = format[i+2:]
	}
}

func toChar(args []driver.Value) (driver.Value, error) {
	n, ok := args[0].(int64)
	if !ok {
		return textOf(args[0]), nil
	}
	t, format := time.Unix(n, 0).UTC(), textOf(args[1])
	if format == "" {
		return t.Format(defaultLayout), nil
	}
	var b strings.Builder
	err := eachPart(format, func(s string) { b.WriteString(s) }, func(l string) { b.WriteString(t.Format(l)) })
	return b.String(), err
}

func toTime(args []driver.Value) (driver.Value, error) {
	s, format := textOf(args[0]), textOf(args[1])
	layout := defaultLayout
	if format != "" {
		var b strings.Builder
		if err := eachPart(format, func(s string) { b.WriteString(s) }, func(l string) { b.WriteString(l) }); err != nil {
			return nil, err
		}
		layout = b.String()
	}
	t, err := time.Parse(layout, s)
	if err != nil {
		return nil, fmt.Errorf("%.60q is no time of the format %.60q", s, format)
	}
	return t.Unix(), nil
}

// Name-value pairs are texts like Name="value";Other="it ""is""". They are what
// ExtendedAttr holds.

// nvpFind returns where the pair called name is, and its value.
func nvpFind(s, name string) (start, end int, value string, ok bool) {
	for at := 0; at < len(s); {
		eq := strings.IndexByte(s[at:], '=')
		if eq < 0 {
			return 0, 0, "", false
		}
		n := strings.TrimLeft(s[at:at+eq], "; ")
		start = at + eq - len(n)
		v, size := nvpValue(s[at+eq+1:])
		end = at + eq + 1 + size
		if n == name {
			return start, end, v, true
		}
		at = end
	}
	return 0, 0, "", false
}

// nvpValue reads a value, with the quotes around it if there are some.
func nvpValue(s string) (string, int) {
	if s == "" || s[0] != '"' {
		n := strings.IndexByte(s, ';')
		if n < 0 {
			n = len(s)
		}
		return s[:n], n
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 == len(s) || s[i+1] != '"' {
			return b.String(), i + 1
		}
		b.WriteByte('"')
		i++
	}
	return b.String(), len(s)
}

func nvpGet(args []driver.Value) (driver.Value, error) {
	_, _, v, _ := nvpFind(textOf(args[0]), textOf(args[1]))
	return v, nil
}

func nvpExists(args []driver.Value) (driver.Value, error) {
	_, _, _, ok := nvpFind(textOf(args[0]), textOf(args[1]))
	if ok {
		return int64(1), nil
	}
	return int64(0), nil
}

func nvpSet(args []driver.Value) (driver.Value, error) {
	s, name := textOf(args[0]), textOf(args[1])
	pair := name + `="` + strings.ReplaceAll(textOf(args[2]), `"`, `""`) + `"`
	if start, end, _, ok := nvpFind(s, name); ok {
		return s[:start] + pair + s[end:], nil
	}
	if s != "" && !strings.HasSuffix(s, ";") {
		pair = ";" + pair
	}
	return s + pair, nil
}
