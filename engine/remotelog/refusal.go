package remotelog

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode"

	"github.com/mainstemdev/mainstem"
)

// Limits on the part of an answer that is shown.
const (
	maxRefusal = 4 << 10 // bytes read
	maxReason  = 300     // characters shown
)

// refusalOf turns the answer to a request for a session into an error. It includes the reason in
// the answer: plain text, as Go servers write it, or the message in the JSON of a problem or of
// Connect. Of an HTML page, as proxies send it, only the status is shown.
func refusalOf(r *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxRefusal)) // as far as it can be read
	if reason := reasonIn(r.Header.Get("Content-Type"), body); reason != "" {
		return fmt.Errorf("the server refused a session: %s: %s", r.Status, reason)
	}
	return fmt.Errorf("the server refused a session: %s", r.Status)
}

// plainRefusal is the cause of the failure of a call that was refused by plain HTTP rather than
// by the protocol of RPC, with a status which means that the call was not served.
type plainRefusal struct {
	code   int
	status string // including the reason
}

func (e *plainRefusal) Error() string { return e.status }

// plainly prepares an answer for the RPC client. Of an answer in another protocol the RPC client
// shows only the status, so plainly adds the reason, if the answer has one in plain text. The RPC
// client also takes every unknown status for a server that has failed, so plainly returns an
// error for those that mean that the call was not served.
func plainly(r *http.Response) (*http.Response, error) {
	contentType := r.Header.Get("Content-Type")
	if r.StatusCode < http.StatusBadRequest || contentType != "" && !strings.HasPrefix(contentType, "text/") {
		return r, nil
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxRefusal)) // as far as it can be read
	if reason := reasonIn(contentType, body); reason != "" {
		r.Status += ": " + reason
	}
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests: // it knows them
	case http.StatusRequestTimeout, http.StatusTooEarly: // another try may succeed
	default:
		if r.StatusCode < http.StatusInternalServerError {
			_ = r.Body.Close() // the rest is not needed
			return nil, &plainRefusal{r.StatusCode, r.Status}
		}
	}
	return r, nil
}

// plainly turns a refusal by plain HTTP into an error of the contract.
func (c call) plainly(r *plainRefusal) *mainstem.Error {
	if r.code == http.StatusRequestEntityTooLarge {
		e := c.fail(mainstem.KindInvalid, mainstem.NotWritten, r)
		e.Hint = "split the batch, or raise the limit of the proxy (nginx: client_max_body_size)"
		return e
	}
	e := c.fail(mainstem.KindUnsupported, mainstem.NotWritten, r)
	e.Hint = "does the URL lead to a Mainstem server of this version?"
	return e
}

// reasonIn returns the reason in the body of an answer, on one line, or "" if there is none.
func reasonIn(contentType string, body []byte) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	reason := ""
	switch {
	case kind == "text/plain":
		reason = string(body)
	case kind == "application/json", strings.HasSuffix(kind, "+json"):
		var said struct{ Detail, Message, Title string }
		if json.Unmarshal(body, &said) == nil {
			reason = firstOf(said.Detail, said.Message, said.Title)
		}
	}
	return oneLine(reason)
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// oneLine returns text on one line: it replaces characters that cannot be shown by blanks, and
// truncates a long text.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)
	shown := []rune(strings.Join(strings.Fields(text), " "))
	if len(shown) > maxReason {
		return string(shown[:maxReason]) + "…"
	}
	return string(shown)
}
