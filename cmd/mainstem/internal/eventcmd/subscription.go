package eventcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/claims"
)

func (m commands) newSubscription(store *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "subscription",
		Short: "Subscriptions to event stores",
		Long: `Subscriptions to event stores: named readers whose place is in the log, so that the
commands work whatever process runs them, and need none to be running. Their kinds:

  checkpoint   a handler in a program (in Go: Store.Subscribe)
  projection   a projection, or a partition of one: see mainstem projection
  saga         a type of sagas: see mainstem saga
  claims       consumers that claim events, over HTTP

Events that could not be handled are parked: put aside, to be tried again or dropped.`,
		RunE: cli.Group,
	}
	c.AddCommand(m.newSubscriptionList(store), m.newSubscriptionLag(store), m.newSubscriptionReset(store),
		m.newSubscriptionParked(store), m.newSubscriptionRetry(store), m.newSubscriptionSkip(store))
	return c
}

// withSubscription finds the subscription called name.
func (m commands) withSubscription(cmd *cobra.Command, store, name, kind string, do func(context.Context, *event.Store, subscriber) error) error {
	switch kind {
	case "", ofCheckpoint, ofProjection, ofSaga, ofClaims:
	default:
		return cli.WrongUsage(cmd, fmt.Errorf("--kind is %q: want checkpoint, projection, saga or claims", kind))
	}
	return m.withStore(cmd, cli.Reading, store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
		sub, err := m.subscriber(ctx, s, name, kind)
		if err != nil {
			return err
		}
		return do(ctx, s, sub)
	})
}

func addKind(cmd *cobra.Command, kind *string) {
	cmd.Flags().StringVar(kind, "kind", "", "`kind` of the subscription, if two have the name")
}

func (m commands) newSubscriptionList(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the subscriptions of a store",
		Long: `List the subscriptions of a store: name, kind, position, how many events are still to
be handled, and how many are parked. At most 100,000 are counted.`,
		Example: `  mainstem event subscription list --store shop`,
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				all, err := m.subscribers(ctx, s, "", "")
				if err != nil {
					return err
				}
				return m.printSubscriptions(ctx, s.Name(), all)
			})
		},
	}
}

func standingFields(store string, st *standing) *cli.Fields {
	f := new(cli.Fields).Add("store", store).Add("subscription", st.name).Add("kind", st.kind).Add("position", st.position).
		Add("lag", st.lag).Add("parked", st.parked).Time("updated", st.updated)
	cli.Opt(f, "owner", st.owner)
	if in := st.claims; in != nil {
		f.Add("claimed", in.Claimed).Add("waiting", in.Waiting).Add("consumers", in.Consumers).Add("strategy", in.Config.Strategy)
		cli.Opt(f, "stopped", in.Stopped)
	}
	return f
}

// printSubscriptions shows how each of all stands. Counting what they still have to handle may take long.
func (m commands) printSubscriptions(ctx context.Context, store string, all []subscriber) error {
	list := m.NewList("subscription", "kind", "position", "lag", "parked")
	meter := m.StartMeter("counting events", 0)
	var err error
	for i := 0; i < len(all) && err == nil; i++ {
		meter.Say(fmt.Sprintf("counting events of subscription %d of %d", i+1, len(all)))
		var st standing
		if st, err = all[i].standing(ctx); err == nil {
			meter.Above(func() { err = m.printSubscription(list, store, &st) })
		}
	}
	meter.Finish()
	return list.End(err)
}

func (m commands) printSubscription(list *cli.List, store string, st *standing) error {
	if m.Flags.JSON {
		return m.Object(standingFields(store, st))
	}
	return list.Row(cli.Printable(st.name), st.kind, cli.Number(st.position), lagText(st.lag), lagText(st.parked))
}

