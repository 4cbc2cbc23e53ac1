package osql

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// function is a function of ObjectServer SQL.
type function struct {
	min, max  int  // arguments
	bare      bool // may stand without parentheses
	aggregate bool
	translate func(t *translator, args []value) (value, error)
}

// text makes a function from a pattern of SQL: %[1]s is the first argument.
func text(n int, typ Type, pattern string) function {
	return function{min: n, max: n, translate: func(_ *translator, args []value) (value, error) {
		return value{sql: fill(pattern, args), typ: typ}, nil
	}}
}

func fill(pattern string, args []value) string {
	a := make([]any, len(args))
	for i := range args {
		a[i] = args[i].sql
	}
	return fmt.Sprintf(pattern, a...)
}

// calendar makes a function of a time, in UTC.
func calendar(format, pattern string) function {
	return text(1, Integer, fmt.Sprintf(pattern, fmt.Sprintf("CAST(strftime('%s', %%[1]s, 'unixepoch') AS INTEGER)", format)))
}

// same makes a function whose result has the type of its first argument.
func same(pattern string, aggregate bool) function {
	return function{min: 1, max: 1, aggregate: aggregate, translate: func(_ *translator, args []value) (value, error) {
		return value{sql: fill(pattern, args), typ: args[0].typ}, nil
	}}
}

// source makes a function whose value is known when the statement runs.
func source(s Source, typ Type) function {
	return function{bare: true, translate: func(t *translator, _ []value) (value, error) {
		return value{sql: t.param(Param{Source: s}), typ: typ}, nil
	}}
}

func aggregate(f function) function {
	f.aggregate = true
	return f
}

// functions are what statements may call, by their names in lower case. It is
// filled by init: some of the functions look into it.
var functions map[string]function

func init() {
	functions = map[string]function{
		"getdate":       source(FromNow, Time),
		"getservername": source(FromServer, Varchar),

		"to_int": number(Integer), "to_integer": number(Integer), "to_int64": number(Integer64), "to_integer64": number(Integer64),
		"to_unsigned": number(Unsigned), "to_unsigned64": number(Unsigned64),
		"to_real": number(Real), "to_float": number(Real),
		"to_time": {min: 1, max: 2, translate: toTime},
		"to_date": {min: 1, max: 2, translate: toTime},
		"to_char": {min: 1, max: 2, translate: toChar},

		"upper": text(1, Varchar, "upper(%[1]s)"), "lower": text(1, Varchar, "lower(%[1]s)"),
		"ltrim": text(1, Varchar, "ltrim(%[1]s)"), "rtrim": text(1, Varchar, "rtrim(%[1]s)"), "trim": text(1, Varchar, "trim(%[1]s)"),
		"length": text(1, Integer, "length(%[1]s)"),
		"substr": {min: 2, max: 3, translate: substr}, "substring": {min: 2, max: 3, translate: substr},
		"nvp_get":    text(2, Varchar, "osql_nvp_get(%[1]s, %[2]s)"),
		"nvp_exists": text(2, Boolean, "osql_nvp_exists(%[1]s, %[2]s)"),
		"nvp_set":    text(3, Varchar, "osql_nvp_set(%[1]s, %[2]s, %[3]s)"),

		"mod": text(2, Integer64, "(%[1]s %% %[2]s)"), "abs": same("abs(%[1]s)", false),
		"ceil": text(1, Real, "ceil(%[1]s)"), "floor": text(1, Real, "floor(%[1]s)"),
		"power": text(2, Real, "pow(%[1]s, %[2]s)"), "log_2": text(1, Real, "log2(%[1]s)"),

		"year": calendar("%%Y", "%s"), "monthofyear": calendar("%%m", "%s"), "monthasnum": calendar("%%m", "(%s - 1)"),
		"dayofmonth": calendar("%%d", "%s"), "dayofyear": calendar("%%j", "%s"),
		"dayofweek": calendar("%%w", "(%s + 1)"), "dayasnum": calendar("%%w", "%s"),
		"hourofday": calendar("%%H", "%s"), "minuteofhour": calendar("%%M", "%s"), "secondofminute": calendar("%%S", "%s"),
		"dayname":   text(1, Varchar, "osql_to_char(%[1]s, '%%A')"),
		"monthname": text(1, Varchar, "osql_to_char(%[1]s, '%%B')"),

		"get_prop_value": {min: 1, max: 1}, // see property: its argument is needed before the statement runs

		"count": aggregate(text(1, Integer, "count(%[1]s)")),
		"dist":  {min: 2, max: 2, aggregate: true, translate: dist},
		"sum":   same("sum(%[1]s)", true), "min": same("min(%[1]s)", true), "max": same("max(%[1]s)", true),
		"avg": aggregate(text(1, Real, "avg(%[1]s)")),
	}
}

