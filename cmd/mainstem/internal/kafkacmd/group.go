package kafkacmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

func (m commands) newGroup() *cobra.Command {
	c := &cobra.Command{
		Use:   "group",
		Short: "Consumer groups",
		Long: `Consumer groups: who their members are, how far they are, and where they go on. The
commands work on a log, also while a server serves it to Kafka clients. Of members
they know what the server has stored last; after it has stopped, a group keeps its
members until the next server has waited for them.`,
		RunE: cli.Group,
	}
	c.AddCommand(m.newGroupList(), m.newGroupDescribe(), m.newGroupLag(), m.newGroupReset(), m.newGroupDelete())
	return c
}

// withGroups opens the groups of the log of the command line, and everything that groups read.
func (m commands) withGroups(cmd *cobra.Command, do func(context.Context, *kafka.Groups) error) error {
	return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
		topics, err := topic.Open(log, &topic.Options{Every: -1, Logger: m.Logger()})
		if err != nil {
			return err
		}
		events := eventtopic.Open(log, &eventtopic.Options{Logger: m.Logger()})
		alerts := kafkatopic.Open(log, &kafkatopic.Options{Logger: m.Logger()})
		err = do(ctx, kafka.NewGroups(topics, events, alerts))
		return errors.Join(err, alerts.Close(), events.Close(), topics.Close())
	})
}