func (m commands) newSubscriptionLag(store *string) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:   "lag NAME",
		Short: "Show how far behind a subscription is",
		Long: `Show how a subscription stands: the position up to which all is handled, how many
events are still to be handled, and how many are parked. At most 100,000 are counted.

Of one with a checkpoint also which process moved it last, and when; of one with
claims how many events are with consumers, how many were read and wait, how many
consumers there are, and why it was stopped, if it was.`,
		Example: `  mainstem event subscription lag mailer --store shop --json`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withSubscription(cmd, *store, a[0], kind, func(ctx context.Context, s *event.Store, sub subscriber) error {
				meter := m.StartMeter("counting events", 0)
				st, err := sub.standing(ctx)
				meter.Finish()
				if err != nil {
					return err
				}
				return m.printStanding(s.Name(), &st)
			})
		},
	}
	addKind(cmd, &kind)
	return cmd
}

func (m commands) printStanding(store string, st *standing) error {
	if m.Flags.JSON {
		return m.Object(standingFields(store, st))
	}
	lines := [][2]string{
		{"subscription", cli.Printable(st.name)}, {"kind", st.kind}, {"position", cli.Number(st.position)},
		{"lag", lagText(st.lag)}, {"parked", lagText(st.parked)}, {"updated", cli.TimeText(st.updated)}, {"owner", cli.Printable(st.owner)},
	}
	if in := st.claims; in != nil {
		lines = append(lines, [][2]string{
			{"claimed", cli.Number(in.Claimed)}, {"waiting", cli.Number(in.Waiting)}, {"consumers", cli.Number(in.Consumers)},
			{"strategy", in.Config.Strategy}, {"stopped", cli.Printable(in.Stopped)},
		}...)
	}
	return m.Table(lines)
}

func (m commands) newSubscriptionReset(store *string) *cobra.Command {
	var kind string
	var after uint64
	var start, end bool
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Make a subscription go on from another position",
		Long: `Make a subscription go on from another position: backwards, its events are handled
again; forwards, events are passed over. Programs and consumers that run it go on from
there; claims from before count for nothing. Parked events stay. A subscription of a
projection or of sagas cannot be reset.

` + cli.ConsentHelp,
		Example: `  mainstem event subscription reset mailer --to-start --dry-run
  mainstem event subscription reset mailer --after 1234 --yes`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withSubscription(cmd, *store, a[0], kind, func(ctx context.Context, s *event.Store, sub subscriber) error {
				to := mainstem.Position(after) // 0 for --to-start
				last, err := s.Log().Head(ctx)
				if err != nil {
					return err
				}
				if end {
					to = last
				}
				if to > last {
					return mainstem.Errorf(mainstem.KindInvalid, "event subscription reset", "--after is %d, beyond the newest position, %d", to, last)
				}
				return m.reset(ctx, cmd, s, sub, to, &consent)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&start, "to-start", false, "handle all events again")
	f.BoolVar(&end, "to-end", false, "pass over all events that are there")
	f.Uint64Var(&after, "after", 0, "go on behind this `position`")
	cmd.MarkFlagsOneRequired("to-start", "to-end", "after")
	cmd.MarkFlagsMutuallyExclusive("to-start", "to-end", "after")
	addKind(cmd, &kind)
	consent.Add(cmd)
	return cmd
}

func (m commands) reset(ctx context.Context, cmd *cobra.Command, s *event.Store, sub subscriber, to mainstem.Position, consent *cli.Consent) error {
	if err := sub.managed("reset"); err != nil {
		return err
	}
	st, err := sub.standing(ctx)
	if err != nil {
		return err
	}
	filter, err := sub.filter(ctx)
	if err != nil {
		return err
	}
	from := st.position
	meter := m.StartMeter("counting events", 0)
	n, err := countEvents(ctx, s, filter, min(from, to), max(from, to))
	meter.Finish()
	if err != nil {
		return err
	}
	what := "handled again"
	if to > from {
		what = "passed over"
	}
	fields := new(cli.Fields).Add("store", s.Name()).Add("subscription", st.name).Add("kind", st.kind).Add("from", from).Add("position", to).Add("events", n)
	text := fmt.Sprintf("reset %s of the store %s from position %d to %d: %s events %s", cli.Printable(st.name), s.Name(), from, to, lagText(n), what)
	if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields}); !agreed {
		return err
	}
	if err := sub.reset(ctx, to); err != nil {
		return err
	}
	return m.did(fields.Add("reset", true))
}

