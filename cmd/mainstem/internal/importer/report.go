package importer

import (
	"fmt"
	"io"
	"time"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// Report counts what became of the lines of an import, and shows it: bad lines as they come,
// progress to a person who watches, and a summary. It belongs to one goroutine.
type Report struct {
	Lines   int64
	Written int64
	Skipped int64 // neither written nor bad
	Bad     int64

	m     *cli.Main
	begin time.Time
	meter *cli.Meter
}

// NewReport returns a report on an input of size bytes, 0 if that is unknown.
func NewReport(m *cli.Main, size int64, quiet bool) *Report {
	r := &Report{m: m, begin: time.Now()}
	if !quiet {
		r.meter = m.StartMeter("importing", size)
	}
	return r
}

// Count returns a reader of in that shows as progress what is read.
func (r *Report) Count(in io.Reader) io.Reader {
	if r.meter == nil {
		return in
	}
	return io.TeeReader(in, r.meter)
}

// Progress shows that so many lines are done.
func (r *Report) Progress(lines int64) { r.meter.Lines(lines) }

// BadLine counts a line that is left out and says why. file is "" if there is only one.
func (r *Report) BadLine(file string, line int64, reason error) {
	r.Bad++
	r.meter.Above(func() { PrintBadLine(r.m, file, line, reason) })
}

// PrintBadLine says on standard error why a line of the input was left out.
func PrintBadLine(m *cli.Main, file string, line int64, reason error) {
	if m.Flags.JSON {
		f := new(cli.Fields)
		if file != "" {
			f.Text("file", file)
		}
		_ = m.ObjectToStderr(f.Add("line", line).Add("error", reason.Error())) // there is nowhere left to report to
		return
	}
	at := fmt.Sprintf("line %d", line)
	if file != "" {
		at = fmt.Sprintf("%s:%d", file, line)
	}
	fmt.Fprintf(m.Stderr, "%s: %v\n", at, reason)
}

// Summary ends the progress and shows the counts. The lines skipped are called field in JSON
// and words in text. next is the line to go on from, 0 if all were done.
func (r *Report) Summary(field, words string, next int64) error {
	r.meter.Finish()
	took := time.Since(r.begin)
	if r.m.Flags.JSON {
		f := new(cli.Fields).Add("lines", r.Lines).Add("written", r.Written).Add(field, r.Skipped).
			Add("bad", r.Bad).Add("seconds", took.Seconds())
		cli.Opt(f, "next_line", next)
		return r.m.Object(f)
	}
	text := fmt.Sprintf("%d lines in %s (%.0f/s): %d written", r.Lines, took.Round(time.Millisecond), float64(r.Lines)/took.Seconds(), r.Written)
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d %s", r.Skipped, words)
	}
	if r.Bad > 0 {
		text += fmt.Sprintf(", %d bad", r.Bad)
	}
	return r.m.Line(text)
}
