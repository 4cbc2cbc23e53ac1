// Package unpack reserves memory for decompressed record batches from a budget.
//
// A [Memory] is the reservation of one decoder. Its method Room is a Room of the decoders of
// package recordbatch, which call it before they allocate. The caller calls Release when it needs
// the decoded records no more.
//
// A Memory belongs to one goroutine, which must not wait for another reservation of the same budget
// meanwhile (see package budget). Package recordbatch limits the decompressed size of a batch.
package unpack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// wait is how long a goroutine waits for memory to decompress a batch.
const wait = 10 * time.Second

// Memory is a reservation of bytes for the decompressed records of one decoder.
type Memory struct {
	ctx  context.Context
	hold budget.Hold
}

// New returns an empty reservation of b. ctx ends its waits.
func New(ctx context.Context, b *budget.Budget) *Memory {
	return &Memory{ctx: ctx, hold: b.Hold()}
}

// Room raises the reservation to n bytes, if it is less. It waits for them up to 10 s, or until the
// context of New ends, and then fails with Unavailable; see [NoRoom].
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

// Size returns the bytes of the reservation.
func (m *Memory) Size() int64 { return m.hold.Size() }

// Release gives all bytes back to the budget. The decoded records must not be used any more.
func (m *Memory) Release() { m.hold.Release() }

// NoRoom reports whether err is that of [Memory.Room]: there was no memory to decompress a batch.
// Such an error does not mean that the batch is invalid.
func NoRoom(err error) bool {
	var e *budget.ExhaustedError
	return errors.As(err, &e)
}
