package logcmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

func (m commands) newClock() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show the clock by which records expire, or accept that it jumped",
		Long: `Show the clock of a log: what it shows, whether it jumped forward, and whether the newest
record is ahead of it.

A clock that jumps forward by more than a minute while a log is open, beyond what time
really passed, is not believed: records written before the jump expire as if it had not
happened. mainstem clock accept makes the log believe it; so does opening the log again.
A clock that goes back is believed at once.`,
		Example: `  mainstem clock --log http://127.0.0.1:8080
  mainstem clock accept --log http://127.0.0.1:8080`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withClock(cmd, mainstem.ClockKeeper.Clock)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "accept",
		Short: "Believe a clock that jumped forward: what is over by it expires",
		Long: `Believe the clock of a log as it is, and show what it was before. Records whose time is
over by that clock expire now. Without a jump it changes nothing. A directory that no
server has open needs it never: opening it believes the clock.`,
		Example: `  mainstem clock accept --log http://127.0.0.1:8080`,
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withClock(cmd, mainstem.ClockKeeper.AcceptClock)
		},
	})
	return cmd
}

// withClock shows the state that ask returns.
func (m commands) withClock(cmd *cobra.Command, ask func(mainstem.ClockKeeper, context.Context) (mainstem.ClockState, error)) error {
	return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
		k, ok := log.(mainstem.ClockKeeper)
		if !ok {
			return mainstem.Errorf(mainstem.KindUnsupported, "clock", "this log does not watch its clock")
		}
		s, err := ask(k, ctx)
		if err != nil {
			return err
		}
		return m.printClock(s)
	})
}

func (m commands) printClock(s mainstem.ClockState) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Time("now", s.Now).Add("held_seconds", s.Held.Seconds()).
			Add("times_ahead_seconds", s.TimesAhead.Seconds()).Add("jumps", s.Jumps).Add("set_backs", s.SetBacks))
	}
	if err := m.Line("now", cli.TimeText(s.Now)); err != nil {
		return err
	}
	return m.warnClock(s)
}

// warnClock says what is wrong with the clock, one a line.
func (m commands) warnClock(s mainstem.ClockState) error {
	var err error
	if s.Held > 0 {
		err = m.Line("clock", "jumped forward by "+s.Held.Round(time.Second).String()+": nothing expires by the jump until mainstem clock accept, or the log is opened again")
	}
	if s.TimesAhead > time.Second && err == nil {
		err = m.Line("clock", "the newest record is "+s.TimesAhead.Round(time.Second).String()+" ahead: the clock was ahead when it was written")
	}
	return err
}

// noteClock says what is wrong with the clock of a log, if something is.
func (m commands) noteClock(ctx context.Context, log mainstem.Log) error {
	k, ok := log.(mainstem.ClockKeeper)
	if !ok {
		return nil
	}
	s, err := k.Clock(ctx)
	switch {
	case errors.Is(err, mainstem.ErrUnsupported):
		return nil
	case err != nil:
		return err
	case !m.Flags.JSON:
		return m.warnClock(s)
	case s.Held > 0 || s.TimesAhead > time.Second:
		return m.printClock(s)
	}
	return nil
}
