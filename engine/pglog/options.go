package pglog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Options tune a log. Nil and zero fields mean the defaults. Open copies them.
type Options struct {
	// Schema is where the tables of the log are. Logs in other schemas of the same
	// database are other logs. A lower-case name of up to 40 letters, digits and
	// underscores; default "mainstem".
	Schema string
	// Durability of batches that do not ask for one. Default [mainstem.Fsync].
	Durability mainstem.Durability
	// Limits of one value and one batch. Defaults: see [mainstem.Limits].
	Limits mainstem.Limits
	// BatchIDAge is how long the IDs of batches are remembered (law 6). Default 24h.
	BatchIDAge time.Duration
	// SweepEvery is how often age and size limits of spaces are enforced in the tables.
	// Default 10s. Times to live are enforced when they end, whatever this is.
	SweepEvery time.Duration
	// Conns is how many connections read at once. Default: 4, or the number of
	// processors if that is more. Besides them a log holds one for commits and, while
	// there are followers, one that listens.
	Conns int
	// HeldConns is how many snapshots, and scans of more than a page, there may be at
	// once: each holds a connection. Default 16. One more is Unavailable.
	HeldConns int
	// Retries is how often a commit is tried again that failed to reach the server, was
	// refused as a deadlock or serialization failure or, if its batch has an ID, lost
	// its connection. Default 3, negative never.
	Retries int
	// PollEvery is how often followers look for records while the connection that
	// listens is lost. Default 500ms.
	PollEvery time.Duration
	// Now is the clock. Default: that of the server, one for all processes.
	Now func() time.Time
	// Monotonic is the time since some fixed moment by a clock that nobody sets; jumps of
	// the clock are noticed by it. Default: this process's own; with Now, the monotonic
	// readings of its times: if they have none, Now is always believed.
	Monotonic func() time.Duration
	// Logger receives what an operator should know. Default: discards.
	Logger *slog.Logger
	// MustExist makes Open fail with NotFound instead of creating the tables.
	MustExist bool
}

// The defaults.
const (
	DefaultSchema     = "mainstem"
	DefaultBatchIDAge = 24 * time.Hour
	DefaultSweepEvery = 10 * time.Second
	DefaultConns      = 4 // at least; see [Options.Conns]
	DefaultHeldConns  = 16
	DefaultRetries    = 3
	DefaultPollEvery  = 500 * time.Millisecond
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.Schema = cmp.Or(c.Schema, DefaultSchema)
	c.Durability = cmp.Or(c.Durability, mainstem.Fsync)
	c.Limits = c.Limits.WithDefaults()
	c.BatchIDAge = cmp.Or(c.BatchIDAge, DefaultBatchIDAge)
	c.SweepEvery = cmp.Or(c.SweepEvery, DefaultSweepEvery)
	c.Conns = cmp.Or(c.Conns, max(DefaultConns, runtime.GOMAXPROCS(0)))
	c.HeldConns = cmp.Or(c.HeldConns, DefaultHeldConns)
	c.Retries = cmp.Or(c.Retries, DefaultRetries)
	c.Retries = max(c.Retries, 0)
	c.PollEvery = cmp.Or(c.PollEvery, DefaultPollEvery)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// maxBatchBytes bounds Limits.MaxBatchBytes: a parameter of a statement has less than 1 GiB.
const maxBatchBytes = 512 << 20

var schemaNames = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// Validate reports every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Schema == "" || schemaNames.MatchString(o.Schema) && o.Schema[:min(3, len(o.Schema))] != "pg_",
		"Schema %q: want up to 40 lower-case letters, digits and underscores, no digit first, not pg_", o.Schema)
	check(o.Durability >= mainstem.OS, "Durability %d is not one that this version knows", int64(o.Durability))
	check(o.Limits.MaxValue >= 0 && o.Limits.MaxBatchBytes >= 0 && o.Limits.MaxBatchWrites >= 0, "Limits %+v: want 0 (default) or more", o.Limits)
	check(max(o.Limits.MaxValue, o.Limits.MaxBatchBytes) <= maxBatchBytes, "Limits %+v: want at most %d bytes", o.Limits, maxBatchBytes)
	check(o.BatchIDAge >= 0, "BatchIDAge is %v: want 0 (default) or more", o.BatchIDAge)
	check(o.SweepEvery >= 0, "SweepEvery is %v: want 0 (default) or more", o.SweepEvery)
	check(o.PollEvery >= 0, "PollEvery is %v: want 0 (default) or more", o.PollEvery)
	check(o.Conns >= 0 && o.HeldConns >= 0, "Conns is %d and HeldConns %d: want 0 (default) or more", o.Conns, o.HeldConns)
	if len(errs) == 0 {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open", Err: errors.Join(errs...)}
}
