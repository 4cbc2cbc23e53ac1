package topiccmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/topic"
)

func (m commands) newConsume() *cobra.Command {
	var o topic.ConsumeOptions
	var from, format string
	var most int64
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Show the records of a topic",
		Long: `Show the records of a topic, one value a line, in the order of offsets within each
partition. It ends with what is there, or with --follow when interrupted.

--from is start, end, an offset, a time such as 2026-01-31T08:00:00Z, or a duration:
2h are the records of the last two hours.

--format is a Go template with .Topic, .Partition, .Offset, .Time, .Key, .Value and
.Headers.`,
		Example: `  mainstem topic consume orders
  mainstem topic consume orders --from end --follow --json
  mainstem topic consume orders --partition 3 --from 1200 --max 10
  mainstem topic consume orders --from 2h --format '{{.Offset}} {{.Key}} {{.Value}}'`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			show, err := m.recordPrinter(format)
			if err == nil {
				o.From, err = parseFrom(from, o.Partitions, 0)
			}
			if err == nil && most < 0 {
				err = fmt.Errorf("--max is %d: want 0 (no limit) or more", most)
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				t, err := c.Topic(ctx, a[0])
				if err != nil {
					return err
				}
				if o.From, err = parseFrom(from, o.Partitions, t.Partitions()); err != nil {
					return err
				}
				return cli.UnlessInterrupted(ctx, m.consume(ctx, t, &o, most, show))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "start", "start, end, an offset, a time or a duration: `where` to begin")
	f.Int32SliceVar(&o.Partitions, "partition", nil, "only these `partitions`, separated by commas")
	f.BoolVar(&o.Follow, "follow", false, "then wait for more, until interrupted")
	f.Int64Var(&most, "max", 0, "end after this `number` of records (default never)")
	f.StringVar(&format, "format", "", "`template` of a line (default the value)")
	return cmd
}

// parseFrom reads what --from says. An offset is one of every partition that is
// asked for: all of a topic that has that many if none is.
func parseFrom(s string, partitions []int32, all int32) (topic.From, error) {
	switch s {
	case "start":
		return topic.FromStart(), nil
	case "end":
		return topic.FromEnd(), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		offsets := make(map[int32]int64)
		for _, p := range partitions {
			offsets[p] = n
		}
		for p := int32(0); p < all && len(partitions) == 0; p++ {
			offsets[p] = n
		}
		return topic.FromOffsets(offsets), nil
	}
	if at, err := cli.TimeOrAge("from", s); err == nil {
		return topic.FromTime(at), nil
	}
	return topic.From{}, fmt.Errorf("--from is %q: want start, end, an offset, a time such as 2026-01-31T08:00:00Z or a duration such as 2h", s)
}

func (m commands) consume(ctx context.Context, t *topic.Topic, o *topic.ConsumeOptions, most int64, show recordPrinter) error {
	n := int64(0)
	for r, err := range t.Consume(ctx, o) {
		if err == nil {
			err = show(t.Name(), &r)
		}
		if err == nil && o.Follow {
			err = m.Flush()
		}
		if err != nil {
			return err
		}
		if n++; n == most {
			return nil
		}
	}
	return nil
}

// recordPrinter shows a record of the topic called name.
type recordPrinter func(name string, r *topic.Record) error

// recordPrinter returns how records are shown.
func (m commands) recordPrinter(format string) (recordPrinter, error) {
	switch {
	case m.Flags.JSON && format != "":
		return nil, errors.New("--json and --format exclude each other")
	case m.Flags.JSON:
		return func(name string, r *topic.Record) error { return m.Object(recordFields(name, r)) }, nil
	case format == "":
		return func(_ string, r *topic.Record) error { return m.Line(string(r.Value)) }, nil
	}
	tmpl, err := template.New("").Parse(format)
	if err != nil {
		return nil, fmt.Errorf("--format: %s", strings.TrimPrefix(err.Error(), "template: :"))
	}
	return func(name string, r *topic.Record) error {
		if err := tmpl.Execute(m.Out, recordView(name, r)); err != nil {
			return fmt.Errorf("--format: %s", strings.TrimPrefix(err.Error(), "template: :"))
		}
		return m.Line()
	}, nil
}

// shownRecord is what --format works on.
type shownRecord struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      string
	Key       string
	Value     string
	Headers   map[string]string // the last of each name
}

func recordView(name string, r *topic.Record) shownRecord {
	v := shownRecord{
		Topic: name, Partition: r.Partition, Offset: r.Offset, Time: cli.TimeText(r.Time),
		Key: string(r.Key), Value: string(r.Value), Headers: make(map[string]string),
	}
	for _, h := range r.Headers {
		v.Headers[h.Key] = string(h.Value)
	}
	return v
}

func recordFields(name string, r *topic.Record) *cli.Fields {
	f := new(cli.Fields).Add("topic", name).Add("partition", r.Partition).Add("offset", r.Offset).Time("time", r.Time).
		Bytes("key", r.Key)
	if len(r.Headers) > 0 {
		list := make([][]byte, len(r.Headers))
		for i, h := range r.Headers {
			list[i] = new(cli.Fields).Text("name", h.Key).Bytes("value", h.Value).Object()
		}
		f.Raw("headers", fmt.Appendf(nil, "[%s]", bytes.Join(list, []byte{','})))
	}
	return f.Bytes("value", r.Value)
}
