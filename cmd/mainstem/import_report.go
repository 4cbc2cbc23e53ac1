package main

import (
	"fmt"
	"io"
	"time"
)

// report counts what became of the lines of an import, and shows it: bad lines as
// they come, progress to a person who watches, and a summary.
type report struct {
	m       *Main
	begin   time.Time
	lines   int64 // where those that are written cannot be counted one by one
	written int64
	already int64
	bad     int64
	meter   *meter
}

// newReport returns a report on an input of size bytes, 0 if that is unknown.
func (m *Main) newReport(size int64, quiet bool) *report {
	r := &report{m: m, begin: time.Now()}
	if !quiet {
		r.meter = m.startMeter("importing", size)
	}
	return r
}

// count returns a reader that moves the meter by what is read from in.
func (r *report) count(in io.Reader) io.Reader {
	if r.meter == nil {
		return in
	}
	return io.TeeReader(in, r.meter)
}

func (r *report) badLine(line int64, reason error) {
	r.bad++
	r.meter.above(func() { r.m.printBadLine(line, reason) })
}

// printBadLine says on standard error why a line of the input was left out.
func (m *Main) printBadLine(line int64, reason error) {
	if m.flags.json {
		f := new(fields).add("line", line).add("error", reason.Error())
		fmt.Fprintf(m.Stderr, "{%s}\n", f.buf.Bytes())
		return
	}
	fmt.Fprintf(m.Stderr, "line %d: %v\n", line, reason)
}

// summary shows the counts. next is the line to go on from, 0 if all were done.
func (r *report) summary(next int64) error {
	took := time.Since(r.begin)
	lines := r.written + r.already + r.bad
	if r.m.flags.json {
		f := new(fields).add("lines", lines).add("written", r.written).add("already_there", r.already).
			add("bad", r.bad).add("seconds", took.Seconds())
		opt(f, "next_line", next)
		return r.m.object(f)
	}
	text := fmt.Sprintf("%d lines in %s (%.0f/s): %d written", lines, took.Round(time.Millisecond), float64(lines)/took.Seconds(), r.written)
	if r.already > 0 {
		text += fmt.Sprintf(", %d already there", r.already)
	}
	if r.bad > 0 {
		text += fmt.Sprintf(", %d bad", r.bad)
	}
	return r.m.line(text)
}
