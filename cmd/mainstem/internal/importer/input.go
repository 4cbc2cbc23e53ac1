package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/server"
)

// Help is the part of the help that all imports share.
const Help = `
The input is JSON Lines (one object a line) or CSV (the first row names the
fields), from a file or, with -, from standard input. Templates are those of Go's
text/template over the fields: 'author-{{.author}}'; they also know lower, upper,
trim, replace and json. Numbers keep the text they were written with. A field that
a line does not have makes the line bad.

Lines are committed in order, in batches. Bad lines are reported by number on
standard error and left out; if there were any, the exit status is 1 unless
--skip-bad. An interrupted import says with which --from-line to go on, and whether
lines from it on may be written already: that is so if no answer came.`

// Options are the flags of every import.
type Options struct {
	format    string
	separator string
	batch     int
	maxErrors int64
	skipBad   bool
	fromLine  int64
	maxLine   string
	quiet     bool
}

// Add adds the flags to those of cmd.
func (o *Options) Add(cmd *cobra.Command) {
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

// OnlyJSON makes the input JSON Lines, as a flag such as --exported says. It is called before Rows.
func (o *Options) OnlyJSON(flag string) error {
	if o.format != "auto" && o.format != "jsonl" {
		return fmt.Errorf("%s reads JSON Lines, and --format is %s", flag, o.format)
	}
	o.format = "jsonl"
	return nil
}

// Rows checks the flags and returns how to read the file called name. An error is a mistake of
// the command line.
func (o *Options) Rows(name string) (rows.Options, error) {
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
	case maxLine < 1 || maxLine > cli.MaxInput:
		return rows.Options{}, fmt.Errorf("--max-line is %s: want 1 to %d bytes", o.maxLine, cli.MaxInput)
	case o.batch < 1 || o.batch > mainstem.DefaultMaxBatchWrites/2:
		return rows.Options{}, fmt.Errorf("--batch is %d: want 1 to %d lines", o.batch, mainstem.DefaultMaxBatchWrites/2)
	case o.maxErrors < 0:
		return rows.Options{}, fmt.Errorf("--max-errors is %d: want 0 (no limit) or more", o.maxErrors)
	case o.fromLine < 0:
		return rows.Options{}, fmt.Errorf("--from-line is %d: lines begin at 1", o.fromLine)
	}
	separator, err := Separator(o.separator, name)
	return rows.Options{Format: format, Separator: separator, MaxLine: int(maxLine), FromLine: o.fromLine}, err
}

// Separator returns the byte between the fields of the CSV file called name: that of the flag
// --separator, or by default what the name says.
func Separator(flag, name string) (byte, error) {
	switch s := flag; {
	case s == "" && strings.HasSuffix(name, ".tsv") && name != ".tsv":
		return '\t', nil
	case s == "":
		return ',', nil
	case s == `\t`:
		return '\t', nil
	case len(s) == 1 && s[0] < 0x80 && s[0] != '"' && s[0] != '\n' && s[0] != '\r':
		return s[0], nil
	}
	return 0, fmt.Errorf("--separator %q is not one ASCII character that can stand between fields", flag)
}

// Open opens the file called name or, for "-", standard input. The caller closes it. size is in
// bytes, 0 if it is unknown.
func Open(m *cli.Main, name string) (in io.ReadCloser, size int64, err error) {
	if name == "-" {
		return io.NopCloser(m.Stdin), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "import", Err: err}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = mainstem.Errorf(mainstem.KindInvalid, "import", "%s is a directory", name)
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

// Run imports the rows of the file called name into target, and prints what became of them. The
// error is a [StoppedError], or [cli.ErrFailed] if there were bad lines and not --skip-bad.
func Run[T any](ctx context.Context, m *cli.Main, name string, o Options, ro rows.Options, target Target[T]) error {
	in, size, err := Open(m, name)
	if err != nil {
		return err
	}
	defer in.Close()
	report := NewReport(m, size, o.quiet)
	reader, err := rows.NewReader(report.Count(in), ro)
	if err != nil {
		report.meter.Finish()
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "import " + name, Err: err}
	}
	im := &importer[T]{target: target, options: o, report: report, resume: max(o.fromLine, 1)}
	err = im.run(ctx, reader)
	next := int64(0)
	if err != nil {
		next = im.resume
	}
	report.Lines = report.Written + report.Skipped + report.Bad
	if serr := report.Summary("already_there", "already there", next); err == nil {
		err = serr
	}
	switch {
	case err != nil:
		return &StoppedError{Next: next, Err: err}
	case report.Bad > 0 && !o.skipBad:
		return cli.ErrFailed
	}
	return nil
}

// StoppedError is an import that ended before its input did.
type StoppedError struct {
	File string // that next is a line of, if there are several
	Next int64
	Err  error
}

func (e *StoppedError) Error() string {
	err := e.Err
	var c *mainstem.Error
	if errors.As(err, &c) && c.Kind == mainstem.KindCanceled && c.Err != nil {
		err = c.Err
	}
	look := ""
	if errors.Is(e.Err, mainstem.ErrUnknownOutcome) {
		look = "; but lines from it on may be written already: look first, unless writing them twice is safe, as with --id"
	}
	if e.File != "" {
		return fmt.Sprintf("import: %v; what is before line %d of %s is done: go on with that file and --from-line %d, then those behind it%s", err, e.Next, e.File, e.Next, look)
	}
	return fmt.Sprintf("import: %v; the lines before line %d are done: go on with --from-line %d%s", err, e.Next, e.Next, look)
}

// Resumable implements [cli.Resumable].
func (e *StoppedError) Resumable() {}

func (e *StoppedError) Unwrap() error { return e.Err }
