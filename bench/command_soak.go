package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/bench/internal/plot"
	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/soak"
)

const soakFile = "bench-soak.json"

func (p *program) soak() *cobra.Command {
	var o soak.Options
	var durability, out, plots string
	var asJSON bool
	c := &cobra.Command{
		Use:   "soak",
		Short: "Keep the embedded engine under a steady load, and show how long commits wait",
		Long: "Put keys into a log in a directory at a part of the rate that it can sustain, and sample the times of commits,\n" +
			"the memory of the process and its files once an interval: what waits while tables in memory are frozen, written\n" +
			"to sorted files and compacted, and what grows with the hours.\n\n" +
			"Commits have a schedule: one that begins late because the log was busy counts from when it was to begin.\n" +
			"The directory of --dir gets a log, which is removed in the end.",
		Example: "  bench soak --durability os --for 10m --plots soak\n  bench soak --durability fsync --for 1h --writers 32 --dir /var/tmp",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.Durability, err = mainstem.ParseDurability(durability); err != nil {
				return usage(err)
			}
			if err := o.Check(); err != nil {
				return usage(err)
			}
			r, err := p.soaked(c.Context(), o)
			if err != nil && c.Context().Err() != nil {
				return &statusError{exitInterrupted, errors.New("interrupted before the steady load: there is no result")}
			}
			if err != nil {
				return err
			}
			if err := writeTo(out, func(w io.Writer) error { return writeJSON(w, r) }); err != nil {
				return err
			}
			if plots != "" {
				if err := writeFigures(plot.SoakFigures(r), plots); err != nil {
					return err
				}
			}
			if asJSON {
				err = writeJSON(p.stdout, r)
			} else {
				err = soakText(p.stdout, r)
				fmt.Fprintf(p.stderr, "the samples are in %s\n", out)
			}
			if err == nil && r.Interrupted {
				return &statusError{exitInterrupted, fmt.Errorf("interrupted under the steady load, after %d commits", r.Load.Commits)}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", "", "where the log is made: a directory on the disk to measure (the system's temporary directory)")
	f.StringVar(&durability, "durability", "fsync", "of the commits: fsync, os or interval=100ms")
	f.DurationVar(&o.For, "for", 10*time.Minute, "how long the steady load lasts")
	f.Float64Var(&o.Part, "part", 0.8, "the steady load, as a part of the rate that is sustained")
	f.Float64Var(&o.Rate, "rate", 0, "the steady load, in commits a second, instead of a part")
	f.IntVar(&o.Writers, "writers", 8, "goroutines that commit")
	f.IntVar(&o.Keys, "keys", 1_000_000, "keys that are put, at random")
	f.IntVar(&o.ValueBytes, "bytes", 100, "bytes of a value")
	f.DurationVar(&o.Idle, "idle", 30*time.Second, fmt.Sprintf("how long %d commits a second are measured, to compare with", soak.IdleRate))
	f.DurationVar(&o.Find, "find", time.Minute, "how long the rate that is sustained is looked for")
	f.DurationVar(&o.Every, "every", time.Second, "the interval of a sample")
	f.StringVarP(&out, "out", "o", soakFile, "the file of samples to write")
	f.StringVar(&plots, "plots", "", "a folder for pictures of the samples, as PNG and SVG")
	f.BoolVar(&asJSON, "json", false, "write the samples to standard output as JSON, without tables")
	return c
}

// soaked runs a soak in a new directory, which it removes.
func (p *program) soaked(ctx context.Context, o soak.Options) (*soak.Result, error) {
	dir, err := os.MkdirTemp(o.Dir, "bench-soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o.Dir = filepath.Join(dir, "log")
	g := newProgress(p)
	defer g.close()
	parts := map[string][2]float64{"put all keys": {0, 0.02}, "low rate": {0.02, 0.05}, "sustained rate": {0.05, 0.15}, "steady load": {0.15, 1}}
	o.Watch = func(doing string, part float64) {
		at := parts[doing]
		now := at[0] + part*(at[1]-at[0])
		g.Step("soak", doing, now, now)
	}
	return soak.Run(ctx, o)
}

// soakText writes what a person wants to see of r.
func soakText(w io.Writer, r *soak.Result) error {
	var b bytes.Buffer
	s := r.Settings
	fmt.Fprintf(&b, "%d writers put %d keys, values of %d bytes, at %s; %s, %d cores, %s\n", s.Writers, s.Keys, s.ValueBytes, s.Durability, r.Machine.CPU, r.Machine.Cores, r.Machine.Filesystem)
	if r.Sustained > 0 {
		fmt.Fprintf(&b, "sustained: %s commits a second; the steady load is %.2g of it\n", report.Value(r.Sustained, "1"), s.Part)
	}
	fmt.Fprintln(&b)
	times := report.Table{Columns: []report.Column{{Title: "load", Left: true}, {Title: "commits/s"}, {Title: "commits"}, {Title: "p50"}, {Title: "p99"}, {Title: "p99.9"}, {Title: "longest"}, {Title: "timer late by"}}}
	row := func(name string, rate float64, l soak.Latency) {
		ns := func(d time.Duration) string { return report.Value(float64(d), "ns") }
		times.Rows = append(times.Rows, []string{name, report.Value(rate, "1"), report.Value(float64(l.Commits), "1"), ns(l.P50), ns(l.P99), ns(l.P999), ns(l.Max), ns(l.Timer)})
	}
	row("low", soak.IdleRate, r.Idle)
	row("steady", r.Rate, r.Load)
	if err := times.Text(&b); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\np99.9 is %s of that at the low rate; tables in memory were filled %.1f times; processor time %s a commit\n\n",
		report.Value(r.Ratio(), "x"), r.Tables(), report.Value(float64(r.CPU)/float64(max(r.Load.Commits, 1)), "ns"))
	if r.Missed > 0 {
		fmt.Fprintf(&b, "CAREFUL: the load is more than the log could take: %d commits were not begun\n\n", r.Missed)
	}
	trends := report.Table{Columns: []report.Column{{Title: "medians", Left: true}, {Title: "first quarter"}, {Title: "last quarter"}}}
	for _, t := range r.Trends() {
		trends.Rows = append(trends.Rows, []string{t.Name, report.Value(t.First, t.Unit), report.Value(t.Last, t.Unit)})
	}
	if len(trends.Rows) > 0 {
		if err := trends.Text(&b); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
