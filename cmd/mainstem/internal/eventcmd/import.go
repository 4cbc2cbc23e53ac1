package eventcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/importer"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/event"
)

func (m commands) newImport(store *string) *cobra.Command {
	var o importer.Options
	var t eventTemplates
	cmd := &cobra.Command{
		Use:   "import FILE|- [--stream TEMPLATE --type TEMPLATE]",
		Short: "Append one event for each line of a file",
		Long: `Append one event for each line of a file. --stream and --type make the stream and
the type of a line's event, --data its data; without --data that is the whole line (a
CSV row as a JSON object).

--id makes importing the same lines again safe: a line whose ID is in its stream
already writes nothing. It makes a UUID, or any text, which stands for the
name-based UUID of it. IDs are compared with the events that the stream still holds.

--exported reads lines of mainstem event export instead: stream, type, ID, tags,
metadata and data are theirs, and importing them again is safe.
` + importer.Help,
		Example: `  mainstem event import --store commits --stream 'author-{{.author}}' --type commit commits.jsonl
  mainstem event import orders.csv --stream 'order-{{.id}}' --type '{{.status}}' --id '{{.id}}/{{.status}}'
  mainstem event import orders.jsonl --store orders --exported
  tail -f access.jsonl | mainstem event import - --stream 'user-{{.user}}' --type Visit`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			target, err := t.target(cmd, &o)
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			ro, err := o.Rows(a[0])
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withStore(cmd, cli.Writing, *store, func(ctx context.Context, log mainstem.Log, s *event.Store) error {
				target.log, target.store = log, s
				return importer.Run(ctx, m.Main, a[0], o, ro, target)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.stream, "stream", "", "`template` of the stream (required)")
	f.StringVar(&t.typ, "type", "", "`template` of the type (required)")
	f.StringVar(&t.id, "id", "", "`template` of the event's ID")
	f.StringVar(&t.data, "data", "", "`template` of the data (default the whole line)")
	f.BoolVar(&t.exported, "exported", false, "the lines are those of mainstem event export")
	o.Add(cmd)
	return cmd
}

// eventTemplates are the templates as they were given.
type eventTemplates struct {
	stream, typ, id, data string
	exported              bool // there are none: the lines are those of an export
}

// target returns what appends the lines of an import.
func (t *eventTemplates) target(cmd *cobra.Command, o *importer.Options) (*eventRows, error) {
	if !t.exported {
		return t.parse()
	}
	for _, flag := range []string{"stream", "type", "id", "data"} {
		if cmd.Flags().Changed(flag) {
			return nil, fmt.Errorf("--exported and --%s exclude each other", flag)
		}
	}
	return &eventRows{known: newKnownEvents(), exported: true}, o.OnlyJSON("--exported")
}

func (t *eventTemplates) parse() (*eventRows, error) {
	r := &eventRows{known: newKnownEvents()}
	var errs [4]error
	r.stream, errs[0] = importer.RequiredTemplate("--stream", t.stream)
	r.typ, errs[1] = importer.RequiredTemplate("--type", t.typ)
	r.id, errs[2] = importer.OptionalTemplate("--id", t.id)
	r.data, errs[3] = importer.OptionalTemplate("--data", t.data)
	return r, errors.Join(errs[:]...)
}

// eventRows appends rows to streams.
type eventRows struct {
	log   mainstem.Log
	store *event.Store

	stream, typ *rows.Template
	id, data    *rows.Template // nil: none, and the whole line
	known       *knownEvents
	doubt       *doubtful // the last batch whose outcome was unknown; nil: none

	exported bool // lines of an export, without templates
}

// eventRow is what is appended for one row.
type eventRow struct {
	stream string
	event  event.Event
}

func (t *eventRows) Prepare(row rows.Row) (eventRow, int, error) {
	if t.exported {
		return prepareExported(row)
	}
	stream, err := t.stream.Execute(row)
	if err == nil {
		err = event.ValidateStream(string(stream))
	}
	if err != nil {
		return eventRow{}, 0, err
	}
	typ, err := t.typ.Execute(row)
	if err != nil {
		return eventRow{}, 0, err
	}
	data, err := importer.WholeLineOr(t.data, row)
	if err != nil {
		return eventRow{}, 0, err
	}
	e := event.Event{Type: string(typ), Data: data, ContentType: contentType(data)}
	if t.id != nil {
		id, err := t.id.Execute(row)
		if err == nil && len(id) == 0 {
			err = errors.New("--id: the ID is empty")
		}
		if err != nil {
			return eventRow{}, 0, err
		}
		e.ID = eventID(string(id))
	}
	return eventRow{string(stream), e}, len(stream) + len(data), nil
}

// prepareExported returns the event of a line of an export.
func prepareExported(row rows.Row) (eventRow, int, error) {
	var x exported
	if err := json.Unmarshal(row.Text, &x); err != nil {
		return eventRow{}, 0, fmt.Errorf("not a line of mainstem event export: %w", err)
	}
	if x.Type == event.TypeDeleted {
		return eventRow{}, 0, errors.New("it is the deletion of a stream, and no event")
	}
	e, err := x.event()
	if err == nil {
		err = event.ValidateStream(x.Stream)
	}
	return eventRow{x.Stream, e}, len(x.Stream) + len(e.Data), err
}

func (t *eventRows) Commit(ctx context.Context, id string, items []eventRow) (int, error) {
	if t.id != nil || t.exported {
		return t.commitNew(ctx, id, items)
	}
	for try := 1; ; try++ {
		b := mainstem.NewBatch()
		b.ID = id
		for i := range items {
			t.store.AppendTo(b, items[i].stream, event.AnyVersion, []event.Event{items[i].event})
		}
		_, err := t.log.Commit(ctx, b)
		if err == nil {
			return len(items), nil
		}
		if err = t.store.Explain(ctx, err); try == conflictRetries || !isStale(err) {
			return 0, err
		}
	}
}

// isStale reports whether a batch was made without knowing the index of the store. The handle
// knows it now.
func isStale(err error) bool {
	var stale *event.StaleIndexError
	return errors.As(err, &stale)
}
