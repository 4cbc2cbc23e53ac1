package alert

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// Options configures [Open]. Nil and zero fields mean the defaults.
type Options struct {
	// Name is the name of the server: getservername() and the column ServerName. At
	// most 29 letters, digits and underlines, a letter first. Default [DefaultName].
	Name string
	// Now is the clock: getdate() and all times in rows. Default [time.Now].
	Now func() time.Time
	// Every is how often the server looks for automations that are due. Default
	// [DefaultEvery]; negative means never, until [Server.Tick] is called.
	Every time.Duration
	// Automations are added to the standard ones; one with the name of a standard
	// one takes its place.
	Automations []Automation
	// Properties are what get_prop_value returns besides Name and ActingPrimary.
	Properties map[string]string
	// Durability is that of all writes. Default: the log's own.
	Durability mainstem.Durability
	// MaxResultBytes bounds the memory for a result that is read so slowly that a
	// transaction ends meanwhile: then its rows are taken into memory, and beyond this
	// the result fails. Default [DefaultMaxResultBytes].
	MaxResultBytes int
	// Memory is what the rows of all such results together draw from, at most half of it,
	// until they are read. A result for which there is none fails, and so does one that is
	// not read while others need the memory. It may be shared. Nil: only MaxResultBytes
	// bounds them.
	Memory *budget.Budget
	// BatchRows is how many rows a statement changes in one commit; one that
	// changes more, or writes more than 32 MiB, is several commits. Default [DefaultBatchRows].
	BatchRows int
	// Logger receives what automations and the follower could not do. Default: discards.
	Logger *slog.Logger
}

// The defaults and limits.
const (
	DefaultName           = "NCOMS"
	DefaultEvery          = time.Second
	DefaultMaxResultBytes = 256 << 20
	DefaultBatchRows      = 10_000
	MaxTogether           = 30_000 // rows that a statement changes in a commit with others
	maxServerName         = 29
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.Name = cmp.Or(c.Name, DefaultName)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.MaxResultBytes = cmp.Or(c.MaxResultBytes, DefaultMaxResultBytes)
	c.BatchRows = cmp.Or(c.BatchRows, DefaultBatchRows)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Properties = maps.Clone(c.Properties)
	return c
}

// resultMemory returns what results draw from.
func (o *Options) resultMemory() *budget.Budget {
	if o.Memory == nil {
		return nil
	}
	return o.Memory.Child("alert results", o.Memory.Limit()/2)
}

// Validate returns an Invalid error that names every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	if o.Name != "" && (len(o.Name) > maxServerName || !validServerName(o.Name)) {
		errs = append(errs, fmt.Errorf("Name is %q: want 1 to %d letters, digits and underlines, a letter first", o.Name, maxServerName))
	}
	if o.MaxResultBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxResultBytes is %d: want 0 (default) or more", o.MaxResultBytes))
	}
	if o.BatchRows < 0 {
		errs = append(errs, fmt.Errorf("BatchRows is %d: want 0 (default) or more", o.BatchRows))
	}
	if o.Durability < mainstem.OS {
		errs = append(errs, fmt.Errorf("the Durability %d is not one that this version knows", int64(o.Durability)))
	}
	for i := range o.Automations {
		errs = append(errs, o.Automations[i].validate())
	}
	if err := errors.Join(errs...); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open alerts", Err: err}
	}
	return nil
}