func (m commands) newGroupList() *cobra.Command {
	var states []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List consumer groups by name",
		Long: `List consumer groups by name: type, state and number of members. The state is one of
Kafka's: Empty, PreparingRebalance, CompletingRebalance, Stable, and for groups of type
consumer Assigning and Reconciling.`,
		Example: `  mainstem kafka group list
  mainstem kafka group list --state empty --json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withGroups(cmd, func(ctx context.Context, groups *kafka.Groups) error {
				all, err := groups.All(ctx)
				list := m.NewList("group", "type", "state", "members")
				for i := range all {
					if err == nil && wanted(states, all[i].State) {
						err = m.printGroup(list, &all[i])
					}
				}
				return list.End(err)
			})
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only groups in these `states`, separated by commas")
	return cmd
}

func wanted(states []string, state string) bool {
	for _, s := range states {
		if strings.EqualFold(s, state) {
			return true
		}
	}
	return len(states) == 0
}

func (m commands) printGroup(list *cli.List, g *kafka.Group) error {
	if m.Flags.JSON {
		return m.Object(groupFields(g))
	}
	return list.Row(cli.Printable(g.Name), g.Type, g.State, cli.Plural(g.Members, "member"))
}

func groupFields(g *kafka.Group) *cli.Fields {
	f := new(cli.Fields).Text("group", g.Name).Add("type", g.Type).Add("state", g.State)
	cli.Opt(f, "protocol_type", g.ProtocolType)
	cli.Opt(f, "protocol", g.Protocol)
	return f.Add("epoch", g.Epoch).Add("members", g.Members)
}

func (m commands) newGroupDescribe() *cobra.Command {
	return &cobra.Command{
		Use:   "describe GROUP",
		Short: "Show the members of a group, and how far it is",
		Long: `Show a consumer group: its members with the partitions that they read, and of each
partition the offset that the group has stored, the offset that the next record gets,
and the lag between them. A partition without a stored offset is shown if a member
reads it.`,
		Example: `  mainstem kafka group describe billing`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withGroups(cmd, func(ctx context.Context, groups *kafka.Groups) error {
				g, members, offsets, err := groups.Describe(ctx, a[0])
				if err != nil {
					return err
				}
				if m.Flags.JSON {
					return m.describeJSON(&g, members, offsets)
				}
				return m.describeText(&g, members, offsets)
			})
		},
	}
}

func (m commands) describeJSON(g *kafka.Group, members []kafka.GroupMember, offsets []kafka.GroupOffset) error {
	if err := m.Object(groupFields(g)); err != nil {
		return err
	}
	for _, o := range members {
		f := new(cli.Fields).Text("group", g.Name).Text("member", o.ID)
		if o.Instance != "" {
			f.Text("instance", o.Instance)
		}
		f.Text("client", o.Client).Text("host", o.Host)
		cli.Opt(f, "epoch", o.Epoch)
		list := make([][]byte, len(o.Assigned))
		for i, a := range o.Assigned {
			list[i] = new(cli.Fields).Add("topic", a.Topic).Add("partitions", a.Partitions).Object()
		}
		if err := m.Object(f.Raw("assigned", fmt.Appendf(nil, "[%s]", bytes.Join(list, []byte{','})))); err != nil {
			return err
		}
	}
	for _, o := range offsets {
		f := new(cli.Fields).Text("group", g.Name).Add("topic", o.Topic).Add("partition", o.Partition)
		if o.Next >= 0 {
			f.Add("offset", o.Next)
		}
		if f.Add("end", o.End); o.Next >= 0 {
			f.Add("lag", o.Lag())
		}
		if o.Member != "" {
			f.Text("member", o.Member)
		}
		if err := m.Object(f); err != nil {
			return err
		}
	}
	return nil
}

func (m commands) describeText(g *kafka.Group, members []kafka.GroupMember, offsets []kafka.GroupOffset) error {
	err := m.Table([][2]string{
		{"group", cli.Printable(g.Name)}, {"type", g.Type}, {"state", g.State}, {"protocol", g.Protocol},
		{"epoch", cli.Number(g.Epoch)}, {"members", cli.Number(g.Members)},
	})
	for _, o := range members {
		if err != nil {
			return err
		}
		err = m.Line("member", cli.Printable(o.ID), cli.Printable(o.Client), cli.Printable(o.Host), cli.Printable(o.Instance), assigned(o.Assigned))
	}
	if err != nil || len(offsets) == 0 {
		return err
	}
	rows := make([][]string, len(offsets))
	for i, o := range offsets {
		rows[i] = []string{o.Topic, cli.Number(o.Partition), orDash(o.Next), cli.Number(o.End), orDash(o.Lag()), dash(cli.Printable(o.Member))}
	}
	return m.Columns([]string{"topic", "partition", "offset", "end", "lag", "member"}, rows)
}

func assigned(topics []kafka.AssignedTopic) string {
	var out []string
	for _, a := range topics {
		out = append(out, strings.ReplaceAll(fmt.Sprint(a.Topic, a.Partitions), " ", ","))
	}
	return strings.Join(out, " ")
}

// orDash shows a number that is negative if there is none.
func orDash(n int64) string {
	if n < 0 {
		return "-"
	}
	return cli.Number(n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (m commands) newGroupLag() *cobra.Command {
	return &cobra.Command{
		Use:   "lag [GROUP...]",
		Short: "Show how far groups are behind",
		Long: `Show how far consumer groups are behind, all or those given: of each topic the
partitions in which the group has stored an offset, and its lag in them together. The
lag counts offsets: of a compacted topic there may be fewer records than that.`,
		Example: `  mainstem kafka group lag
  mainstem kafka group lag billing --json`,
		Args: cli.Args(0, -1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return m.withGroups(cmd, func(ctx context.Context, groups *kafka.Groups) error {
				if len(names) == 0 {
					all, err := groups.All(ctx)
					if err != nil {
						return err
					}
					for _, g := range all {
						names = append(names, g.Name)
					}
				}
				return m.printLags(ctx, groups, names)
			})
		},
	}
}

// printLags shows how far each group is behind. Each is read with all its partitions, which may take long.
func (m commands) printLags(ctx context.Context, groups *kafka.Groups, names []string) error {
	list := m.NewList("group", "topic", "partitions", "lag")
	meter := m.StartMeter("reading offsets", 0)
	var err error
	for i := 0; i < len(names) && err == nil; i++ {
		meter.Say(fmt.Sprintf("reading offsets of group %d of %d", i+1, len(names)))
		var offsets []kafka.GroupOffset
		if _, _, offsets, err = groups.Describe(ctx, names[i]); err == nil {
			meter.Above(func() { err = m.printLag(list, names[i], offsets) })
		}
	}
	meter.Finish()
	return list.End(err)
}

func (m commands) printLag(list *cli.List, name string, offsets []kafka.GroupOffset) error {
	for i := 0; i < len(offsets); {
		topic, partitions, lag := offsets[i].Topic, 0, int64(0)
		for ; i < len(offsets) && offsets[i].Topic == topic; i++ {
			if offsets[i].Next >= 0 {
				partitions, lag = partitions+1, lag+offsets[i].Lag()
			}
		}
		err := error(nil)
		if m.Flags.JSON {
			err = m.Object(new(cli.Fields).Text("group", name).Add("topic", topic).Add("partitions", partitions).Add("lag", lag))
		} else {
			err = list.Row(cli.Printable(name), topic, cli.Plural(partitions, "partition"), cli.Number(lag))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m commands) newGroupDelete() *cobra.Command {
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "delete GROUP",
		Short: "Delete a group without members, with its offsets",
		Long: `Delete a consumer group with its offsets. One that has members is a conflict (exit
status 4): stop its consumers first.

` + cli.ConsentHelp,
		Example: `  mainstem kafka group delete billing --yes`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withGroups(cmd, func(ctx context.Context, groups *kafka.Groups) error {
				_, _, offsets, err := groups.Describe(ctx, a[0])
				if err == nil {
					err = groups.Inactive(ctx, a[0])
				}
				if err != nil {
					return err
				}
				agreed, _, err := m.Confirm(cmd, &consent, cli.Loss{
					Text:   fmt.Sprintf("delete the group %s with offsets in %s", cli.Printable(a[0]), cli.Plural(len(offsets), "partition")),
					Fields: new(cli.Fields).Text("group", a[0]).Add("partitions", len(offsets)),
				})
				if !agreed || err != nil {
					return err
				}
				if err := groups.Delete(ctx, a[0]); err != nil {
					return err
				}
				return m.Deleted(new(cli.Fields).Text("group", a[0]).Add("partitions", len(offsets)))
			})
		},
	}
	consent.Add(cmd)
	return cmd
}
