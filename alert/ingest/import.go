package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/mainstemdev/mainstem"
)

// The defaults and limits of [Import].
const (
	DefaultBatchRows = 1000
	MaxBatchRows     = 10_000
	DefaultMaxLine   = 1 << 20 // bytes
)

// ImportOptions configures [Import]. Nil and zero fields mean the defaults.
type ImportOptions struct {
	// Format is [JSONLines] or [CSV]. Default: CSV if File ends in ".csv", else JSONLines.
	Format Source
	// Mapping says what becomes of a line. Default: [DefaultMapping] of the format.
	Mapping *Mapping
	// File is the name of what is read, for messages and the field @file.
	File string
	// Comma stands between the fields of CSV. Default ','.
	Comma rune
	// BatchRows is how many rows go to the sink at a time, of about 8 MiB at most. Default
	// [DefaultBatchRows], at most [MaxBatchRows].
	BatchRows int
	// MaxLine bounds a line, and a record of CSV, in bytes. Default [DefaultMaxLine].
	MaxLine int
	// After passes over the lines up to this one: [Report.Line] of an import that was
	// broken off. The header of CSV is read in any case.
	After int64
	// Idle writes what was read when nothing more came for so long, and Import ends at once
	// when ctx is done: for what comes slowly, such as a pipe. A goroutine reads then, which
	// ends as soon as the reader returns. Default: what was read waits for more.
	Idle time.Duration
	// SkipBad goes on after a line that is no alert. Otherwise the first one ends the
	// import, after everything before it was written.
	SkipBad bool
	// OnBad is called for each line that is skipped.
	OnBad func(*LineError)
	// Progress is called after each batch.
	Progress func(Report)
}

// Report says how far an import has come. Lines are those of the file, from 1.
type Report struct {
	Line    int64 // everything up to this line is written, dropped, or bad and skipped
	Bytes   int64 // that were read
	Events  int64 // lines and records that were read, without the header and empty lines
	Rows    int64 // written
	Dropped int64 // by rules of the mapping
	Bad     int64 // skipped
}

// LineError says what is wrong with a line.
type LineError struct {
	File string
	Line int64
	Err  error
}

// Error returns "file:line: reason".
func (e *LineError) Error() string {
	file := e.File
	file = cmp.Or(file, "line")
	return fmt.Sprintf("%s:%d: %v", file, e.Line, e.Err)
}

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Validate returns an Invalid error that names every field out of range.
func (o *ImportOptions) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(o.Format != "" && o.Format != JSONLines && o.Format != CSV, "the format %q is not jsonl or csv", o.Format)
	bad(o.BatchRows < 0 || o.BatchRows > MaxBatchRows, "BatchRows is %d: want 1 to %d, or 0 for %d", o.BatchRows, MaxBatchRows, DefaultBatchRows)
	bad(o.MaxLine < 0, "MaxLine is %d: want more than 0, or 0 for %d", o.MaxLine, DefaultMaxLine)
	bad(o.Idle < 0, "Idle is %v: want more than 0, or 0 for never", o.Idle)
	bad(o.After < 0, "After is %d: want a line, or 0", o.After)
	bad(o.Comma == '"' || o.Comma == '\n' || o.Comma == '\r' || o.Comma < 0, "%q cannot stand between fields", o.Comma)
	if errs == nil {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "import", Err: errors.Join(errs...)}
}

func (o *ImportOptions) withDefaults() (ImportOptions, error) {
	var d ImportOptions
	var err error
	if o != nil {
		d = *o
	}
	if d.Format == "" {
		d.Format = JSONLines
		if filepath.Ext(d.File) == ".csv" {
			d.Format = CSV
		}
	}
	if d.Mapping == nil {
		d.Mapping, err = DefaultMapping(d.Format)
	}
	d.Comma = cmp.Or(d.Comma, ',')
	d.BatchRows = cmp.Or(d.BatchRows, DefaultBatchRows)
	d.MaxLine = cmp.Or(d.MaxLine, DefaultMaxLine)
	return d, err
}

// Import reads alerts from r and inserts them into sink, a batch at a time: it reads no
// faster than the sink writes. It returns how far it came, also with an error. A line
// that is no alert is a [*LineError], and so is a row that the sink refuses, which is
// found by inserting parts of its batch. When ctx is done, or the sink fails, Import ends
// between batches; what the report says is written is durable.
//
// An import may be done again, from the start or after a line: alerts that are there
// are not written twice. They are counted twice, in Tally, unless each line has a time
// and the sink treats what comes late or twice as [App] has it.
func Import(ctx context.Context, r io.Reader, sink Sink, o *ImportOptions) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	full, err := o.withDefaults()
	if err != nil {
		return Report{}, err
	}
	im := &importer{o: full, sink: sink}
	err = im.run(ctx, r)
	return im.report, err
}

