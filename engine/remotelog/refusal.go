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

// Limits of what is shown of an answer.
const (
	maxRefusal = 4 << 10 // bytes read
	maxReason  = 300     // characters shown
)

// refusalOf returns the answer to a request for a session, with the reason that it gives: plain
// text, as Go servers write it, or the message of a problem or of Connect in JSON. Pages for
// people, as proxies write them, say no more than the status.
func refusalOf(r *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxRefusal)) // what there is of it
	if reason := reasonIn(r.Header.Get("Content-Type"), body); reason != "" {
		return fmt.Errorf("the server refused a session: %s: %s", r.Status, reason)
	}
	return fmt.Errorf("the server refused a session: %s", r.Status)
}

// plainRefusal is the cause of a call's failure that was refused by HTTP, and not by the protocol
// of RPC, with a status that means that it was not served.
type plainRefusal struct {
	code   int
	status string // with the reason
}

func (e *plainRefusal) Error() string { return e.status }

// plainly returns an answer as the RPC client should see it. Of one that is not of its protocol
// that shows nothing but the status: the reason is added, if there is one in plain text. And it
// takes every status that it does not know for a server that failed.
func plainly(r *http.Response) (*http.Response, error) {
	contentType := r.Header.Get("Content-Type")
	if r.StatusCode < http.StatusBadRequest || contentType != "" && !strings.HasPrefix(contentType, "text/") {
		return r, nil
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxRefusal)) // what there is of it
	if reason := reasonIn(contentType, body); reason != "" {
		r.Status += ": " + reason
	}
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests: // it knows them
	case http.StatusRequestTimeout, http.StatusTooEarly: // another try may succeed
	default:
		if r.StatusCode < http.StatusInternalServerError {
			_ = r.Body.Close() // nothing more is needed
			return nil, &plainRefusal{r.StatusCode, r.Status}
		}
	}
	return r, nil
}

// plainly explains a refusal by HTTP.
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

// reasonIn returns the reason in the body of an answer, on one line; empty if there is none.
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

// oneLine returns text with blanks for what cannot be shown on a line, and cut if it is long.
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
