package viewhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// problem is an error as clients get it: application/problem+json.
type problem struct {
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Kind    string `json:"kind"`
	Outcome string `json:"outcome,omitempty"`
	Hint    string `json:"hint,omitempty"`

	// Of a condition that did not hold.
	Space string `json:"space,omitempty"`
	Key   string `json:"key,omitempty"`
	Want  *want  `json:"want,omitempty"`
	Got   *got   `json:"got,omitempty"`

	// Of an append whose stream was not as expected, or takes no events.
	Expected string `json:"expected,omitempty"`
	Actual   *int64 `json:"actual,omitempty"`
	Deleted  *bool  `json:"deleted,omitempty"`
	Seal     string `json:"seal,omitempty"`
}

// want is a condition of a batch.
type want struct {
	Test     string   `json:"test"`
	Version  uint64   `json:"version,omitempty"`
	Position position `json:"position,omitempty"`
}

// got is what there was instead.
type got struct {
	Version  uint64   `json:"version"`
	Live     bool     `json:"live"`
	Position position `json:"position,omitempty"`
}

// statusError is an error with a status that its kind alone does not say.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// refuse makes the error of a request that was refused before anything was written.
func refuse(status int, kind mainstem.Kind, format string, args ...any) error {
	return &statusError{status, mainstem.Refusef(kind, "", format, args...)}
}

// invalid is refuse for what a client has to change.
func invalid(format string, args ...any) error {
	return refuse(http.StatusBadRequest, mainstem.KindInvalid, format, args...)
}

// withStatus returns err with another status than that of its kind.
func withStatus(status int, err error) error { return &statusError{status, err} }

// kindStatus are the statuses of the kinds, unless an error has one of its own.
var kindStatus = [...]int{
	mainstem.KindInternal:    http.StatusInternalServerError,
	mainstem.KindNotFound:    http.StatusNotFound,
	mainstem.KindExists:      http.StatusConflict,
	mainstem.KindConflict:    http.StatusConflict,
	mainstem.KindInvalid:     http.StatusBadRequest,
	mainstem.KindDenied:      http.StatusForbidden,
	mainstem.KindCanceled:    http.StatusServiceUnavailable,
	mainstem.KindClosed:      http.StatusServiceUnavailable,
	mainstem.KindCorrupt:     http.StatusInternalServerError,
	mainstem.KindUnavailable: http.StatusServiceUnavailable,
	mainstem.KindUnsupported: http.StatusNotImplemented,
}

// kindName is the name of a kind in JSON: not_found.
func kindName(k mainstem.Kind) string { return strings.ReplaceAll(k.String(), " ", "_") }

// statusOf returns the status for an error.
func statusOf(err error) int {
	var own *statusError
	if errors.As(err, &own) {
		return own.status
	}
	if sealed := (*event.SealedError)(nil); errors.As(err, &sealed) {
		return http.StatusLocked
	}
	if k := mainstem.KindOf(err); int(k) < len(kindStatus) {
		return kindStatus[k]
	}
	return http.StatusInternalServerError
}

// problemOf describes err.
func problemOf(err error) *problem {
	status := statusOf(err)
	p := &problem{Title: http.StatusText(status), Status: status, Detail: err.Error(), Kind: kindName(mainstem.KindOf(err))}
	var e *mainstem.Error
	if errors.As(err, &e) {
		p.describe(e)
	}
	var sealed *event.SealedError
	if errors.As(err, &sealed) {
		p.Seal = sealed.Seal.String()
	}
	var conflict *event.ConflictError
	if errors.As(err, &conflict) {
		actual := int64(conflict.Actual)
		p.Expected, p.Actual, p.Deleted = expectedText(conflict.Expected), &actual, &conflict.Deleted
	}
	return p
}

func (p *problem) describe(e *mainstem.Error) {
	p.Hint = e.Hint
	switch e.Outcome {
	case mainstem.NotWritten:
		p.Outcome = "not_written"
	case mainstem.Unknown:
		p.Outcome = "unknown"
	}
	if p.Space = e.Space; utf8.Valid(e.Key) {
		p.Key = string(e.Key)
	}
	if e.Want.Space == "" {
		return
	}
	p.Want = &want{Test: strings.ReplaceAll(e.Want.Test.String(), " ", "_"), Version: uint64(e.Want.Version), Position: position(e.Want.Position)}
	p.Got = &got{Version: uint64(e.Got), Live: e.GotLive, Position: position(e.GotPosition)}
}

// problem answers with err.
func (c *call) problem(err error) {
	p := problemOf(err)
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead {
		p.Outcome = "" // a read writes nothing
	}
	body, merr := json.Marshal(p)
	if merr != nil { // texts and numbers always encode
		body = fmt.Appendf(nil, `{"title":"Internal Server Error","status":%d,"kind":"internal"}`, p.Status)
	}
	h := c.w.Header()
	h.Set("Content-Type", mediaProblem)
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	c.w.WriteHeader(p.Status)
	_, _ = c.w.Write(append(body, '\n')) // the client is gone: nobody is left to tell
}
