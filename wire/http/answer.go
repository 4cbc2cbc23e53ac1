package viewhttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Headers of Mainstem.
const (
	headerRevision  = "Mainstem-Revision"
	headerVersion   = "Mainstem-Version"
	headerPosition  = "Mainstem-Position"
	headerExpires   = "Mainstem-Expires"
	headerTTL       = "Mainstem-TTL"
	headerMeta      = "Mainstem-Meta-"
	headerDuplicate = "Mainstem-Duplicate"
	headerWaitFor   = "Mainstem-Wait-For"
	headerExpected  = "Expected-Version"
	headerKey       = "Idempotency-Key"
	headerLastID    = "Last-Event-ID"
)

// answer sends v as JSON.
func (c *call) answer(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return mainstem.Errorf(mainstem.KindInternal, "http", "encode the answer: %w", err)
	}
	c.w.Header().Set("Content-Type", mediaJSON)
	c.w.WriteHeader(status)
	return c.write(append(body, '\n'))
}

// writeChunk is how many bytes a client has to take within the write timeout.
const writeChunk = 256 << 10

// write sends a body. The client may be gone: then nobody is left who reads an error.
func (c *call) write(body []byte) error {
	if c.r.Method == http.MethodHead {
		return nil
	}
	rc := http.NewResponseController(c.w)
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }() // the connection may have other requests
	for len(body) > 0 {
		n := min(len(body), writeChunk)
		_ = rc.SetWriteDeadline(time.Now().Add(c.h.o.WriteTimeout)) // a writer without deadlines cannot be cut
		if _, err := c.w.Write(body[:n]); err != nil {
			return nil
		}
		body = body[n:]
	}
	return nil
}

// empty answers with a status and no body.
func (c *call) empty(status int) error {
	c.w.WriteHeader(status)
	return nil
}

// setETag says which version of a key the answer is of, and that caches have to ask each time.
func (c *call) setETag(v mainstem.Version) {
	h := c.w.Header()
	h.Set("ETag", `"`+strconv.FormatUint(uint64(v), 10)+`"`)
	h.Set("Cache-Control", "no-cache, no-transform")
}

func (c *call) setNumber(header string, n uint64) {
	c.w.Header().Set(header, strconv.FormatUint(n, 10))
}

// setReceipt says where the log wrote what the request asked for.
func (c *call) setReceipt(r mainstem.Receipt) {
	if r.Last > 0 {
		c.setNumber(headerPosition, uint64(r.Last))
	}
	if r.Duplicate {
		c.w.Header().Set(headerDuplicate, "true")
	}
}
