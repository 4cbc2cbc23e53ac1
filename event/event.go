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

// Event is an event to be appended by [Store.Append] or [Store.AppendTo].
type Event struct {
	// ID identifies the event. An event without an ID gets a new one when it is appended. Set it,
	// with [NewID], to make a retry safe; see [Store.Append].
	ID ID
	// Type names the kind of event: "OrderPlaced". It has 1 to [MaxType] bytes of UTF-8. Types that
	// begin with $ are reserved.
	Type string
	// Data is the payload. It is stored byte for byte; nil and empty stay distinct.
	Data []byte
	// ContentType is the media type of Data, for example "application/json". Optional.
	ContentType string
	// Tags name the things that the event is about, usually as "key:value": "course:c1". An event
	// has at most [MaxTags] different tags of 1 to [MaxTag] bytes, UTF-8 without control
	// characters. Queries find events by them; see [Store.Query].
	Tags []string
	// Metadata describes the origin of the event.
	Metadata Metadata
}

// Metadata describes the origin of an event. Empty fields take no space.
type Metadata struct {
	CorrelationID string // the conversation that the event belongs to
	CausationID   string // the message that caused the event
	UserID        string
	TenantID      string
	// Custom holds at most [MaxCustom] further entries with names of 1 to [mainstem.MaxHeaderName]
	// bytes. Names that begin with $ are reserved for Mainstem and its toolkits, for example
	// $schema_version: they are stored like all others, except that the names used by the store
	// itself are refused. An empty map is read back as nil.
	Custom map[string]string
}

// TypeDeleted is the Type of the event with which a feed reports that a stream was deleted, if
// [Filter.Deletions] is set.
const TypeDeleted = "$deleted"

// Recorded is a stored event.
type Recorded struct {
	Event
	Stream   string
	Version  mainstem.Version  // number in its stream, from 1
	Position mainstem.Position // place in the order of the whole log
	Time     time.Time         // commit time; never decreases with Position
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

// JSON returns an event of type typ with the JSON of v as its data and the content type of JSON. An
// error of json.Marshal is returned as Invalid.
func JSON(typ string, v any) (Event, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return Event{}, mainstem.Refusef(mainstem.KindInvalid, "encode event", "type %s: %w", typ, err)
	}
	return Event{Type: typ, Data: data, ContentType: "application/json"}, nil
}
