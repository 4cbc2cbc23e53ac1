package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// defaultStore is the event store of commands that name none.
const defaultStore = "events"

func (m *Main) event() *cobra.Command {
	var store string
	c := &cobra.Command{
		Use:   "event",
		Short: "Event streams",
		Long: `Event streams with expected versions, a feed of all streams, and imports.

A STREAM is named CATEGORY-ID, as in order-42. Streams live in a store, "events"
unless --store says otherwise. Appending creates both; reading never does.`,
		RunE: group,
	}
	c.PersistentFlags().StringVar(&store, "store", defaultStore, "`name` of the event store")
	c.AddCommand(m.eventAppend(&store), m.eventLoad(&store), m.eventFeed(&store), m.eventStreams(&store), m.eventInfo(&store), m.eventImport(&store))
	return c
}

// withStore opens the event store called name in the log of the command line.
func (m *Main) withStore(cmd *cobra.Command, a access, name string, do func(context.Context, mainstem.Log, *event.Store) error) error {
	return m.withLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
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
func (m *Main) printEvent(store string, e *event.Recorded) error {
	if !m.flags.json {
		return m.line(number(e.Position), printable([]byte(e.Stream)), number(e.Version), printable([]byte(e.Type)), printable(e.Data))
	}
	f := new(fields).add("store", store).add("stream", e.Stream).add("version", e.Version).add("position", e.Position).
		time("time", e.Time).add("type", e.Type)
	if !e.ID.IsZero() {
		f.add("id", e.ID.String())
	}
	opt(f, "content_type", e.ContentType)
	opt(f, "correlation_id", e.Metadata.CorrelationID)
	opt(f, "causation_id", e.Metadata.CausationID)
	opt(f, "user_id", e.Metadata.UserID)
	opt(f, "tenant_id", e.Metadata.TenantID)
	if len(e.Metadata.Custom) > 0 {
		f.add("metadata", e.Metadata.Custom)
	}
	return m.object(f.bytes("data", e.Data))
}
