package topic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// memoryWait is how long what has a client waits for memory to decompress a batch.
const memoryWait = 10 * time.Second

// unpacking takes memory for decompressed records from the budget of the catalog. It
// belongs to one goroutine, which does not wait for any other budget meanwhile.
type unpacking struct {
	ctx  context.Context
	hold budget.Hold
}

// unpack returns an unpacking whose waits end with ctx.
func (c *Catalog) unpack(ctx context.Context) *unpacking {
	return &unpacking{ctx: ctx, hold: c.o.Memory.Hold()}
}

// consume returns an unpacking for a consumer, which keeps its memory while the records are
// yielded.
func (c *Catalog) consume(ctx context.Context) *unpacking {
	return &unpacking{ctx: ctx, hold: c.consumers.Hold()}
}

// room takes as much as is missing to n bytes, for a decoder.
func (u *unpacking) room(n int) error {
	more := int64(n) - u.hold.Size()
	if more <= 0 || u.hold.Try(more) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(u.ctx, memoryWait, fmt.Errorf("waited %v", memoryWait))
	defer cancel()
	if err := u.hold.Acquire(ctx, more); err != nil {
		return &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "decompress", Err: err,
			Hint: "try again later, or give the server more memory",
		}
	}
	return nil
}

// release gives all of it back. The decoded records must not be used any more.
func (u *unpacking) release() { u.hold.Release() }

// noRoom reports whether err means that there was no memory to decompress a batch: that
// says nothing about the batch.
func noRoom(err error) bool {
	var e *budget.ExhaustedError
	return errors.As(err, &e)
}
