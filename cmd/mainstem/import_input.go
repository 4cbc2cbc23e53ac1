package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/server"
)

// importHelp is the part of the help that all imports share.
const importHelp = `
The input is JSON Lines (one object a line) or CSV (the first row names the
fields), from a file or, with -, from standard input. Templates are those of Go's
text/template over the fields: 'author-{{.author}}'; they also know lower, upper,
trim, replace and json. Numbers keep the text they were written with. A field that
a line does not have makes the line bad.

Lines are committed in order, in batches. Bad lines are reported by number on
standard error and left out; if there were any, the exit status is 1 unless
--skip-bad. An interrupted import says with which --from-line to go on.`

// importOptions are the flags of every import.
type importOptions struct {
	format    string
	separator string
	batch     int
	maxErrors int64
	skipBad   bool
	fromLine  int64
	maxLine   string
	quiet     bool
}

func (o *importOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "auto", "jsonl, csv or auto: by the file's name, then by its first byte")
	f.StringVar(&o.separator, "separator", "", "`character` between CSV fields (default a comma; a tab for .tsv files)")
	f.IntVar(&o.batch, "batch", 1000, "`lines` in one commit")
	f.Int64Var(&o.maxErrors, "max-errors", 0, "stop after this `number` of bad lines (default never)")
	f.BoolVar(&o.skipBad, "skip-bad", false, "succeed although there were bad lines")
	f.Int64Var(&o.fromLine, "from-line", 0, "leave out the lines before this `number`")
	f.StringVar(&o.maxLine, "max-line", "16MiB", "longest line, in `bytes`")
	f.BoolVar(&o.quiet, "quiet", false, "no progress bar")
}

// rows checks the flags and returns how to read the file called name.
func (o *importOptions) rows(name string) (rows.Options, error) {
	format, err := rows.ParseFormat(o.format)
	if err != nil {
		return rows.Options{}, err
	}
	if format == rows.Auto {
		format = rows.FormatOf(name)
	}
	maxLine, err := server.ParseSize(o.maxLine)
	switch {
	case err != nil:
		return rows.Options{}, fmt.Errorf("--max-line: %w", err)
	case maxLine < 1 || maxLine > maxInput:
		return rows.Options{}, fmt.Errorf("--max-line is %s: want 1 to %d bytes", o.maxLine, maxInput)
	case o.batch < 1 || o.batch > mainstem.DefaultMaxBatchWrites/2:
		return rows.Options{}, fmt.Errorf("--batch is %d: want 1 to %d lines", o.batch, mainstem.DefaultMaxBatchWrites/2)
	case o.maxErrors < 0:
		return rows.Options{}, fmt.Errorf("--max-errors is %d: want 0 (no limit) or more", o.maxErrors)
	case o.fromLine < 0:
		return rows.Options{}, fmt.Errorf("--from-line is %d: lines begin at 1", o.fromLine)
	}
	separator, err := o.separatorOf(name)
	return rows.Options{Format: format, Separator: separator, MaxLine: int(maxLine), FromLine: o.fromLine}, err
}

func (o *importOptions) separatorOf(name string) (byte, error) {
	switch s := o.separator; {
	case s == "" && len(name) > 4 && name[len(name)-4:] == ".tsv":
		return '\t', nil
	case s == "":
		return ',', nil
	case s == `\t`:
		return '\t', nil
	case len(s) == 1 && s[0] < 0x80 && s[0] != '"' && s[0] != '\n' && s[0] != '\r':
		return s[0], nil
	}
	return 0, fmt.Errorf("--separator %q is not one ASCII character that can stand between fields", o.separator)
}

// openInput opens a file or, for "-", standard input. size is 0 if it is unknown.
func (m *Main) openInput(name string) (in io.ReadCloser, size int64, err error) {
	if name == "-" {
		return io.NopCloser(m.Stdin), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "import", Err: err}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &mainstem.Error{Kind: mainstem.KindInvalid, Op: "import", Err: fmt.Errorf("%s is a directory", name)}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// runImport reads the file called name and imports its rows into target.
func runImport[T any](ctx context.Context, m *Main, name string, o importOptions, ro rows.Options, target importTarget[T]) error {
	in, size, err := m.openInput(name)
	if err != nil {
		return err
	}
	defer in.Close()
	report := m.newReport(size, o.quiet)
	reader, err := rows.NewReader(report.count(in), ro)
	if err != nil {
		report.meter.finish()
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "import " + name, Err: err}
	}
	im := &importer[T]{target: target, options: o, report: report, resume: max(o.fromLine, 1)}
	err = im.run(ctx, reader)
	report.meter.finish()
	next := int64(0)
	if err != nil {
		next = im.resume
	}
	if serr := report.summary(next); serr != nil && err == nil {
		err = serr
	}
	switch {
	case err != nil:
		return &stoppedError{next: next, err: err}
	case report.bad > 0 && !o.skipBad:
		return failed{exitFailed}
	}
	return nil
}

// stoppedError is an import that ended before its input did.
type stoppedError struct {
	file string // that next is a line of, if there are several
	next int64
	err  error
}

func (e *stoppedError) Error() string {
	err := e.err
	var c *mainstem.Error
	if errors.As(err, &c) && c.Kind == mainstem.KindCanceled && c.Err != nil {
		err = c.Err
	}
	if e.file != "" {
		return fmt.Sprintf("import: %v; what is before line %d of %s is done: go on with that file and --from-line %d, then those behind it", err, e.next, e.file, e.next)
	}
	return fmt.Sprintf("import: %v; the lines before line %d are done: go on with --from-line %d", err, e.next, e.next)
}

func (e *stoppedError) Unwrap() error { return e.err }
