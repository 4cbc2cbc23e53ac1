// Package eventcmd is the commands of mainstem event, which work on event stores.
//
//	mainstem event append order-42 --type OrderPlaced '{"total":17}'
//	mainstem event feed --follow --json
package eventcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// defaultStore is the event store of commands that name none.
const defaultStore = "events"

// New returns mainstem event.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	var store string
	c := &cobra.Command{
		Use:   "event",
		Short: "Event streams",
		Long: `Event streams with expected versions, a feed of all streams, and imports.

A STREAM is named CATEGORY-ID, as in order-42. Streams live in a store, "events"
unless --store says otherwise. Appending creates both; reading never does.`,
		RunE: cli.Group,
	}
	c.PersistentFlags().StringVar(&store, "store", defaultStore, "`name` of the event store")
	c.AddCommand(m.newAppend(&store), m.newLoad(&store), m.newFeed(&store), m.newQuery(&store), m.newIndex(&store), m.newStreams(&store), m.newInfo(&store), m.newImport(&store), m.newExport(&store),
		m.newDelete(&store), m.newTombstone(&store), m.newTruncate(&store), m.newArchive(&store), m.newUnarchive(&store), m.newForget(&store),
		m.newSettings(&store), m.newScavenge(&store), m.newSubscription(&store))
	return c
}

// withStore opens the event store called name in the log of the command line.
func (m commands) withStore(cmd *cobra.Command, a cli.Access, name string, do func(context.Context, mainstem.Log, *event.Store) error) error {
	return m.WithLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
		s, err := event.Open(log, name, nil)
		if err != nil {
			return err
		}
		return do(ctx, log, s)
	})
}

// parseExpected reads what --expect says.
func parseExpected(s string) (event.Expected, error) {
	switch s {
	case "any":
		return event.AnyVersion, nil
	case "none":
		return event.NoStream, nil
	case "exists":
		return event.StreamExists, nil
	}
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("--expect is %q: want any, none, exists or a version", s)
	}
	return event.AtVersion(mainstem.Version(v)), nil
}

// idSpace is the namespace of the UUIDs that stand for IDs which are none.
var idSpace = uuid.UUID{0x4f, 0x7c, 0x1e, 0x1a, 0x6a, 0x53, 0x5d, 0x1b, 0x9c, 0x0e, 0x2f, 0x6d, 0x1b, 0x7a, 0x90, 0xc4}

// eventID returns the event ID for text: the UUID that it is, or else the
// name-based UUID (version 5) of it. So any text that identifies an event, such as
// the hash of a commit, makes appending it again safe.
func eventID(text string) event.ID {
	if id, err := event.ParseID(text); err == nil {
		return id
	}
	return event.ID(uuid.Named(idSpace, []byte(text)))
}

// contentType says what data is, if it is JSON.
func contentType(data []byte) string {
	if json.Valid(data) {
		return "application/json"
	}
	return ""
}

// printEvent writes one event, as columns or as an object.
func (m commands) printEvent(store string, e *event.Recorded) error {
	if !m.Flags.JSON {
		return m.Line(cli.Number(e.Position), cli.Printable(e.Stream), cli.Number(e.Version), cli.Printable(e.Type), cli.Printable(e.Data))
	}
	return m.Object(eventFields(store, e).Bytes("data", e.Data))
}

// eventFields are those of an event but its data.
func eventFields(store string, e *event.Recorded) *cli.Fields {
	f := new(cli.Fields).Add("store", store).Add("stream", e.Stream).Add("version", e.Version).Add("position", e.Position).
		Time("time", e.Time).Add("type", e.Type)
	if !e.ID.IsZero() {
		f.Add("id", e.ID.String())
	}
	cli.Opt(f, "content_type", e.ContentType)
	f.OptText("correlation_id", e.Metadata.CorrelationID).OptText("causation_id", e.Metadata.CausationID).
		OptText("user_id", e.Metadata.UserID).OptText("tenant_id", e.Metadata.TenantID)
	if len(e.Tags) > 0 {
		f.Add("tags", e.Tags)
	}
	return f.Texts("metadata", e.Metadata.Custom)
}
