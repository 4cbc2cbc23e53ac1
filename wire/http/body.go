package viewhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// jsonCopies is how often a request in JSON is in memory at the same time: as it came, as it
// was decoded, and as it was written into a batch. Raw bytes are there once.
const jsonCopies = 3

// bodyChunk is how much of a body whose length is not known is read at a time.
const bodyChunk = 64 << 10

// body reads the whole request, at most limit bytes, and takes memory for it, copies times its
// size. What it takes stays until the request has been answered.
func (c *call) body(limit, copies int64) ([]byte, error) {
	if n := c.r.ContentLength; n > limit {
		return nil, c.tooLarge(fmt.Sprintf("has %d", n), limit)
	}
	rc := http.NewResponseController(c.w)
	until := time.Now().Add(c.h.o.BodyTimeout)
	_ = rc.SetReadDeadline(until) // a writer without deadlines has a reader without
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	reserve := func(n int64) error {
		if c.memory.Try(n) {
			return nil
		}
		_ = rc.SetReadDeadline(time.Time{}) // waiting for memory does not count as time to arrive
		began := time.Now()
		err := c.reserve(n)
		until = until.Add(time.Since(began))
		_ = rc.SetReadDeadline(until)
		return err
	}
	var buf bytes.Buffer
	if n := c.r.ContentLength; n > 0 {
		if err := reserve(n * copies); err != nil {
			return nil, err
		}
		buf.Grow(int(n) + bytes.MinRead)
	}
	for {
		if c.r.ContentLength < 0 {
			if err := reserve(bodyChunk * copies); err != nil {
				return nil, err
			}
		}
		_, err := io.CopyN(&buf, c.r.Body, min(bodyChunk, limit+1-int64(buf.Len())))
		switch {
		case int64(buf.Len()) > limit:
			return nil, c.tooLarge("has more", limit)
		case errors.Is(err, io.EOF):
			return buf.Bytes(), nil
		case err != nil:
			return nil, c.unread(err)
		}
	}
}

// reserve takes n more bytes of memory for the request, and waits for them as long as a request
// may take to arrive, or until the handler is closed.
func (c *call) reserve(n int64) error {
	if c.memory.Try(n) {
		return nil
	}
	ctx, stop := c.untilStopped()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.h.o.BodyTimeout)
	defer cancel()
	return exhausted(c.memory.Acquire(ctx, n))
}

// exhausted makes an error for clients of one of a budget.
func exhausted(err error) error {
	if e := (*budget.ExhaustedError)(nil); !errors.As(err, &e) {
		return err
	}
	return mainstem.Refusef(mainstem.KindUnavailable, "http", "%w", err).WithHint("the server has too little memory for all requests (memory-budget): try again later")
}

func (c *call) tooLarge(has string, limit int64) error {
	c.w.Header().Set("Connection", "close") // the rest is not read
	return refuse(http.StatusRequestEntityTooLarge, mainstem.KindInvalid, "the request %s bytes: the limit is %d", has, limit)
}

// unread is the error of a request that did not arrive.
func (c *call) unread(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.w.Header().Set("Connection", "close") // what comes later is not the next request
		return refuse(http.StatusRequestTimeout, mainstem.KindUnavailable, "the request did not arrive within %v", c.h.o.BodyTimeout)
	}
	return invalid("the request cannot be read: %w", err)
}

// readJSON reads the request as one JSON document into v. Names that v does not have are
// refused. It returns the bytes of the request.
func (c *call) readJSON(v any) ([]byte, error) {
	data, err := c.document()
	if err != nil {
		return nil, err
	}
	return data, decodeJSON(data, v)
}

// decodeJSON reads one document into v.
func decodeJSON(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badJSON(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("the JSON document is followed by something else: want one document")
	}
	return nil
}

func badJSON(err error) error {
	if e := (*statusError)(nil); errors.As(err, &e) {
		return e
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("the JSON document is not complete")
	}
	return invalid("the JSON document cannot be read: %w", err)
}

// readList reads the request as an array of at most most elements, and who sends it, if it is to be
// written once.
func readList[T any](c *call, most int) ([]T, identity, error) {
	body, err := c.document()
	if err != nil {
		return nil, identity{}, err
	}
	list, err := decodeList[T](body, most)
	if err != nil {
		return nil, identity{}, err
	}
	who, err := c.identify(body)
	return list, who, err
}

// decodeList reads an array of at most limit elements. It is for arrays of small elements, which
// would take far more memory than their bytes.
func decodeList[T any](data []byte, limit int) ([]T, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	t, err := d.Token()
	if err != nil {
		return nil, badJSON(err)
	}
	if t != json.Delim('[') {
		return nil, invalid("the JSON document is no array: want [ ... ]")
	}
	out := []T{}
	for d.More() {
		if len(out) == limit {
			return nil, invalid("the array has more than %d elements: the limit is that of a batch; split it", limit)
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, badJSON(err)
		}
		out = append(out, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, badJSON(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, invalid("the JSON document is followed by something else: want one array")
	}
	return out, nil
}
