// Package unpack takes memory for decompressed record batches from a budget.
package unpack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// wait is how long what has a client waits for memory to decompress a batch.
const wait = 10 * time.Second

// Memory is what decompressed records take. It belongs to one goroutine, which does not
// wait for any other budget meanwhile.
type Memory struct {
	ctx  context.Context
	hold budget.Hold
}

// New returns a Memory that takes from b, whose waits end with ctx.
func New(ctx context.Context, b *budget.Budget) *Memory {
	return &Memory{ctx: ctx, hold: b.Hold()}
}

// Room takes as much as is missing to n bytes, for a decoder.
func (m *Memory) Room(n int) error {
	more := int64(n) - m.hold.Size()
	if more <= 0 || m.hold.Try(more) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(m.ctx, wait, fmt.Errorf("waited %v", wait))
	defer cancel()
	if err := m.hold.Acquire(ctx, more); err != nil {
		return &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "decompress", Err: err,
			Hint: "try again later, or give the server more memory",
		}
	}
	return nil
}

// Size returns how many bytes are held.
func (m *Memory) Size() int64 { return m.hold.Size() }

// Release gives all of it back. The decoded records must not be used any more.
func (m *Memory) Release() { m.hold.Release() }

// NoRoom reports whether err means that there was no memory to decompress a batch: that
// says nothing about the batch.
func NoRoom(err error) bool {
	var e *budget.ExhaustedError
	return errors.As(err, &e)
}
