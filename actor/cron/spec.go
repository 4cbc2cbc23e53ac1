package cron

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/mainstemdev/mainstem"
)

// MaxSpec is how many bytes a spec may have.
const MaxSpec = 1024

// parser parses five fields, or six with seconds, or a descriptor.
var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// schedule is a parsed spec and its time zone.
type schedule struct {
	cron cron.Schedule
	loc  *time.Location // of the results, and of the spec unless that names another one
}

// parse returns the schedule of a spec. It fails with Invalid.
func parse(spec string, loc *time.Location) (schedule, error) {
	if loc == nil {
		loc = time.Local
	}
	zone := strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=")
	switch {
	case len(spec) > MaxSpec:
		return schedule{}, invalid(spec[:32]+"…", fmt.Errorf("%d bytes: the limit is %d", len(spec), MaxSpec))
	case zone && !strings.Contains(spec, " "):
		return schedule{}, invalid(spec, fmt.Errorf("only a time zone")) // the parser would panic
	}
	s, err := parser.Parse(spec)
	if err != nil {
		return schedule{}, invalid(spec, err)
	}
	return schedule{s, loc}, nil
}

func invalid(spec string, err error) error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: fmt.Sprintf("cron spec %q", spec), Err: err}
}

// next returns the first time after t at which the spec is due, without a monotonic reading of the
// clock. It returns the zero time if there is none within five years.
func (s schedule) next(t time.Time) time.Time { return s.cron.Next(t.In(s.loc).Round(0)) }

// Times returns the times after a time at which a spec is due, in a location (nil: local time). It
// fails with Invalid if spec cannot be parsed. The sequence ends only where the spec is not due for
// five years; it is empty for a spec like the 30th of February.
func Times(spec string, loc *time.Location, after time.Time) (iter.Seq[time.Time], error) {
	s, err := parse(spec, loc)
	if err != nil {
		return nil, err
	}
	return func(yield func(time.Time) bool) {
		for t := s.next(after); !t.IsZero() && yield(t); t = s.next(t) {
		}
	}, nil
}
