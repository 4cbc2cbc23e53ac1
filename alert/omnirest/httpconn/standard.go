package httpconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"

	"github.com/mainstemdev/mainstem"
)

// Doer does requests: a [Conn], a [Pool] or a [Standard].
type Doer interface {
	Do(ctx context.Context, r *Request) (*Response, error)
}

// Standard does requests with package net/http: for proxies, HTTP/2, and transports
// of one's own. Whether a request was sent is known only if no connection was made.
type Standard struct {
	Client *http.Client
	Target *Target
}

// Do sends a request; see [Pool.Do].
func (s *Standard) Do(ctx context.Context, r *Request) (*Response, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(bytes.Clone(r.Body)) // the transport may read it after Do
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, s.Target.String()+r.Path, body)
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "http", "%w", err)
	}
	lines := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(r.Header), bytes.NewReader([]byte("\r\n")))))
	header, err := lines.ReadMIMEHeader()
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "http", "the header: %w", err)
	}
	req.Header = http.Header(header)
	resp, err := s.Client.Do(req)
	if err != nil {
		return nil, failure(ctx, standardOutcome(err), err)
	}
	out := &Response{
		Status: resp.StatusCode, Length: resp.ContentLength, ContentType: resp.Header.Get("Content-Type"), Encoding: resp.Header.Get("Content-Encoding"),
		Location: resp.Header.Get("Location"), ETag: resp.Header.Get("ETag"), Server: resp.Header.Get("Server"),
		ctx: ctx, under: resp.Body,
	}
	out.Body = standardBody{out}
	return out, nil
}

// standardOutcome says what net/http lets us know.
func standardOutcome(err error) mainstem.Outcome {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return mainstem.NotWritten
	}
	return mainstem.Unknown
}

// standardBody gives the errors of a body their kinds.
type standardBody struct{ r *Response }

func (b standardBody) Read(p []byte) (int, error) {
	n, err := b.r.under.Read(p)
	b.r.done = err == io.EOF
	if err != nil && err != io.EOF {
		err = failure(b.r.ctx, mainstem.Unknown, err)
	}
	return n, err
}
