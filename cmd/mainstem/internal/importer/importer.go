package importer

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
	target  Target[T]
	options Options
	report  *Report

	pending []pendingRow[T]
	bytes   int
	resume  int64 // the first line that is neither committed nor bad
	seen    int64 // the last line read
}

// Target turns rows into writes. Its methods are called by one goroutine.
type Target[T any] interface {
	// Prepare makes of a row what is to be written, and its size in bytes. An error
	// makes the line bad.
	Prepare(row rows.Row) (item T, size int, err error)
	// Commit writes items in their order in one batch with the given ID, and says how
	// many it wrote; the others were there already.
	Commit(ctx context.Context, id string, items []T) (written int, err error)
}

type pendingRow[T any] struct {
	item        T
	line, after int64 // the row's line, and the line behind it
}

// Idle is the time after which a batch is committed although it is not full: no further line
// has come.
const Idle = 200 * time.Millisecond

// Limits of an import.
const (
	batchBytes     = 4 << 20          // a batch is committed when it holds this much
	ahead          = 16               // pieces read ahead of the one that is being written
	retries        = 5                // attempts at a batch that may succeed later
	interruptGrace = 10 * time.Second // for a commit that runs when the import is interrupted
)

// pauses is the pause between attempts.
var pauses = backoff.Policy{First: 200 * time.Millisecond, Max: 10 * time.Second}

// run imports until the input ends, something fails for good, or ctx ends.
// However it ends, what was committed has been counted.
func (im *importer[T]) run(ctx context.Context, in *rows.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	input := ReadAhead(ctx, in.Next)
	idle := time.NewTimer(Idle)
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
			if errors.Is(r.Err, io.EOF) {
				return im.flush(ctx)
			}
			if err := im.take(ctx, r); err != nil {
				return err
			}
			idle.Reset(Idle)
		}
	}
}

// Read is a piece of the input, or why there is none.
type Read[T any] struct {
	Value T
	Err   error
}

// ReadAhead calls next in a goroutine and sends what it returns, so that reading and writing
// overlap. It ends with ctx, and with an error that is no [rows.LineError].
func ReadAhead[T any](ctx context.Context, next func() (T, error)) <-chan Read[T] {
	out := make(chan Read[T], ahead)
	go func() {
		for {
			value, err := next()
			select {
			case out <- Read[T]{value, err}:
			case <-ctx.Done():
				return
			}
			var bad *rows.LineError
			if err != nil && !errors.As(err, &bad) {
				return
			}
		}
	}()
	return out
}

// take adds a row to the batch, and commits the batch when it is full.
func (im *importer[T]) take(ctx context.Context, r Read[rows.Row]) error {
	var bad *rows.LineError
	switch {
	case errors.As(r.Err, &bad):
		im.seen = bad.Line
		return im.bad(ctx, bad.Line, bad.Err)
	case r.Err != nil:
		return errors.Join(fmt.Errorf("read the input after line %d: %w", im.seen, r.Err), im.flush(ctx))
	}
	im.seen = r.Value.Last
	item, size, err := im.target.Prepare(r.Value)
	if err != nil {
		return im.bad(ctx, r.Value.Line, err)
	}
	im.pending = append(im.pending, pendingRow[T]{item, r.Value.Line, r.Value.Last + 1})
	im.bytes += size
	if len(im.pending) >= im.options.batch || im.bytes >= batchBytes {
		return im.flush(ctx)
	}
	return nil
}

// bad reports a line. Too many of them end the import, after what was good
// before them is committed.
func (im *importer[T]) bad(ctx context.Context, line int64, reason error) error {
	im.report.BadLine("", line, reason)
	if im.options.maxErrors == 0 || im.report.Bad < im.options.maxErrors {
		return nil
	}
	return errors.Join(fmt.Errorf("stopped at line %d: %d bad lines are as many as --max-errors allows", line, im.report.Bad), im.flush(ctx))
}

// flush commits what is pending. A commit that has begun is finished when the
// import is interrupted: then its outcome is known.
func (im *importer[T]) flush(ctx context.Context) error {
	if len(im.pending) > 0 {
		commit, cancel := Outlive(ctx)
		err := im.commit(commit, im.pending)
		cancel()
		if err != nil {
			return err
		}
		im.pending, im.bytes = im.pending[:0], 0
	}
	im.resume = im.seen + 1
	im.report.Progress(im.seen)
	return nil
}

// commit commits a batch. One that can never succeed is split until the lines
// that are to blame stand alone; order stays.
func (im *importer[T]) commit(ctx context.Context, batch []pendingRow[T]) error {
	written, err := im.attempt(ctx, batch)
	switch {
	case err == nil:
		im.report.Written += int64(written)
		im.report.Skipped += int64(len(batch) - written)
		im.resume = batch[len(batch)-1].after
		return nil
	case !BlamesContent(err):
		return err
	case len(batch) == 1:
		im.report.BadLine("", batch[0].line, err)
		im.resume = batch[0].after
		if im.options.maxErrors > 0 && im.report.Bad >= im.options.maxErrors {
			return fmt.Errorf("stopped at line %d: %d bad lines are as many as --max-errors allows", batch[0].line, im.report.Bad)
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
	err = Retry(ctx, func() (err error) {
		written, err = im.target.Commit(ctx, id, items)
		return err
	})
	return written, err
}

// Retry calls do, and a few times again, with pauses, while it fails with Unavailable or an
// unknown outcome. It returns the error of the last call. Once the outcome of a call is unknown, it
// stays so, unless a later one succeeds or blames the content. ctx ends the pauses.
func Retry(ctx context.Context, do func() error) error {
	unknown := false
	for tries := 1; ; tries++ {
		err := do()
		unknown = unknown || errors.Is(err, mainstem.ErrUnknownOutcome)
		again := errors.Is(err, mainstem.ErrUnknownOutcome) || errors.Is(err, mainstem.ErrUnavailable)
		switch {
		case again && tries < retries && pauses.Wait(ctx, tries):
			continue
		case err == nil || !unknown || BlamesContent(err):
			return err
		}
		var e *mainstem.Error
		if !errors.As(err, &e) {
			e = &mainstem.Error{Kind: mainstem.KindInternal, Err: err}
		}
		return e.WithOutcome(mainstem.Unknown)
	}
}

// Outlive returns a context for a commit that has begun: it ends 10 s after ctx, so that the
// outcome becomes known. The caller calls cancel.
func Outlive(ctx context.Context) (commit context.Context, cancel context.CancelFunc) {
	commit, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(interruptGrace, end) })
	return commit, func() {
		stop()
		end()
	}
}

// BlamesContent reports whether err is about the content of a batch, so that other lines can
// still be written.
func BlamesContent(err error) bool {
	return errors.Is(err, mainstem.ErrInvalid) || errors.Is(err, mainstem.ErrConflict) || errors.Is(err, mainstem.ErrExists)
}

// stopped is the error of an import that was interrupted or ran out of time.
func (im *importer[T]) stopped(ctx context.Context) error {
	return mainstem.Ended(ctx, "import", time.Time{}, "the import to end")
}
