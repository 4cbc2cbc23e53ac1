package projectioncmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/projection"
)

func (m commands) newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the projections of a store",
		Long: `List the projections that programs have ever run over the store, in the order of their
names: name, state, position, and how many events are to be handled. The state is
paused, rebuilding, faulted, caught_up or behind; whether a program runs at all is
not in the log.`,
		Example: `  mainstem projection list --store shop --json`,
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withEngine(cmd, cli.Reading, func(ctx context.Context, e *projection.Engine) error {
				all, err := e.All(ctx)
				for i := range all {
					if err == nil {
						err = m.printRow(&all[i])
					}
				}
				return err
			})
		},
	}
}

func (m commands) newStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status NAME",
		Short: "Show how a projection stands",
		Long: `Show how a projection stands, as the log says: its position is the least of its
partitions, lag the events that are still to be handled, in all of them. For each
partition: the name of its checkpoint, its position, which process has committed
last, and, if it cannot go on, why. A replay that is under way is shown with what it
writes, its position and where it ends.`,
		Example: `  mainstem projection status orders --store shop`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.withEngine(cmd, cli.Reading, func(ctx context.Context, e *projection.Engine) error {
				s, err := e.Status(ctx, args[0])
				if err != nil {
					return err
				}
				return m.printStatus(&s)
			})
		},
	}
}

// state is the state of a projection as far as it is in the log.
func state(s *projection.Status) string {
	switch {
	case s.State != projection.Stopped:
		return s.State.String()
	case s.Lag > 0:
		return "behind"
	}
	return "caught_up"
}

// lag is a number that was counted up to a limit.
func lag(n uint64) string {
	if n >= projection.MaxLag {
		return fmt.Sprintf("%d or more", n)
	}
	return cli.Number(n)
}

// reason is the text of an error, "" for none.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (m commands) fields(s *projection.Status) *cli.Fields {
	f := new(cli.Fields).Add("store", *m.store).Add("projection", s.Name).Add("version", s.Version).Add("state", state(s)).
		Add("position", s.Position).Add("lag", s.Lag).Add("behind", s.Behind).Add("parked", s.Parked).Add("partitions", len(s.Partitions))
	cli.Opt(f, "building", s.Building)
	if r := s.Replay; r != nil {
		f.Add("replay_into", r.Into).Add("replay_position", r.Position).Add("replay_until", r.Until)
		cli.Opt(f, "replay_error", reason(r.Err))
	}
	return f
}

func (m commands) printRow(s *projection.Status) error {
	if m.Flags.JSON {
		return m.Object(m.fields(s))
	}
	return m.Line(cli.Printable(s.Name), state(s), cli.Number(s.Position), lag(s.Lag))
}

func (m commands) printStatus(s *projection.Status) error {
	if m.Flags.JSON {
		if err := m.Object(m.fields(s)); err != nil {
			return err
		}
		return m.printPartitions(s)
	}
	lines := [][2]string{
		{"projection", cli.Printable(s.Name)}, {"version", cli.Number(s.Version)}, {"state", state(s)},
		{"position", cli.Number(s.Position)}, {"lag", lag(s.Lag)}, {"behind", cli.Number(s.Behind)}, {"parked", lag(s.Parked)},
	}
	if s.Building > 0 {
		lines = append(lines, [2]string{"building", cli.Number(s.Building)})
	}
	if r := s.Replay; r != nil {
		lines = append(lines, [2]string{"replay", fmt.Sprintf("at %d of %d, into %s", r.Position, r.Until, cli.Printable(intoText(r.Into)))})
		if r.Err != nil {
			lines = append(lines, [2]string{"", cli.Printable(reason(r.Err))})
		}
	}
	if err := m.Table(lines); err != nil {
		return err
	}
	return m.printPartitions(s)
}

func (m commands) printPartitions(s *projection.Status) error {
	for _, p := range s.Partitions {
		why := reason(p.Err)
		if m.Flags.JSON {
			f := new(cli.Fields).Add("subscription", p.Subscription).Add("position", p.Position)
			cli.Opt(f, "owner", p.Owner)
			cli.Opt(f, "error", why)
			if err := m.Object(f); err != nil {
				return err
			}
			continue
		}
		if err := m.Line(cli.Printable(p.Subscription), cli.Number(p.Position), cli.Printable(p.Owner), cli.Printable(why)); err != nil {
			return err
		}
	}
	return nil
}
