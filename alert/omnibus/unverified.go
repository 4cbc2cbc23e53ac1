package omnibus

import (
	"net/http"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// What is in this file could not be checked against IBM's server, or is a choice
// where its documentation is silent. Everything else in the package follows
// documented requests and answers. To correct something, change it here.

// jsonTypes are the names that coldesc has for types. "string", "integer" and "utc"
// are known; clients take what is no string for a number.
var jsonTypes = [...]string{
	osql.Integer: "integer", osql.Time: "utc", osql.Varchar: "string", osql.Incr: "integer", osql.Char: "string",
	osql.Unsigned: "integer", osql.Boolean: "boolean", osql.Real: "real", osql.Integer64: "integer", osql.Unsigned64: "integer",
}

// booleansAsNumbers writes booleans as 1 and 0, as SQL shows them, not as true and false.
const booleansAsNumbers = true

// systemPath is where the system information is, below [Prefix].
const systemPath = "sysinfo"

// needContentType refuses a body without a Content-Type. One with another than
// application/json is refused anyway.
const needContentType = false

// statusOf says how kinds of errors are answered. NotFound is 404 for tables and
// rows in the path and 400 for names in statements, filters and bodies.
var statusOf = map[mainstem.Kind]int{
	mainstem.KindNotFound:    http.StatusBadRequest,
	mainstem.KindExists:      http.StatusConflict,
	mainstem.KindInvalid:     http.StatusBadRequest,
	mainstem.KindDenied:      http.StatusForbidden,
	mainstem.KindUnsupported: http.StatusBadRequest,
	mainstem.KindConflict:    http.StatusServiceUnavailable, // with other servers on the log, again and again
	mainstem.KindCanceled:    http.StatusServiceUnavailable,
	mainstem.KindClosed:      http.StatusServiceUnavailable,
	mainstem.KindUnavailable: http.StatusServiceUnavailable,
	mainstem.KindCorrupt:     http.StatusInternalServerError,
	mainstem.KindInternal:    http.StatusInternalServerError,
}

// appendException appends the body of an answer that is an error. Clients read
// exception.message; outcome is left out if it is empty.
func appendException(b []byte, status int, code, outcome, message string) []byte {
	b = append(b, `{"exception":{"status":`...)
	b = appendInt(b, int64(status))
	b = append(b, `,"code":`...)
	b = rowjson.AppendString(b, code)
	if outcome != "" {
		b = append(b, `,"outcome":`...)
		b = rowjson.AppendString(b, outcome)
	}
	b = append(b, `,"message":`...)
	b = rowjson.AppendString(b, message)
	return append(b, "}}\n"...)
}
