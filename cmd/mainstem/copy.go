package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/server"
)

// copyOptions are the flags of copy.
type copyOptions struct {
	from, to    string
	toTokenFile string
	space       string
	maxValue    string
	verifyOnly  bool
}

func (m *Main) copy() *cobra.Command {
	var o copyOptions
	cmd := &cobra.Command{
		Use:   "copy --from LOG --to LOG",
		Short: "Move a whole log to another engine, or compare two logs",
		Long: `Copy every space and record of a log into another, new and empty one, whatever their
engines: directories, servers, all that --log takes. Versions, times, expiry and
order stay; positions may change. In the end both sides are compared record by record.

A copy that is interrupted, even killed, goes on when the same command is run again.
So does one whose source was written meanwhile: run it again to copy what is new and to
repair what was edited since. To move a log with a short break, copy it while it is
written, stop the writers, and run the copy once more.

If the two sides differ in the end, the first differences are shown and the exit
status is 1. The target remembers where its copy stands in the space ` + logcopy.Space + `.`,
		Example: `  mainstem copy --from ./mainstem-data --to http://10.0.0.7:8080 --to-token-file token
  mainstem copy --from http://127.0.0.1:8080 --to ./copy --json
  mainstem copy --from ./mainstem-data --to ./copy --verify-only`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if m.flags.log != "" {
				return usageError{cmd, errors.New("--log has no meaning here: name the logs with --from and --to")}
			}
			if o.from == o.to {
				return usageError{cmd, errors.New("--from and --to are the same log")}
			}
			ctx, cancel, err := m.context(cmd.Context())
			if err != nil {
				return err
			}
			defer cancel()
			return m.runCopy(ctx, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "the `log` to copy: a directory or http://HOST:PORT (required)")
	f.StringVar(&o.to, "to", "", "the `log` to copy into: new, or with a part of the copy (required)")
	f.StringVar(&o.toTokenFile, "to-token-file", "", "`file` with the bearer token of the target, if it is not that of the source")
	f.StringVar(&o.space, "space", "", "only spaces whose names start with this `text`")
	f.StringVar(&o.maxValue, "max-value", "", "largest value that a target in a directory takes, in `bytes` (default 16MiB)")
	f.BoolVar(&o.verifyOnly, "verify-only", false, "compare the two logs and change nothing")
	required(cmd, "from")
	required(cmd, "to")
	return cmd
}

// runCopy opens both logs, copies and closes them.
func (m *Main) runCopy(ctx context.Context, o *copyOptions) (err error) {
	source, target, err := m.copySides(o)
	if err != nil {
		return err
	}
	from, err := server.OpenLog(ctx, o.from, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := server.OpenLog(ctx, o.to, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return m.copyLogs(ctx, from, to, o)
}

// copySides returns how source and target are opened.
func (m *Main) copySides(o *copyOptions) (source, target *server.LogOptions, err error) {
	source = &server.LogOptions{MustExist: true, Logger: m.logger()}
	if err := m.credentials(source); err != nil {
		return nil, nil, err
	}
	t := *source
	t.MustExist = o.verifyOnly
	if o.toTokenFile != "" {
		if t.Token, err = server.ReadToken(o.toTokenFile); err != nil {
			return nil, nil, configError{err}
		}
	}
	if o.maxValue != "" {
		n, err := server.ParseSize(o.maxValue)
		if err != nil {
			return nil, nil, configError{fmt.Errorf("--max-value: %w", err)}
		}
		t.Limits.MaxValue = int(n)
		t.Limits.MaxBatchBytes = max(2*int(n), mainstem.DefaultMaxBatchBytes)
	}
	return source, &t, nil
}

func (m *Main) copyLogs(ctx context.Context, from, to mainstem.Log, o *copyOptions) error {
	meter := m.startMeter("copying", 0)
	c, err := logcopy.New(from, to, &logcopy.Options{
		Prefix: o.space, Keys: partitionKeys,
		OnProgress: func(p logcopy.Progress) { meter.say(copyText(p)) },
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	var r logcopy.Report
	if o.verifyOnly {
		r, err = c.Verify(ctx)
	} else {
		r, err = c.Run(ctx)
	}
	meter.finish()
	if err != nil {
		return m.copyStopped(ctx, &r, err, time.Since(begin))
	}
	if err := m.printCopy(o, &r, time.Since(begin)); err != nil {
		return err
	}
	if r.Different > 0 {
		return failed{exitFailed}
	}
	return nil
}

// say shows another text beside the time that has passed.
func (p *meter) say(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = text
}

func copyText(p logcopy.Progress) string {
	what := "copying"
	if p.Phase == logcopy.Comparing {
		what = "comparing"
	}
	full := int(p.Share * meterBar)
	bar := strings.Repeat("█", full) + strings.Repeat("░", meterBar-full)
	return fmt.Sprintf("%s  %s %3.0f%%  %d records  %s", what, bar, 100*p.Share, p.Records, sizeText(float64(p.Bytes)))
}

// copyStopped says how far a copy came that did not end, and how it goes on.
func (m *Main) copyStopped(ctx context.Context, r *logcopy.Report, err error, took time.Duration) error {
	if r.Position == 0 || errors.Is(err, mainstem.ErrExists) {
		return err
	}
	if m.flags.json {
		f := new(fields).add("complete", false).add("records", r.Records).add("bytes", r.Bytes).
			add("position", r.Position).add("seconds", took.Seconds())
		return errors.Join(err, m.object(f))
	}
	text := fmt.Sprintf("%d records copied, the target holds the source up to position %d", r.Records, r.Position)
	if ctx.Err() != nil || errors.Is(err, mainstem.ErrUnavailable) {
		text += ": run the same command again to go on"
	}
	return errors.Join(err, m.line(text))
}

func (m *Main) printCopy(o *copyOptions, r *logcopy.Report, took time.Duration) error {
	if m.flags.json {
		return m.printCopyJSON(o, r, took)
	}
	took = took.Round(time.Millisecond)
	if !o.verifyOnly {
		text := fmt.Sprintf("copied %d records, %d bytes, in %d new spaces, up to position %d in %s (%.0f/s)",
			r.Records, r.Bytes, r.Spaces, r.Position, took, float64(r.Records)/took.Seconds())
		if r.Resumed {
			text += fmt.Sprintf("; repaired %d, dropped %d spaces", r.Repaired, r.Dropped)
		}
		if err := m.line(text); err != nil {
			return err
		}
	}
	for _, note := range copyNotes(r) {
		if err := m.line(note); err != nil {
			return err
		}
	}
	for _, d := range r.Differences {
		if err := m.line("differs", printable([]byte(d.String()))); err != nil {
			return err
		}
	}
	verdict := "the same"
	if r.Different > 0 {
		verdict = fmt.Sprintf("%d differences", r.Different)
	}
	v := &r.Verified
	return m.line(fmt.Sprintf("compared %d spaces, %d keys, %d records, %d bytes: %s", v.Spaces, v.Keys, v.Records, v.Bytes, verdict))
}

// copyNotes says what a person should know about a copy besides the counts.
func copyNotes(r *logcopy.Report) (out []string) {
	note := func(n int64, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	note(r.ExpiryTombstones, "%d tombstones of expired records are tombstones of deletes in the target", r.ExpiryTombstones)
	note(r.Late, "%d records expired while they were copied, or were about to: those still live stand at the end of the target", r.Late)
	note(r.Later, "%d records have a later time than at the source, because others expired in the target meanwhile", r.Later)
	note(r.Hidden, "%d keys of spaces without feed are in no list, because their newest record was removed: their older records are not copied", r.Hidden)
	note(r.Moving, "%d keys were written at the source after they were copied: they were not compared", r.Moving)
	note(int64(r.Head)-int64(r.Position), "the source has moved on to position %d: run the same command again for what is new", r.Head)
	return out
}

func (m *Main) printCopyJSON(o *copyOptions, r *logcopy.Report, took time.Duration) error {
	for _, d := range r.Differences {
		f := new(fields).text("space", d.Space)
		if d.Key != nil {
			f.bytes("key", d.Key)
		}
		opt(f, "version", d.Version)
		if err := m.object(f.add("difference", d.What)); err != nil {
			return err
		}
	}
	f := new(fields).add("complete", true)
	if !o.verifyOnly {
		f.add("resumed", r.Resumed).add("spaces", r.Spaces).add("records", r.Records).add("bytes", r.Bytes).
			add("repaired", r.Repaired).add("dropped", r.Dropped)
	}
	v := &r.Verified
	f.add("position", r.Position).add("head", r.Head).add("compared_spaces", v.Spaces).add("compared_keys", v.Keys).
		add("compared_records", v.Records).add("compared_bytes", v.Bytes).add("differences", r.Different)
	opt(f, "expiry_tombstones", r.ExpiryTombstones)
	opt(f, "late", r.Late)
	opt(f, "later", r.Later)
	opt(f, "hidden", r.Hidden)
	opt(f, "moving", r.Moving)
	return m.object(f.add("seconds", took.Seconds()))
}
