package eventcmd

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

func (m commands) newSettings(store *string) *cobra.Command {
	var v event.Settings
	var set, unset []string
	cmd := &cobra.Command{
		Use:   "settings STREAM",
		Short: "Show or change the settings of a stream",
		Long: `Show the settings of a stream, or change those that a flag names. The stream need not
exist. --max-count and --max-age bound the events that it keeps; mainstem event
scavenge removes the others.`,
		Example: `  mainstem event settings order-42 --json
  mainstem event settings sensor-7 --max-count 1000 --max-age 720h
  mainstem event settings sensor-7 --max-age 0 --set owner=ada --unset note`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			custom, err := cli.Pairs("set", set)
			if err == nil && v.MaxAge < 0 {
				err = fmt.Errorf("--max-age is %v: want 0 (no limit) or more", v.MaxAge)
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			access, f := cli.Reading, cmd.Flags()
			change := f.Changed("max-count") || f.Changed("max-age") || len(set)+len(unset) > 0
			if change {
				access = cli.Writing
			}
			return m.withStore(cmd, access, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if !change {
					now, err := s.Settings(ctx, a[0])
					if err != nil {
						return err
					}
					return m.printSettings(s.Name(), a[0], &now)
				}
				now, err := s.ModifySettings(ctx, a[0], func(now *event.Settings) error {
					if f.Changed("max-count") {
						now.MaxCount = v.MaxCount
					}
					if f.Changed("max-age") {
						now.MaxAge = v.MaxAge
					}
					now.Custom = merged(now.Custom, custom, unset)
					return nil
				})
				if err != nil {
					return err
				}
				return m.printSettings(s.Name(), a[0], &now)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&v.MaxCount, "max-count", 0, "keep at most this `number` of events; 0: no limit")
	f.DurationVar(&v.MaxAge, "max-age", 0, "keep no events older than this `duration`; 0: no limit")
	f.StringArrayVar(&set, "set", nil, "`NAME=VALUE` that belongs to the application; may be repeated")
	f.StringArrayVar(&unset, "unset", nil, "remove the value of this `NAME`; may be repeated")
	return cmd
}

// merged returns old with set, and without unset.
func merged(old, set map[string]string, unset []string) map[string]string {
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, set)
	for _, name := range unset {
		delete(out, name)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (m commands) printSettings(store, stream string, v *event.Settings) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Add("store", store).Text("stream", stream)
		cli.Opt(f, "max_count", v.MaxCount)
		cli.Opt(f, "max_age_seconds", v.MaxAge.Seconds())
		if len(v.Custom) > 0 {
			f.Add("custom", v.Custom)
		}
		return m.Object(f)
	}
	lines := [][2]string{{"stream", cli.Printable(stream)}}
	if v.MaxCount > 0 {
		lines = append(lines, [2]string{"max count", cli.Number(v.MaxCount)})
	}
	if v.MaxAge > 0 {
		lines = append(lines, [2]string{"max age", v.MaxAge.String()})
	}
	for _, name := range cli.SortedNames(v.Custom) {
		lines = append(lines, [2]string{"set " + cli.Printable(name), cli.Printable(v.Custom[name])})
	}
	return m.Table(lines)
}

func (m commands) newScavenge(store *string) *cobra.Command {
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "scavenge",
		Short: "Remove what the limits of streams do not allow",
		Long: `Remove the events of streams that have more of them, or older ones, than their settings
allow (see mainstem event settings), and what an index still holds of removed
events. Archived streams are left alone. Call it as often as the limits should hold.

` + cli.ConsentHelp,
		Example: `  mainstem event scavenge --store sensors --dry-run
  mainstem event scavenge --store sensors --yes`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				return m.scavenge(ctx, cmd, s, &consent)
			})
		},
	}
	consent.Add(cmd)
	return cmd
}

func (m commands) scavenge(ctx context.Context, cmd *cobra.Command, s *event.Store, consent *cli.Consent) error {
	fields := func(d event.Scavenged) *cli.Fields {
		return new(cli.Fields).Add("store", s.Name()).Add("streams", d.Streams).Add("events", d.Events)
	}
	if !consent.Yes { // counting is as much work as removing
		excess, err := s.Scavengeable(ctx)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("scavenge the store %s: %s of %s", s.Name(), cli.Plural(excess.Events, "event"), cli.Plural(excess.Streams, "stream"))
		if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields(excess)}); !agreed {
			return err
		}
	}
	begin, meter := time.Now(), m.StartMeter("scavenging", 0)
	done, err := s.Scavenge(ctx)
	meter.Finish()
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if m.Flags.JSON {
		return m.Object(fields(done).Add("entries", done.Entries).Add("seconds", took.Seconds()))
	}
	return m.Line(fmt.Sprintf("removed %s of %s in %v", cli.Plural(done.Events, "event"), cli.Plural(done.Streams, "stream"), took.Round(time.Millisecond)))
}
