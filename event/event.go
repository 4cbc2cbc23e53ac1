package event

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Limits of one event, besides those of the log (see [mainstem.Limits]).
const (
	MaxType   = 512 // bytes in the type, and in the content type
	MaxCustom = 200 // entries in Metadata.Custom
)

// Event is something that happened, as it is given to [Store.AppendTo].
type Event struct {
	// ID identifies the event. Appending gives an event without one a new one.
	// Choose it yourself, with [NewID], to make a retry safe; see [Store.Append].
	ID ID
	// Type names what happened: "OrderPlaced". 1 to [MaxType] bytes of UTF-8. Types
	// that begin with $ are reserved.
	Type string
	// Data is the payload. It is stored byte for byte; nil and empty stay distinct.
	Data []byte
	// ContentType says what Data holds, for example "application/json". Optional.
	ContentType string
	// Tags name what the event is about, usually as "key:value": "course:c1". At most
	// [MaxTags] different ones of 1 to [MaxTag] bytes, UTF-8 without control characters.
	// Queries find events by them, see [Store.Query].
	Tags []string
	// Metadata says who and why.
	Metadata Metadata
}

// Metadata says where an event comes from. Empty fields take no space.
type Metadata struct {
	CorrelationID string // the conversation that the event belongs to
	CausationID   string // the message that caused the event
	UserID        string
	TenantID      string
	// Custom holds at most [MaxCustom] further entries with names of 1 to
	// [mainstem.MaxHeaderName] bytes. Names that begin with $ are reserved for
	// Mainstem and its toolkits, for example $schema_version: they are carried like
	// all others, except those that the store uses itself, which are refused. An
	// empty map comes back as nil.
	Custom map[string]string
}

// TypeDeleted is the Type with which a feed reports that a stream was deleted,
// if it is asked to; see [Filter].
const TypeDeleted = "$deleted"

// Recorded is an event as it was stored.
type Recorded struct {
	Event
	Stream   string
	Version  mainstem.Version  // place in its stream, from 1
	Position mainstem.Position // place in the order of the whole log
	Time     time.Time         // when it was committed; never decreases with Position
}

// Clone returns a copy that shares no memory with r.
func (r Recorded) Clone() Recorded {
	r.Stream, r.Type, r.ContentType = strings.Clone(r.Stream), strings.Clone(r.Type), strings.Clone(r.ContentType)
	r.Data = bytes.Clone(r.Data)
	r.Tags = slices.Clone(r.Tags)
	for i, tag := range r.Tags {
		r.Tags[i] = strings.Clone(tag)
	}
	m := &r.Metadata
	m.CorrelationID, m.CausationID = strings.Clone(m.CorrelationID), strings.Clone(m.CausationID)
	m.UserID, m.TenantID = strings.Clone(m.UserID), strings.Clone(m.TenantID)
	if m.Custom != nil {
		custom := make(map[string]string, len(m.Custom))
		for k, v := range m.Custom {
			custom[strings.Clone(k)] = strings.Clone(v)
		}
		m.Custom = custom
	}
	return r
}

// JSON returns an event of type typ whose data is v as JSON and whose content
// type says so. The error is that of json.Marshal, of kind Invalid.
func JSON(typ string, v any) (Event, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return Event{}, mainstem.Refusef(mainstem.KindInvalid, "encode event", "type %s: %w", typ, err)
	}
	return Event{Type: typ, Data: data, ContentType: "application/json"}, nil
}
