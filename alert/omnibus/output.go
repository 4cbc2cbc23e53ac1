package omnibus

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// The sizes of an answer's buffer.
const (
	flushFrom = 64 << 10  // bytes that are sent together
	keepTo    = 512 << 10 // a larger buffer is not kept for the next answer
)

// Header values that all answers share; net/http only reads them.
var (
	headerJSON    = []string{"application/json;charset=UTF-8"}
	headerNoCache = []string{"no-cache"}
	headerServer  = []string{"libnhttpd"} // what IBM's server says
	headerVary    = []string{"Accept-Encoding"}
)

var buffers sync.Pool // of *[]byte

func newBuffer() *[]byte {
	if b, ok := buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 8<<10)
	return &b
}

func release(b *[]byte) {
	if cap(*b) <= keepTo {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

var gzips sync.Pool // of *gzip.Writer

func newGzip(w http.ResponseWriter) *gzip.Writer {
	if z, ok := gzips.Get().(*gzip.Writer); ok {
		z.Reset(w)
		return z
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return gzip.NewWriter(w) // the level is a constant, and is one
	}
	return z
}

// output is the answer to a request. It is kept back until it is known whether it
// fits a buffer: then it has a length, and an error can still take its place. What
// is larger is sent in parts, and in gzip if the client takes that.
type output struct {
	w            http.ResponseWriter
	status       int
	buf          *[]byte
	compressFrom int // negative: never
	writeTimeout time.Duration

	zip   *gzip.Writer
	sent  bool // the header is out
	bytes int64
}

// filled is called after each row, and sends what is ready if that is enough.
func (o *output) filled() error {
	n := len(*o.buf)
	if n < flushFrom || !o.sent && n < o.compressFrom {
		return nil
	}
	return o.send(true)
}

// finish sends what is left.
func (o *output) finish() error {
	if err := o.send(false); err != nil {
		return err
	}
	if o.zip != nil {
		defer func() {
			gzips.Put(o.zip)
			o.zip = nil
		}()
		if err := o.zip.Close(); err != nil {
			return err
		}
	}
	return nil
}

// send sends the buffer. more says that it is not all of the answer.
func (o *output) send(more bool) error {
	p := *o.buf
	if !o.sent {
		o.header(more, len(p))
	}
	if more || o.bytes > 0 {
		// Only what is sent in parts can wait for its client: the rest is in the
		// system's buffers at once.
		o.deadline(time.Now().Add(o.writeTimeout))
		defer o.deadline(time.Time{})
	}
	o.bytes += int64(len(p))
	var err error
	if o.zip != nil {
		_, err = o.zip.Write(p)
	} else {
		_, err = o.w.Write(p)
	}
	*o.buf = p[:0]
	return err
}

// header writes the header of an answer, of which n bytes are known.
func (o *output) header(more bool, n int) {
	o.sent = true
	h := o.w.Header()
	if h["Content-Type"] == nil {
		h["Content-Type"] = headerJSON
	}
	switch {
	case o.compressFrom >= 0 && n >= o.compressFrom:
		h["Content-Encoding"] = []string{"gzip"}
		o.zip = newGzip(o.w)
	case !more && o.status != http.StatusNotModified:
		h["Content-Length"] = []string{strconv.Itoa(n)}
	}
	o.w.WriteHeader(o.status)
}

// deadline sets until when the client has to take what is written. Servers that
// cannot set one have one of their own.
func (o *output) deadline(t time.Time) {
	_ = http.NewResponseController(o.w).SetWriteDeadline(t)
}

// acceptsGzip reports whether a client takes answers in gzip.
func acceptsGzip(header []string) bool {
	for _, h := range header {
		for h != "" {
			var item string
			item, h, _ = strings.Cut(h, ",")
			name, params, _ := strings.Cut(item, ";")
			if name = strings.TrimSpace(name); strings.EqualFold(name, "gzip") || name == "*" {
				return quality(params) > 0
			}
		}
	}
	return false
}

// quality returns the q of the parameters of an item in an Accept header; 1 without one.
func quality(params string) float64 {
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || q < 0 {
				return 0
			}
			return q
		}
	}
	return 1
}

// acceptsJSON reports whether a client takes JSON: also one that does not say.
func acceptsJSON(header []string) bool {
	some := false
	for _, h := range header {
		for h != "" {
			var item string
			item, h, _ = strings.Cut(h, ",")
			name, params, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "":
				continue
			case "application/json", "application/*", "*/*", "text/json", "*":
				if quality(params) > 0 {
					return true
				}
			}
			some = true
		}
	}
	return !some
}

// acceptsEvents reports whether a client asks for a change feed.
func acceptsEvents(header []string) bool {
	for _, h := range header {
		if strings.Contains(strings.ToLower(h), "text/event-stream") {
			return true
		}
	}
	return false
}
