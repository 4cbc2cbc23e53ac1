package sagacmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/saga"
)

func (m commands) newShow(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one saga with its history",
		Long: `Show where a saga stands, its state and its compensations, and then its history: a line
for each step, with its number, the time, what it was, the status after it, and what it
was about. With --json the first line is the saga and each other one a step. A saga that
is not there is not found (exit status 3).`,
		Example: `  mainstem saga show fulfilment-42 --store shop
  mainstem saga show fulfilment-42 --store shop --json`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withRecords(cmd, *store, func(ctx context.Context, r *saga.Records) error {
				i, err := r.Get(ctx, a[0])
				if err != nil {
					return err
				}
				if err := m.printWhole(*store, &i); err != nil {
					return err
				}
				for e, err := range r.History(ctx, a[0]) {
					if err != nil {
						return err
					}
					if err := m.printStep(i.ID, &e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// compensation is one of a saga in the output.
type compensation struct {
	Type  string          `json:"type"`
	Data  json.RawMessage `json:"data"`
	Done  bool            `json:"done"`
	Error string          `json:"error,omitempty"`
}

// printWhole writes all that is known of where a saga stands.
func (m commands) printWhole(store string, i *saga.Instance) error {
	if m.Flags.JSON {
		f := fields(store, i).Bytes("state", i.State)
		if len(i.Timeouts) > 0 {
			f.Add("timeouts", i.Timeouts)
		}
		var all []compensation
		for _, c := range i.Compensations {
			all = append(all, compensation{c.Type, dataJSON(c.Data), c.Done, c.Error})
		}
		if all != nil {
			f.Add("compensations", all)
		}
		return m.Object(f)
	}
	lines := [][2]string{
		{"saga", cli.Printable(i.ID)},
		{"status", string(i.Status)},
		{"error", i.Error},
		{"refused", i.Refused},
		{"created", cli.TimeText(i.Created)},
		{"updated", cli.TimeText(i.Updated)},
		{"state", cli.Printable([]byte(i.State))},
	}
	for _, name := range cli.SortedNames(i.Timeouts) {
		lines = append(lines, [2]string{"timeout", cli.Printable(name) + " at " + cli.TimeText(i.Timeouts[name])})
	}
	for _, c := range i.Compensations {
		what := c.Type + " " + cli.Printable(c.Data)
		switch {
		case c.Done:
			what += ", done"
		case c.Error != "":
			what += ", refused: " + cli.Printable(c.Error)
		}
		lines = append(lines, [2]string{"compensation", what})
	}
	if i.Ignored > 0 {
		lines = append(lines, [2]string{"ignored events", cli.Number(i.Ignored)})
	}
	return m.Table(lines)
}

// dataJSON returns data as it is if it is JSON, else as a string.
func dataJSON(data []byte) json.RawMessage {
	if json.Valid(data) {
		return data
	}
	quoted, err := json.Marshal(string(data))
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}

// printStep writes an entry of the history.
func (m commands) printStep(id string, e *saga.Entry) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Text("saga", id).Add("version", e.Version).Time("time", e.Time).Add("step", e.Step).Add("status", e.Status)
		if e.Event != nil {
			f.Add("event_type", e.EventType).Text("stream", e.Event.Stream).Add("event_version", e.Event.Version)
		}
		cli.Opt(f, "timeout", e.Timeout)
		cli.Opt(f, "command", e.Command)
		cli.Opt(f, "command_type", e.CommandType)
		cli.Opt(f, "error", e.Error)
		if len(e.Sent) > 0 {
			f.Add("sent", e.Sent)
		}
		return m.Object(f)
	}
	return m.Line(cli.Number(e.Version), cli.TimeText(e.Time), string(e.Step), string(e.Status), cli.Printable(about(e)))
}

// about says in words what a step was about.
func about(e *saga.Entry) string {
	var parts []string
	if e.Event != nil {
		parts = append(parts, fmt.Sprintf("%s, version %d of %s", e.EventType, e.Event.Version, e.Event.Stream))
	}
	if e.Timeout != "" {
		parts = append(parts, "timeout "+e.Timeout)
	}
	if e.Command != "" {
		parts = append(parts, strings.TrimSpace(e.CommandType+" "+e.Command))
	}
	if e.Error != "" {
		parts = append(parts, e.Error)
	}
	for _, s := range e.Sent {
		parts = append(parts, "sent "+s.Type+" "+s.ID)
	}
	return strings.Join(parts, "; ")
}
