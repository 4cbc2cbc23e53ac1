package omnibus

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bodies take memory from [Options.Memory] as they arrive, until the request is answered.
// A client that stops in the middle of a body is cut when others wait for the memory.

const (
	// bodyCopies is how many times its bytes a body takes: in a buffer that doubles as it
	// fills, and decoded.
	bodyCopies = 5
	// freeBody is the size up to which a body is not counted: the number of requests
	// bounds that.
	freeBody = 16 << 10
	// cellSize is about how many bytes a cell of a row takes, in a body that was decoded and in
	// the table.
	cellSize = 64
	// freeCells is the number of cells that are not counted.
	freeCells = 2000
	// bodyChunk is how much is read before it is noted that the client goes on.
	bodyChunk = 256 << 10
	// memoryWait is how long a request waits for memory.
	memoryWait = 10 * time.Second
)

// room takes memory for a body of n bytes in all, and waits for it.
func (x *exchange) room(n int) error {
	if n <= freeBody {
		return nil
	}
	return x.take(int64(n)*bodyCopies - x.memory.Size())
}

// roomForRows returns what takes memory for the rows of a body, beside that for the body, and
// waits for it. More than all memory that there is for requests is too large.
func (x *exchange) roomForRows() func(cells int) error {
	taken := freeCells
	return func(cells int) error {
		if cells <= taken {
			return nil
		}
		if x.h.memory != nil && int64(cells)*cellSize > x.h.memory.Limit() {
			return tooLarge("the rows have %d columns in all, those included that only some of them name: send less at a time", cells)
		}
		more := max(cells-taken, freeCells)
		taken += more
		return x.take(int64(more) * cellSize)
	}
}

// take takes so many bytes of memory more, if any, and waits for them.
func (x *exchange) take(more int64) error {
	if more <= 0 || x.memory.Try(more) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(x.ctx, x.h.memoryWait, fmt.Errorf("waited %v", x.h.memoryWait))
	defer cancel()
	if err := x.memory.Acquire(ctx, more); err != nil {
		x.w.Header().Set("Retry-After", "1")
		return unavailable("the body does not fit: %w: try later", err)
	}
	return nil
}

// receive reads more of a body into p, which has room for it. The client has to go on when
// others wait for the memory.
func (x *exchange) receive(src io.Reader, p []byte) (int, error) {
	w := x.w // x serves another request by the time that a late call comes
	x.memory.OnRecall(func() { _ = http.NewResponseController(w).SetReadDeadline(past) }, nil)
	return src.Read(p[:min(len(p), bodyChunk)])
}

// past is a deadline that ends a read at once.
var past = time.Unix(1, 0)