func (m commands) newSubscriptionParked(store *string) *cobra.Command {
	var kind string
	limit := 0
	cmd := &cobra.Command{
		Use:   "parked NAME",
		Short: "List the events that a subscription has put aside",
		Long: `List the events that a subscription has put aside because they could not be handled, in
the order of the log: position, stream, version, attempts and reason.
mainstem event load STREAM --version VERSION shows one of them.`,
		Example: `  mainstem event subscription parked mailer --limit 10`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			if limit < 0 {
				return cli.WrongUsage(cmd, fmt.Errorf("--limit is %d: want 0 (all) or more", limit))
			}
			return m.withSubscription(cmd, *store, a[0], kind, func(ctx context.Context, s *event.Store, sub subscriber) error {
				n := 0
				list := m.NewList("position", "stream", "version", "attempts", "reason")
				for p, err := range sub.parked(ctx) {
					if err == nil {
						err = m.printParked(list, s.Name(), &p)
					}
					if err != nil {
						return list.End(err)
					}
					if n++; n == limit {
						break
					}
				}
				return list.End(nil)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this `number` of events (default all)")
	addKind(cmd, &kind)
	return cmd
}

func parkedFields(store string, p *event.Parked) *cli.Fields {
	f := new(cli.Fields).Add("store", store).Add("subscription", p.Subscription).Add("position", p.Position).
		Text("stream", p.Stream).Add("version", p.Version).Add("attempts", p.Attempts)
	cli.Opt(f, "reason", p.Reason)
	return f.Time("time", p.Time)
}

func (m commands) printParked(list *cli.List, store string, p *event.Parked) error {
	if m.Flags.JSON {
		return m.Object(parkedFields(store, p))
	}
	return list.Row(cli.Number(p.Position), cli.Printable(p.Stream), cli.Number(p.Version), cli.Number(p.Attempts), cli.Printable(p.Reason))
}

// positions reads the arguments POSITION.
func positions(cmd *cobra.Command, args []string) (out []mainstem.Position, err error) {
	for _, a := range args {
		n, err := strconv.ParseUint(a, 10, 64)
		if err != nil || n == 0 {
			return nil, cli.WrongUsage(cmd, fmt.Errorf("POSITION is %q: want a number from 1 on", a))
		}
		out = append(out, mainstem.Position(n))
	}
	return out, nil
}

func (m commands) newSubscriptionRetry(store *string) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:   "retry NAME [POSITION...]",
		Short: "Give parked events to the consumers again",
		Long: `Give parked events, those at the positions or all, to the consumers of a subscription
with claims again, with their attempts counted anew. If there is no place for all of
them beside the events that wait, the others stay parked, and the text says so.

Of a subscription with a checkpoint the handler is in a program, which tries parked
events again itself (in Go: Store.RetryParked); of sagas see mainstem saga retry.`,
		Example: `  mainstem event subscription retry mailer
  mainstem event subscription retry mailer 1234 1240`,
		Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			at, err := positions(cmd, a[1:])
			if err != nil {
				return err
			}
			return m.withSubscription(cmd, *store, a[0], kind, func(ctx context.Context, s *event.Store, sub subscriber) error {
				return m.retry(ctx, s, sub, a[0], at)
			})
		},
	}
	addKind(cmd, &kind)
	return cmd
}

