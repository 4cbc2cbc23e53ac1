package omnirest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// kinds are what the statuses of answers mean. IBM documents 400, 401, 403, 406, 409,
// 415 and 500; the others are those of Mainstem and of proxies before a server.
var kinds = map[int]mainstem.Kind{
	http.StatusBadRequest:            mainstem.KindInvalid,
	http.StatusUnauthorized:          mainstem.KindDenied,
	http.StatusForbidden:             mainstem.KindDenied,
	http.StatusNotFound:              mainstem.KindNotFound,
	http.StatusMethodNotAllowed:      mainstem.KindUnsupported,
	http.StatusNotAcceptable:         mainstem.KindUnsupported,
	http.StatusConflict:              mainstem.KindExists,
	http.StatusRequestEntityTooLarge: mainstem.KindInvalid,
	http.StatusUnsupportedMediaType:  mainstem.KindUnsupported,
	http.StatusTooManyRequests:       mainstem.KindUnavailable,
	http.StatusBadGateway:            mainstem.KindUnavailable,
	http.StatusServiceUnavailable:    mainstem.KindUnavailable,
	http.StatusGatewayTimeout:        mainstem.KindUnavailable,
}

// StatusError is the cause of an error that the server answered with.
type StatusError struct {
	Status  int    // of HTTP
	Message string // the server's text, or ""

	own bool // it is the object server's own, not that of something before it
}

// Error returns the server's text and the status.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("%s (%d)", e.Message, e.Status)
}

// failed makes an answer an error and closes it. o is the outcome if the server may
// have done something before it failed.
func (c *Client) failed(resp *httpconn.Response, o mainstem.Outcome) error {
	defer func() { _ = resp.Close() }() // the answer says enough
	e := &StatusError{Status: resp.Status}
	var x exception
	body, err := unpack(resp)
	if err == nil {
		x = readException(body)
	}
	e.Message, e.own = x.message, x.own
	kind, known := kinds[resp.Status]
	switch {
	case !known && resp.Status == http.StatusInternalServerError && x.own && x.code == "":
		kind = mainstem.KindInvalid // so may IBM's server answer a statement that it refuses
	case !known:
		kind = mainstem.KindInternal
	}
	if k, ok := mainstem.ParseKind(x.code); ok && (kind != mainstem.KindNotFound || k == mainstem.KindNotFound) {
		kind = k
	}
	if kind == mainstem.KindCanceled { // the server's wait, not the caller's
		kind = mainstem.KindUnavailable
	}
	return &mainstem.Error{Kind: kind, Op: "omnirest", Outcome: x.outcomeOf(resp.Status, o), Err: e}
}

// outcomeOf says what became of a request that was answered with an error. Mainstem
// says it; of other servers, some statuses are given before anything is tried.
func (x *exception) outcomeOf(status int, o mainstem.Outcome) mainstem.Outcome {
	if o == mainstem.NoOutcome {
		return o
	}
	switch x.outcome {
	case "not written":
		return mainstem.NotWritten
	case "in part":
		return mainstem.NoOutcome // it is certain: the message says what was done
	case "unknown":
		return mainstem.Unknown
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests:
		return mainstem.NotWritten
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict:
		return o
	}
	return mainstem.Unknown
}

// exception is the body of an answer that is an error.
type exception struct {
	message string
	code    string // of Mainstem: a kind
	outcome string // of Mainstem: what became of what was asked
	own     bool   // it is the object server's own, not that of something before it
}

// readException reads the body of an error: {"exception": {"message": "…"}}; if it is not
// the server's own, its text if it is short.
func readException(body io.Reader) exception {
	raw, err := io.ReadAll(io.LimitReader(body, maxException))
	if err != nil {
		return exception{}
	}
	var x exception
	r := rowjson.NewReader(bytes.NewReader(raw), nil)
	err = r.Object(func(key string) error {
		if key != "exception" {
			return r.Skip()
		}
		return r.Object(func(key string) (err error) {
			switch key {
			case "message":
				x.message, err = r.Text()
			case "code":
				x.code, err = r.Text()
			case "outcome":
				x.outcome, err = r.Text()
			default:
				err = r.Skip()
			}
			return err
		})
	})
	if err == nil && x.message != "" {
		x.own = true
		return x
	}
	const most = 200
	text := strings.Join(strings.Fields(string(raw)), " ")
	if len(text) > most || strings.HasPrefix(text, "<") {
		return exception{}
	}
	return exception{message: text}
}

// withOutcome says in an error what became of what was asked.
func withOutcome(err error, o mainstem.Outcome) error {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Outcome == o {
		return err
	}
	return e.WithOutcome(o)
}
