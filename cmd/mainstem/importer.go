package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// importer commits the rows of an input in batches, in their order. A row that
// cannot be written is reported by its line and left out; the others are kept.
type importer[T any] struct {
	target  importTarget[T]
	options importOptions
	report  *report

	pending []pendingRow[T]
	bytes   int
	resume  int64 // the first line that is neither committed nor bad
	seen    int64 // the last line read
}

// importTarget turns rows into writes.
type importTarget[T any] interface {
	// prepare makes of a row what is to be written, and its size in bytes. An error
	// makes the line bad.
	prepare(row rows.Row) (item T, size int, err error)
	// commit writes items in their order in one batch with the given ID, and says how
	// many it wrote; the others were there already.
	commit(ctx context.Context, id string, items []T) (written int, err error)
}

type pendingRow[T any] struct {
	item        T
	line, after int64 // the row's line, and the line behind it
}

// Limits of an import.
const (
	importBatchBytes = 4 << 20                // a batch is committed when it holds this much
	importIdle       = 200 * time.Millisecond // or when no further line came for this long
	importAhead      = 16                     // rows read ahead of the one that is being written
	importRetries    = 5                      // attempts at a batch that may succeed later
	interruptGrace   = 10 * time.Second       // for a commit that runs when the import is interrupted
)

// importAgain is the pause between attempts.
var importAgain = backoff.Policy{First: 200 * time.Millisecond, Max: 10 * time.Second}

// read is a row or why there is none.
type read struct {
	row rows.Row
	err error
}

// run imports until the input ends, something fails for good, or ctx ends.
// However it ends, what was committed has been counted.
func (im *importer[T]) run(ctx context.Context, in *rows.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	input := make(chan read, importAhead)
	go readRows(ctx, in, input)
	idle := time.NewTimer(importIdle)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return im.stopped(ctx)
		case <-idle.C:
			if err := im.flush(ctx); err != nil {
				return err
			}
		case r := <-input:
			if errors.Is(r.err, io.EOF) {
				return im.flush(ctx)
			}
			if err := im.take(ctx, r); err != nil {
				return err
			}
			idle.Reset(importIdle)
		}
	}
}

// readRows reads ahead, so that parsing and committing overlap.
func readRows(ctx context.Context, in *rows.Reader, out chan<- read) {
	for {
		row, err := in.Next()
		select {
		case out <- read{row, err}:
		case <-ctx.Done():
			return
		}
		var bad *rows.LineError
		if err != nil && !errors.As(err, &bad) {
			return
		}
	}
}

// take adds a row to the batch, and commits the batch when it is full.
func (im *importer[T]) take(ctx context.Context, r read) error {
	var bad *rows.LineError
	switch {
	case errors.As(r.err, &bad):
		im.seen = bad.Line
		return im.bad(ctx, bad.Line, bad.Err)
	case r.err != nil:
		return errors.Join(fmt.Errorf("read the input after line %d: %w", im.seen, r.err), im.flush(ctx))
	}
	im.seen = r.row.Last
	item, size, err := im.target.prepare(r.row)
	if err != nil {
		return im.bad(ctx, r.row.Line, err)
	}
	im.pending = append(im.pending, pendingRow[T]{item, r.row.Line, r.row.Last + 1})
	im.bytes += size
	if len(im.pending) >= im.options.batch || im.bytes >= importBatchBytes {
		return im.flush(ctx)
	}
	return nil
}

// bad reports a line. Too many of them end the import, after what was good
// before them is committed.
func (im *importer[T]) bad(ctx context.Context, line int64, reason error) error {
	im.report.badLine(line, reason)
	if im.options.maxErrors == 0 || im.report.bad < im.options.maxErrors {
		return nil
	}
	return errors.Join(fmt.Errorf("stopped at line %d: %d bad lines are as many as --max-errors allows", line, im.report.bad), im.flush(ctx))
}

// flush commits what is pending. A commit that has begun is finished when the
// import is interrupted: then its outcome is known.
func (im *importer[T]) flush(ctx context.Context) error {
	if len(im.pending) > 0 {
		commit, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(interruptGrace, cancel) })
		err := im.commit(commit, im.pending)
		stop()
		cancel()
		if err != nil {
			return err
		}
		im.pending, im.bytes = im.pending[:0], 0
	}
	im.resume = im.seen + 1
	im.report.meter.lines(im.seen)
	return nil
}

// commit commits a batch. One that can never succeed is split until the lines
// that are to blame stand alone; order stays.
func (im *importer[T]) commit(ctx context.Context, batch []pendingRow[T]) error {
	written, err := im.attempt(ctx, batch)
	switch {
	case err == nil:
		im.report.written += int64(written)
		im.report.already += int64(len(batch) - written)
		im.resume = batch[len(batch)-1].after
		return nil
	case !blamesContent(err):
		return err
	case len(batch) == 1:
		im.report.badLine(batch[0].line, err)
		im.resume = batch[0].after
		if im.options.maxErrors > 0 && im.report.bad >= im.options.maxErrors {
			return fmt.Errorf("stopped at line %d: %d bad lines are as many as --max-errors allows", batch[0].line, im.report.bad)
		}
		return nil
	}
	half := len(batch) / 2
	if err := im.commit(ctx, batch[:half]); err != nil {
		return err
	}
	return im.commit(ctx, batch[half:])
}

// attempt commits a batch, again if it may succeed later. Its ID makes that safe
// when the outcome of an attempt is unknown.
func (im *importer[T]) attempt(ctx context.Context, batch []pendingRow[T]) (written int, err error) {
	items := make([]T, len(batch))
	for i := range batch {
		items[i] = batch[i].item
	}
	id := "import:" + uuid.Random().String()
	for tries := 1; tries <= importRetries; tries++ {
		written, err = im.target.commit(ctx, id, items)
		again := errors.Is(err, mainstem.ErrUnknownOutcome) || errors.Is(err, mainstem.ErrUnavailable)
		if !again || ctx.Err() != nil {
			return written, err
		}
		if !importAgain.Wait(ctx, tries) {
			return 0, err
		}
	}
	return 0, err
}

// blamesContent reports whether an error is about what a batch holds, so that
// other lines can still be written.
func blamesContent(err error) bool {
	return errors.Is(err, mainstem.ErrInvalid) || errors.Is(err, mainstem.ErrConflict)
}

// stopped is the error of an import that was interrupted or ran out of time.
func (im *importer[T]) stopped(ctx context.Context) error {
	return mainstem.Ended(ctx, "import", time.Time{}, "the import to end")
}
