package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// An event is one record of the space event/<store>:
//
//	key      the name of the stream
//	value    Data
//	headers  in this order, those that are not empty:
//	  $id       the 16 bytes of the ID; always
//	  $type     Type; always
//	  $content  ContentType
//	  $corr     Metadata.CorrelationID
//	  $cause    Metadata.CausationID
//	  $user     Metadata.UserID
//	  $tenant   Metadata.TenantID
//	  $tags     Tags, with a line feed between two of them
//	  <name>    each entry of Metadata.Custom, ordered by name
//
// Version, position and time are those of the record. The names are persisted:
// do not change them.
const (
	headerID      = "$id"
	headerType    = "$type"
	headerContent = "$content"
	headerCorr    = "$corr"
	headerCause   = "$cause"
	headerUser    = "$user"
	headerTenant  = "$tenant"
	headerTags    = "$tags"
)

// own reports whether name is a header that the store itself uses.
func own(name string) bool {
	if name == "" || name[0] != '$' {
		return false
	}
	switch name {
	case headerID, headerType, headerContent, headerCorr, headerCause, headerUser, headerTenant, headerTags:
		return true
	}
	return false
}

// check returns an Invalid error for an event that cannot be stored.
func (e *Event) check(op string, i, maxBytes int) error {
	switch {
	case e.Type == "":
		return mainstem.Refusef(mainstem.KindInvalid, op, "event %d has no type", i)
	case e.Type[0] == '$':
		return mainstem.Refusef(mainstem.KindInvalid, op, "event %d: type %.60q begins with $, which is reserved", i, e.Type)
	case len(e.Type) > MaxType || len(e.ContentType) > MaxType:
		return mainstem.Refusef(mainstem.KindInvalid, op, "event %d: type and content type have %d and %d bytes: the limit is %d", i, len(e.Type), len(e.ContentType), MaxType)
	case !plain(e.Type) || !plain(e.ContentType):
		return mainstem.Refusef(mainstem.KindInvalid, op, "event %d: type %.60q or content type %.60q is not UTF-8 without control characters", i, e.Type, e.ContentType)
	case maxBytes > 0 && len(e.Data) > maxBytes:
		return mainstem.Refusef(mainstem.KindInvalid, op, "event %d of type %s has %d bytes: the limit is %d: %w", i, e.Type, len(e.Data), maxBytes, ErrTooLarge)
	case len(e.Metadata.Custom) > MaxCustom:
		return mainstem.Refusef(mainstem.KindInvalid, op, "event %d has %d custom metadata entries: the limit is %d", i, len(e.Metadata.Custom), MaxCustom)
	}
	if err := checkTags(e.Tags); err != nil {
		return mainstem.Refusef(mainstem.KindInvalid, op, "event %d: %w", i, err)
	}
	for name := range e.Metadata.Custom {
		switch {
		case name == "" || len(name) > mainstem.MaxHeaderName:
			return mainstem.Refusef(mainstem.KindInvalid, op, "event %d: the custom metadata name %.60q has %d bytes: want 1 to %d", i, name, len(name), mainstem.MaxHeaderName)
		case own(name):
			return mainstem.Refusef(mainstem.KindInvalid, op, "event %d: the custom metadata name %q belongs to the store", i, name)
		case !plain(name):
			return mainstem.Refusef(mainstem.KindInvalid, op, "event %d: the custom metadata name %.60q is not UTF-8 without control characters", i, name)
		}
	}
	return nil
}

// encoder turns events into record headers. All headers of the events that reserve was called for
// are in two blocks of memory.
type encoder struct {
	headers []mainstem.Header
	bytes   []byte
	names   []string // scratch: sorted custom names
}

// size returns the number of headers and bytes of the headers of e.
func (e *Event) size() (headers, bytes int) {
	m := &e.Metadata
	headers, bytes = 2, len(e.ID)+len(e.Type)
	for _, s := range [...]string{e.ContentType, m.CorrelationID, m.CausationID, m.UserID, m.TenantID} {
		if s != "" {
			headers, bytes = headers+1, bytes+len(s)
		}
	}
	if len(e.Tags) > 0 {
		headers, bytes = headers+1, bytes+tagBytes(e.Tags)
	}
	for _, v := range m.Custom {
		headers, bytes = headers+1, bytes+len(v)
	}
	return headers, bytes
}