type importer struct {
	o      ImportOptions
	sink   Sink
	report Report
	rows   [][]any
	bytes  int64       // of rows
	lines  []int64     // of rows
	reach  int64       // the last line that was read
	idle   *idleReader // nil without Idle
}

// run reads up to the end, or the first error that ends the import.
func (im *importer) run(ctx context.Context, r io.Reader) error {
	if im.o.Idle > 0 {
		slow, stop := newIdleReader(ctx, r, im.o.Idle, func() error {
			if len(im.rows) == 0 {
				return nil
			}
			return im.flush(ctx)
		})
		defer stop()
		im.idle, r = slow, slow
	}
	next, err := im.open(r)
	if err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return mainstem.Ended(ctx, "import", time.Time{}, "the input")
		}
		e := NewEvent(im.o.Format)
		from, to, err := next(e)
		if errors.Is(err, io.EOF) {
			return im.flush(ctx)
		}
		if im.idle != nil && im.idle.failed != nil {
			return im.idle.failed
		}
		if readFailed(err) && ctx.Err() != nil {
			return mainstem.Ended(ctx, "import", time.Time{}, "the input")
		}
		if readFailed(err) {
			err = mainstem.Errorf(mainstem.KindUnavailable, "import", "reading %s: %w", im.o.File, err)
			return errors.Join(im.flush(ctx), err)
		}
		if to > im.o.After {
			if err := im.take(ctx, e, from, err); err != nil {
				return err
			}
		}
		im.reach = to
		if len(im.rows) >= im.o.BatchRows || im.bytes >= maxInsertBytes {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// open returns what reads the events of r one after the other.
func (im *importer) open(r io.Reader) (next func(*Event) (from, to int64, err error), err error) {
	if im.o.Format == CSV {
		c := newCSVReader(r, im.o.Comma, im.o.MaxLine)
		if err := c.readHeader(); err != nil {
			return nil, mainstem.Errorf(mainstem.KindInvalid, "import", "%s: %w", im.o.File, err)
		}
		return func(e *Event) (int64, int64, error) {
			from, to, err := c.next(e)
			im.report.Bytes = c.lines.bytes
			return from, to, err
		}, nil
	}
	l := newLineReader(r, im.o.MaxLine)
	return func(e *Event) (int64, int64, error) {
		for {
			line, err := l.next()
			im.report.Bytes = l.bytes
			if err == nil && len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if err == nil && l.line > im.o.After {
				err = decodeJSON(line, e)
			}
			return l.line, l.line, err
		}
	}, nil
}

// take makes an event a row; err is what was wrong with reading it.
func (im *importer) take(ctx context.Context, e *Event, line int64, err error) error {
	im.report.Events++
	e.File, e.Line, e.Received = im.o.File, line, time.Now().Unix()
	var row []any
	ok := true
	if err == nil {
		row, ok, err = im.o.Mapping.Row(e)
	}
	switch {
	case err != nil:
		if !im.o.SkipBad {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
		return im.bad(line, err)
	case !ok:
		im.report.Dropped++
		return nil
	}
	im.rows, im.lines = append(im.rows, row), append(im.lines, line)
	im.bytes += rowBytes(row)
	return nil
}

// bad skips a line, or ends the import.
func (im *importer) bad(line int64, err error) error {
	bad := &LineError{File: im.o.File, Line: line, Err: err}
	if !im.o.SkipBad {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "import", Err: bad}
	}
	im.report.Bad++
	if im.o.OnBad != nil {
		im.o.OnBad(bad)
	}
	return nil
}

// flush writes the rows that were collected.
func (im *importer) flush(ctx context.Context) error {
	rows, lines := im.rows, im.lines
	im.rows, im.lines, im.bytes = nil, nil, 0
	if err := im.write(ctx, rows, lines); err != nil {
		return err
	}
	im.report.Line = im.reach
	if im.o.Progress != nil {
		im.o.Progress(im.report)
	}
	return nil
}

// write writes rows; of those that the sink refuses it finds the one that is to blame.
func (im *importer) write(ctx context.Context, rows [][]any, lines []int64) error {
	if len(rows) == 0 {
		return nil
	}
	err := insert(ctx, im.sink, im.o.Mapping, rows, nil)
	switch {
	case err == nil:
		im.report.Rows += int64(len(rows))
		im.report.Line = max(im.report.Line, lines[len(lines)-1])
		return nil
	case !refused(err):
		return fmt.Errorf("import: writing the alerts after line %d: %w", im.report.Line, err)
	case len(rows) > 1:
		half := len(rows) / 2
		if err := im.write(ctx, rows[:half], lines[:half]); err != nil {
			return err
		}
		return im.write(ctx, rows[half:], lines[half:])
	}
	return im.bad(lines[0], err)
}
