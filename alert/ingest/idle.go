package ingest

import (
	"context"
	"io"
	"time"

	"github.com/mainstemdev/mainstem"
)

// chunkSize is how much is read at a time from what comes slowly.
const chunkSize = 64 << 10

// chunk is what one call of Read returned. It is good until the next one is taken.
type chunk struct {
	b   []byte
	err error
}

// idleReader reads from a source that may take its time: when nothing came for a while it
// calls idle, in the goroutine that reads. One goroutine waits for the source.
type idleReader struct {
	ctx    context.Context
	after  time.Duration
	idle   func() error
	chunks <-chan chunk
	rest   chunk
	failed error // of idle
}

// newIdleReader returns a reader of r, and what ends its goroutine, as soon as r returns.
func newIdleReader(ctx context.Context, r io.Reader, after time.Duration, idle func() error) (*idleReader, func()) {
	chunks, done := make(chan chunk), make(chan struct{})
	go func() {
		buffers := [2][]byte{make([]byte, chunkSize), make([]byte, chunkSize)}
		for i := 0; ; i++ {
			b := buffers[i%2] // the other one is being read from
			n, err := r.Read(b)
			select {
			case chunks <- chunk{b[:n], err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return &idleReader{ctx: ctx, after: after, idle: idle, chunks: chunks}, func() { close(done) }
}

// Read implements io.Reader.
func (r *idleReader) Read(p []byte) (int, error) {
	for len(r.rest.b) == 0 {
		if r.rest.err != nil {
			return 0, r.rest.err
		}
		if err := r.wait(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest.b)
	r.rest.b = r.rest.b[n:]
	return n, nil
}

// wait takes the next chunk.
func (r *idleReader) wait() error {
	select {
	case r.rest = <-r.chunks:
		return nil
	default:
	}
	timer := time.NewTimer(r.after)
	defer timer.Stop()
	began := time.Now()
	for {
		select {
		case r.rest = <-r.chunks:
			return nil
		case <-timer.C:
			if r.failed = r.idle(); r.failed != nil {
				return r.failed
			}
		case <-r.ctx.Done():
			return mainstem.Ended(r.ctx, "import", began, "the input")
		}
	}
}
