package eventtopic

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
)

// The headers of a record, in this order. All values are text. A header without a value is left
// out, but for those of HeaderMetadata.
const (
	HeaderType        = "event-type"
	HeaderID          = "event-id"       // as a UUID
	HeaderVersion     = "event-version"  // in its stream, in decimal
	HeaderPosition    = "event-position" // in the log, in decimal: the offset of the record
	HeaderContentType = "event-content-type"
	// HeaderSchemaVersion is the schema version of the data, in decimal, of an event that has
	// one in its metadata; events of version 1 have none, see [event.SchemaName].
	HeaderSchemaVersion = "event-schema-version"
	HeaderCorrelationID = "event-correlation-id"
	HeaderCausationID   = "event-causation-id"
	HeaderUserID        = "event-user-id"
	HeaderTenantID      = "event-tenant-id"
	HeaderTags          = "event-tags" // a JSON array of strings
	// HeaderMetadata is the beginning of the headers of custom metadata, which come last, in
	// the order of their names. They are there even if their values are empty.
	HeaderMetadata = "metadata."
)

// headers builds the headers of one record after the other, in the same memory.
type headers struct {
	list  []feedtopic.Header // the result of the last call of of
	names []string           // scratch: names of custom metadata
}

// of returns the headers of ev, which are valid until the next call.
func (h *headers) of(ev *event.Recorded) []feedtopic.Header {
	h.list = h.list[:0]
	h.add(HeaderType, ev.Type)
	if !ev.ID.IsZero() {
		h.add(HeaderID, ev.ID.String())
	}
	h.add(HeaderVersion, strconv.FormatUint(uint64(ev.Version), 10))
	h.add(HeaderPosition, strconv.FormatUint(uint64(ev.Position), 10))
	h.add(HeaderContentType, ev.ContentType)
	m := &ev.Metadata
	h.add(HeaderSchemaVersion, m.Custom[event.SchemaName])
	h.add(HeaderCorrelationID, m.CorrelationID)
	h.add(HeaderCausationID, m.CausationID)
	h.add(HeaderUserID, m.UserID)
	h.add(HeaderTenantID, m.TenantID)
	if len(ev.Tags) > 0 {
		tags, _ := json.Marshal(ev.Tags) // of strings: no error
		h.add(HeaderTags, string(tags))
	}
	if len(m.Custom) > 0 {
		h.names = slices.AppendSeq(h.names[:0], maps.Keys(m.Custom))
		slices.Sort(h.names)
		for _, name := range h.names {
			if name == event.SchemaName {
				continue
			}
			h.list = append(h.list, feedtopic.Header{Name: HeaderMetadata + name, Value: m.Custom[name]})
		}
	}
	return h.list
}

func (h *headers) add(name, value string) {
	if value != "" {
		h.list = append(h.list, feedtopic.Header{Name: name, Value: value})
	}
}