func (m commands) newSubscriptionSkip(store *string) *cobra.Command {
	var kind, reason string
	var parked bool
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "skip NAME [--parked [POSITION...]]",
		Short: "Pass over the next event of a subscription, or drop parked ones",
		Long: `Pass over the first event that a subscription has not handled: it is parked, and the
subscription goes on behind it, also if a consumer has stopped it.

With --parked, drop parked events, those at the positions or all: they are not handled
any more. The events themselves stay in their streams.

` + cli.ConsentHelp,
		Example: `  mainstem event subscription skip mailer --dry-run
  mainstem event subscription skip mailer --reason 'no such address' --yes
  mainstem event subscription skip mailer --parked 1234 1240 --yes`,
		Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			at, err := positions(cmd, a[1:])
			if err == nil && len(at) > 0 && !parked {
				err = cli.WrongUsage(cmd, errors.New("positions are those of parked events: say --parked"))
			}
			if err == nil && len(reason) > claims.MaxReason {
				err = cli.WrongUsage(cmd, fmt.Errorf("--reason has %d bytes: the limit is %d", len(reason), claims.MaxReason))
			}
			if err != nil {
				return err
			}
			return m.withSubscription(cmd, *store, a[0], kind, func(ctx context.Context, s *event.Store, sub subscriber) error {
				if parked {
					return m.drop(ctx, cmd, s, sub, a[0], at, &consent)
				}
				return m.skip(ctx, cmd, s, sub, reason, &consent)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "passed over by an operator", "why, kept with the parked event, as a `text`")
	f.BoolVar(&parked, "parked", false, "drop parked events")
	addKind(cmd, &kind)
	consent.Add(cmd)
	return cmd
}

func (m commands) skip(ctx context.Context, cmd *cobra.Command, s *event.Store, sub subscriber, reason string, consent *cli.Consent) error {
	if err := sub.managed("skip"); err != nil {
		return err
	}
	p, err := sub.next(ctx)
	if err != nil {
		return err
	}
	p.Reason = reason
	text := fmt.Sprintf("park version %d of %s at position %d of subscription %s", p.Version, cli.Printable(p.Stream), p.Position, cli.Printable(p.Subscription))
	fields := parkedFields(s.Name(), &p)
	if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields}); !agreed {
		return err
	}
	if err := sub.skip(ctx, p); err != nil {
		return err
	}
	return m.did(fields.Add("skipped", true))
}

func (m commands) drop(ctx context.Context, cmd *cobra.Command, s *event.Store, sub subscriber, name string, at []mainstem.Position, consent *cli.Consent) error {
	chosen, err := choose(ctx, sub, at)
	if err != nil {
		return err
	}
	fields := func(n int) *cli.Fields {
		return new(cli.Fields).Add("store", s.Name()).Add("subscription", name).Add("events", n)
	}
	text := fmt.Sprintf("drop %s of subscription %s", cli.Plural(len(chosen), "parked event"), cli.Printable(name))
	if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields(len(chosen))}); !agreed {
		return err
	}
	n := 0
	if len(chosen) > 0 {
		meter := m.StartMeter("dropping parked events", 0)
		n, err = sub.drop(ctx, chosen, func(done int) {
			meter.Say(fmt.Sprintf("dropping parked events  %d of %d", done, len(chosen)))
		})
		meter.Finish()
		if err != nil {
			return err
		}
	}
	if m.Flags.JSON {
		return m.Object(fields(n).Add("dropped", true))
	}
	return m.Line("dropped " + cli.Plural(n, "parked event"))
}

func (m commands) retry(ctx context.Context, s *event.Store, sub subscriber, name string, at []mainstem.Position) error {
	var chosen []event.Parked
	var err error
	if len(at) > 0 {
		if chosen, err = choose(ctx, sub, at); err != nil {
			return err
		}
	}
	n, more, err := sub.retry(ctx, chosen)
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("store", s.Name()).Add("subscription", name).Add("retried", n).Add("more", more))
	}
	text := cli.Plural(n, "event")
	if more {
		text += "; there is no place for the others yet"
	}
	return m.Line("retried " + text)
}