func number(typ Type) function {
	as := "INTEGER"
	if typ == Real {
		as = "REAL"
	}
	return text(1, typ, "CAST(%[1]s AS "+as+")")
}

func dist(t *translator, args []value) (value, error) {
	x, y, err := t.comparable(args[0], args[1], false)
	if err != nil {
		return value{}, err
	}
	return value{sql: fill("total(%[1]s = %[2]s)", []value{x, y}), typ: Integer}, nil
}

func toTime(_ *translator, args []value) (value, error) {
	if len(args) == 1 && !args[0].typ.Text() {
		return value{sql: fill("CAST(%[1]s AS INTEGER)", args), typ: Time}, nil
	}
	return value{sql: "osql_to_time(" + join2(args) + ")", typ: Time}, nil
}

func toChar(_ *translator, args []value) (value, error) {
	if args[0].typ == Time || len(args) == 2 {
		return value{sql: "osql_to_char(" + join2(args) + ")", typ: Varchar}, nil
	}
	return value{sql: fill("CAST(%[1]s AS TEXT)", args), typ: Varchar}, nil
}

func substr(_ *translator, args []value) (value, error) {
	pattern := "substr(%[1]s, %[2]s)"
	if len(args) == 3 {
		pattern = "substr(%[1]s, %[2]s, %[3]s)"
	}
	return value{sql: fill(pattern, args), typ: Varchar}, nil
}

// join2 writes one or two arguments; a second that is missing is the empty text.
func join2(args []value) string {
	if len(args) == 1 {
		return args[0].sql + ", ''"
	}
	return args[0].sql + ", " + args[1].sql
}

func (t *translator) call(c *call, sc *scope) (value, error) {
	lower := strings.ToLower(c.Name)
	f, ok := functions[lower]
	switch {
	case !ok:
		return value{}, mainstem.Refusef(mainstem.KindUnsupported, "sql", "the function %s is not supported", c.Name)
	case lower == "get_prop_value":
		return t.property(c)
	case c.Star:
		if lower != "count" {
			return value{}, mainstem.Refusef(mainstem.KindInvalid, "sql", "%s(*) has no meaning: only count takes *", c.Name)
		}
		return value{sql: "count(*)", typ: Integer}, nil
	case len(c.Args) < f.min || len(c.Args) > f.max:
		return value{}, mainstem.Refusef(mainstem.KindInvalid, "sql", "%s has %d arguments: want %s", c.Name, len(c.Args), between2(f.min, f.max))
	case c.Distinct && (!f.aggregate || len(c.Args) != 1):
		return value{}, mainstem.Refusef(mainstem.KindInvalid, "sql", "DISTINCT works inside of count, sum, avg, min and max, not of %s", c.Name)
	}
	args := make([]value, len(c.Args))
	for i, a := range c.Args {
		x, err := t.expr(a, sc)
		if err != nil {
			return value{}, err
		}
		args[i] = x
	}
	if c.Distinct {
		args[0].sql = "DISTINCT " + args[0].sql
	}
	v, err := f.translate(t, args)
	v.call = c.Name
	return v, err
}

func between2(low, high int) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

func (t *translator) property(c *call) (value, error) {
	if len(c.Args) == 1 {
		if u := c.Args[0].simple(); u != nil && u.Primary.Slot != nil && len(u.Signs) == 0 {
			return value{sql: t.param(Param{FromProperty, u.Primary.Slot.Index}), typ: Varchar}, nil
		}
	}
	return value{}, mainstem.Refusef(mainstem.KindInvalid, "sql", "get_prop_value wants one literal: the name of a property")
}