// reserve empties the encoder and allocates memory for events and extra bytes, so that slices that
// are returned afterwards never move.
func (e *encoder) reserve(events []Event, extra int) {
	headers, bytes := 0, extra
	for i := range events {
		h, n := events[i].size()
		headers, bytes = headers+h, bytes+n
	}
	if cap(e.headers) < headers {
		e.headers = make([]mainstem.Header, 0, headers)
	}
	if cap(e.bytes) < bytes {
		e.bytes = make([]byte, 0, bytes)
	}
	e.headers, e.bytes = e.headers[:0], e.bytes[:0]
}

// keep copies s and returns the copy, nil for an empty one.
func (e *encoder) keep(s string) []byte {
	n := len(e.bytes)
	e.bytes = append(e.bytes, s...)
	return e.bytes[n:len(e.bytes):len(e.bytes)]
}

func (e *encoder) add(name, value string) {
	if value != "" {
		e.headers = append(e.headers, mainstem.Header{Name: name, Value: e.keep(value)})
	}
}

// event returns the headers of ev with the given ID.
func (e *encoder) event(ev *Event, id ID) mainstem.Headers {
	n := len(e.headers)
	b := len(e.bytes)
	e.bytes = append(e.bytes, id[:]...)
	e.headers = append(e.headers, mainstem.Header{Name: headerID, Value: e.bytes[b:len(e.bytes):len(e.bytes)]})
	m := &ev.Metadata
	e.add(headerType, ev.Type)
	e.add(headerContent, ev.ContentType)
	e.add(headerCorr, m.CorrelationID)
	e.add(headerCause, m.CausationID)
	e.add(headerUser, m.UserID)
	e.add(headerTenant, m.TenantID)
	e.tags(ev.Tags)
	if len(m.Custom) > 0 {
		e.custom(m.Custom)
	}
	return e.headers[n:len(e.headers):len(e.headers)]
}

// custom adds entries, including empty values, ordered by name, so that equal events have equal
// bytes.
func (e *encoder) custom(entries map[string]string) {
	e.names = e.names[:0]
	for name := range entries {
		e.names = append(e.names, name)
	}
	slices.Sort(e.names)
	for _, name := range e.names {
		e.headers = append(e.headers, mainstem.Header{Name: name, Value: e.keep(entries[name])})
	}
	clear(e.names)
}

// fields are the parts of an event in the headers of a record. They lend the record's bytes.
type fields struct {
	id                          ID
	typ, content                []byte
	corr, cause, user, tenant   []byte
	tags                        []byte
	custom                      int // number of headers with custom metadata
	hasMetadata, hasIdentifiers bool
}

// parse reads headers. It fails only on an ID that is not 16 bytes and on tags over their limits. A
// record without an ID was not written by this package, and is an event without ID and type.
func (f *fields) parse(headers mainstem.Headers) error {
	*f = fields{}
	for i := range headers {
		name, value := headers[i].Name, headers[i].Value
		if !strings.HasPrefix(name, "$") {
			f.custom++
			continue
		}
		switch name {
		case headerID:
			if len(value) != len(f.id) {
				return fmt.Errorf("header %s has %d bytes: want %d", headerID, len(value), len(f.id))
			}
			f.id = ID(value)
		case headerType:
			f.typ = value
		case headerContent:
			f.content = value
		case headerCorr:
			f.corr, f.hasIdentifiers = value, true
		case headerCause:
			f.cause, f.hasIdentifiers = value, true
		case headerUser:
			f.user, f.hasIdentifiers = value, true
		case headerTenant:
			f.tenant, f.hasIdentifiers = value, true
		case headerTags:
			if err := checkTagHeader(value); err != nil {
				return err
			}
			f.tags = value
		default:
			f.custom++
		}
	}
	f.hasMetadata = f.hasIdentifiers || f.custom > 0
	return nil
}
