package viewhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// expectedText is an expectation as Expected-Version says it.
func expectedText(e event.Expected) string {
	switch e {
	case event.AnyVersion:
		return "any"
	case event.NoStream:
		return "none"
	case event.StreamExists:
		return "exists"
	}
	return strconv.FormatInt(int64(e), 10)
}

// parseExpected reads an expectation.
func parseExpected(text string) (event.Expected, error) {
	switch text {
	case "", "any":
		return event.AnyVersion, nil
	case "none":
		return event.NoStream, nil
	case "exists":
		return event.StreamExists, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("the expected version is %.40q: want any, none, exists or a version", text)
	}
	return event.Expected(n), nil
}

// store returns the event store of the path.
func (c *call) store() (*event.Store, error) { return event.Open(c.h.log, c.path["store"], nil) }

// storeAndStream returns the store and the stream of the path.
func (c *call) storeAndStream() (*event.Store, string, error) {
	s, err := c.store()
	if err == nil {
		err = event.ValidateStream(c.path["stream"])
	}
	return s, c.path["stream"], err
}

// eventMetadata is where an event comes from, in JSON.
type eventMetadata struct {
	CorrelationID string            `json:"correlationId,omitempty"`
	CausationID   string            `json:"causationId,omitempty"`
	UserID        string            `json:"userId,omitempty"`
	TenantID      string            `json:"tenantId,omitempty"`
	Custom        map[string]string `json:"custom,omitempty"`
}

// newEvent is an event to append, in JSON. Its payload is exactly one of data, a JSON document;
// text; and data64, any bytes.
type newEvent struct {
	ID          event.ID        `json:"id,omitzero"`
	Type        string          `json:"type"`
	Data        json.RawMessage `json:"data,omitempty"`
	Text        *string         `json:"text,omitempty"`
	Data64      *[]byte         `json:"data64,omitempty"`
	ContentType string          `json:"contentType,omitempty"`
	Tags        []string        `json:"tags,omitempty"`
	Metadata    eventMetadata   `json:"metadata,omitzero"`
}

// recordedEvent is an event of a stream, in JSON.
type recordedEvent struct {
	newEvent
	Stream   string    `json:"stream"`
	Version  uint64    `json:"version"`
	Position position  `json:"position"`
	Time     time.Time `json:"time"`
}

// event returns what is to be appended. An event without payload has no data.
func (e *newEvent) event() (event.Event, error) {
	out := event.Event{ID: e.ID, Type: e.Type, ContentType: e.ContentType, Tags: e.Tags, Metadata: event.Metadata(e.Metadata)}
	n := 0
	if e.Data != nil {
		n, out.Data = n+1, e.Data
		if out.ContentType == "" {
			out.ContentType = mediaJSON
		}
	}
	if e.Text != nil {
		n, out.Data = n+1, []byte(*e.Text)
	}
	if e.Data64 != nil {
		n, out.Data = n+1, *e.Data64
	}
	if n > 1 {
		return out, invalid("an event of type %.60q has %d of data, text and data64: want one", e.Type, n)
	}
	return out, nil
}

// eventsOf returns what is to be appended.
func eventsOf(all []newEvent) ([]event.Event, error) {
	out := make([]event.Event, len(all))
	for i := range all {
		var err error
		if out[i], err = all[i].event(); err != nil {
			return nil, invalid("event %d: %w", i, err)
		}
	}
	return out, nil
}

// recordedOf shows an event. The payload is data if its content type says JSON, or says nothing
// and it is JSON.
func recordedOf(r *event.Recorded) recordedEvent {
	out := recordedEvent{
		newEvent: newEvent{ID: r.ID, Type: r.Type, ContentType: r.ContentType, Tags: r.Tags, Metadata: eventMetadata(r.Metadata)},
		Stream:   r.Stream, Version: uint64(r.Version), Position: position(r.Position), Time: r.Time.UTC(),
	}
	if r.Data == nil {
		return out
	}
	as := asText
	if r.ContentType == "" || isJSON(r.ContentType) {
		as = asJSON
	}
	v := valueOf(r.Data, as)
	out.Data, out.Text, out.Data64 = v.JSON, v.Text, v.Base64
	return out
}

// isJSON reports whether a media type is JSON: application/json, application/vnd.x+json.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == mediaJSON || strings.HasSuffix(media, "+json")
}

// sizeOfEvent is how many bytes an event has, about.
func sizeOfEvent(r *event.Recorded) int {
	n := len(r.Stream) + len(r.Type) + len(r.Data) + 256
	for k, v := range r.Metadata.Custom {
		n += len(k) + len(v)
	}
	return n
}

// appended is the answer to an append.
type appended struct {
	First         uint64   `json:"first"`
	Last          uint64   `json:"last"`
	FirstPosition position `json:"firstPosition"`
	LastPosition  position `json:"lastPosition"`
	Duplicate     bool     `json:"duplicate"`
}

func appendedOf(a event.Appended) appended {
	return appended{uint64(a.First), uint64(a.Last), position(a.FirstPosition), position(a.LastPosition), a.Duplicate}
}

// postStream appends, or does what ?op= says.
func postStream(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	if c.query.Has("op") {
		return c.changeStream(s, stream)
	}
	if c.query.Has("before") {
		return invalid("the parameter before is for op=truncate")
	}
	expected, err := parseExpected(c.r.Header.Get(headerExpected))
	if err != nil {
		return err
	}
	list, who, err := readList[newEvent](c, c.h.o.Limits.MaxBatchWrites-1)
	if err != nil {
		return err
	}
	events, err := eventsOf(list)
	if err != nil {
		return err
	}
	a, err := c.append(s, stream, expected, events, who)
	if err != nil {
		return err
	}
	c.setNumber(headerPosition, uint64(a.LastPosition))
	if a.Duplicate {
		c.w.Header().Set(headerDuplicate, "true")
	}
	return c.answer(http.StatusCreated, appendedOf(a))
}

// append appends at once: idempotent by the IDs of the events, or by an idempotency key.
func (c *call) append(s *event.Store, stream string, expected event.Expected, events []event.Event, who identity) (event.Appended, error) {
	if who.id == "" {
		return s.Append(c.ctx, stream, expected, events)
	}
	if err := s.Refresh(c.ctx); err != nil {
		return event.Appended{}, err
	}
	b := mainstem.NewBatch()
	s.AppendTo(b, stream, expected, events)
	done := eventsPart(b, 0, s.Space())
	memo, err := json.Marshal(done)
	if err != nil {
		return event.Appended{}, mainstem.Refusef(mainstem.KindInternal, "http", "encode a plan: %w", err)
	}
	r, memo, err := c.commit(b, who, memo)
	if err != nil {
		return event.Appended{}, s.Explain(c.ctx, err)
	}
	if r.Duplicate {
		done = part{Events: []int{0, len(events)}} // of requests that left no plan, which were made without an index
		if memo != nil {
			if err := json.Unmarshal(memo, &done); err != nil {
				return event.Appended{}, mainstem.Errorf(mainstem.KindCorrupt, "http", "a remembered plan: %w", err)
			}
		}
	}
	return done.appended(r), nil
}

// changeStream does what ?op= says.
func (c *call) changeStream(s *event.Store, stream string) error {
	who, err := c.identify(nil)
	if err != nil {
		return err
	}
	before, err := c.number("before")
	if err != nil {
		return err
	}
	if err := s.Refresh(c.ctx); err != nil {
		return err
	}
	b := mainstem.NewBatch()
	switch op := c.query.Get("op"); {
	case op == "truncate":
		s.TruncateTo(b, stream, mainstem.Version(before))
	case c.query.Has("before"):
		return invalid("the parameter before is for op=truncate")
	case op == "archive":
		s.ArchiveTo(b, stream)
	case op == "unarchive":
		if err := s.UnarchiveTo(c.ctx, b, stream); err != nil {
			b.Fail(err) // also if the stream is unarchived because the same request was made before
		}
	default:
		return invalid("the parameter op is %.40q: want archive, unarchive or truncate", op)
	}
	return c.commitStream(s, b, who)
}

// commitStream commits a change of a stream that has no result.
func (c *call) commitStream(s *event.Store, b *mainstem.Batch, who identity) error {
	if _, _, err := c.commit(b, who, nil); err != nil {
		return s.Explain(c.ctx, err)
	}
	return c.empty(http.StatusNoContent)
}

func deleteStream(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	var tombstone, forget bool
	if err := c.flags(map[string]*bool{"tombstone": &tombstone, "forget": &forget}); err != nil {
		return err
	}
	expected, err := parseExpected(c.r.Header.Get(headerExpected))
	if err != nil {
		return err
	}
	who, err := c.identify(nil)
	if err != nil {
		return err
	}
	if err := s.Refresh(c.ctx); err != nil {
		return err
	}
	b := mainstem.NewBatch()
	switch {
	case tombstone && forget:
		return invalid("both tombstone and forget are there: want one")
	case tombstone:
		s.TombstoneTo(b, stream, expected)
	case forget:
		if c.r.Header.Get(headerExpected) != "" {
			return invalid("forget takes no %s", headerExpected)
		}
		s.ForgetTo(b, stream)
	default:
		s.DeleteTo(b, stream, expected)
	}
	return c.commitStream(s, b, who)
}

// loadQuery reads which events of a stream are asked for.
func (c *call) loadQuery() (o event.LoadOptions, err error) {
	var from, to, upTo uint64
	for name, into := range map[string]*uint64{"from": &from, "to": &to, "upTo": &upTo} {
		if *into, err = c.number(name); err != nil {
			return o, err
		}
	}
	if o.Backward, err = c.flag("backward"); err != nil {
		return o, err
	}
	o.From, o.To, o.UpTo = mainstem.Version(from), mainstem.Version(to), mainstem.Position(upTo)
	o.Until, err = c.moment("until")
	return o, err
}

func getStream(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	o, err := c.loadQuery()
	if err != nil {
		return err
	}
	switch {
	case c.accepts(mediaEvents):
		return followStream(c, s, stream, o)
	case c.accepts(mediaLines):
		return streamLines(c, s, stream, o)
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	info, err := s.StreamInfo(c.ctx, stream)
	if err != nil {
		return err
	}
	c.setNumber(headerVersion, uint64(info.Version))
	if info.Deleted {
		e := mainstem.Errorf(mainstem.KindNotFound, "load", "the stream was deleted")
		return e.At(s.Space(), []byte(stream))
	}
	p := page{c: c, limit: limit}
	o.Limit = limit + 1
	var next map[string]any
	for r, err := range s.Events(c.ctx, stream, &o) {
		if err != nil {
			return err
		}
		more, err := p.add(recordedOf(&r), sizeOfEvent(&r))
		if err != nil {
			return err
		}
		if !more {
			next = map[string]any{"next": uint64(r.Version)}
			break
		}
	}
	return p.send("events", next)
}

// streamLines answers with all events, a line for each.
func streamLines(c *call, s *event.Store, stream string, o event.LoadOptions) error {
	limit, err := c.number("limit")
	if err != nil {
		return err
	}
	left := int(limit)
	return c.stream(mediaLines, func(ctx context.Context, send func(frame) error) error {
		o.Limit = left
		for r, err := range s.Events(ctx, stream, &o) {
			if err != nil {
				return err
			}
			if err := send(frame{data: recordedOf(&r), size: sizeOfEvent(&r)}); err != nil {
				return err
			}
			if o.Backward && r.Version == 1 {
				return nil
			}
			if o.From = r.Version + 1; o.Backward {
				o.From, o.To = 0, r.Version-1
			}
			if left--; left == 0 {
				return nil
			}
		}
		return nil
	})
}

// followStream follows one stream: the events from ?from= or after Last-Event-ID, and those that
// will come.
func followStream(c *call, s *event.Store, stream string, o event.LoadOptions) error {
	for _, name := range []string{"to", "upTo", "until", "backward", "limit"} {
		if c.query.Has(name) {
			return invalid("a follower of a stream does not take the parameter %s", name)
		}
	}
	after, given, err := c.lastEvent()
	if err == nil && given {
		o.From, err = c.versionAfter(s, stream, after)
	}
	if err != nil {
		return err
	}
	o.Follow = true
	return c.stream(mediaEvents, func(ctx context.Context, send func(frame) error) error {
		for r, err := range s.Events(ctx, stream, &o) {
			if err != nil {
				return err
			}
			if err := send(frame{id: idOf(r.Position), event: "event", data: recordedOf(&r), size: sizeOfEvent(&r)}); err != nil {
				return err
			}
			o.From = r.Version + 1
		}
		return nil
	})
}

// versionAfter returns the version from which a follower of a stream goes on after a position,
// or 410 if events after it may have been truncated. It looks at a few records of the stream:
// versions and positions grow together.
func (c *call) versionAfter(s *event.Store, stream string, after mainstem.Position) (mainstem.Version, error) {
	if err := c.resumable(s.Space(), after); err != nil {
		return 0, err
	}
	info, err := s.StreamInfo(c.ctx, stream)
	if errors.Is(err, mainstem.ErrNotFound) || err == nil && info.Deleted {
		return info.Version + 1, nil
	}
	if err != nil {
		return 0, err
	}
	low, high := info.First, info.Version+1 // Invariant: what is before low is at or before after; what is from high on is not
	for low < high {
		at, middle := mainstem.Position(0), low+(high-low)/2
		for r, err := range s.Events(c.ctx, stream, &event.LoadOptions{From: middle, Limit: 1}) {
			if err != nil {
				return 0, err
			}
			at, middle = r.Position, r.Version
		}
		switch {
		case at > after:
			high = low + (high-low)/2
		default:
			low = max(middle, low+(high-low)/2) + 1
		}
	}
	if low == info.First && low > 1 {
		return 0, gone(after, "the oldest event of the stream is version %d", info.First)
	}
	return low, nil
}

// streamSettings are the settings of a stream in JSON.
type streamSettings struct {
	MaxCount uint64            `json:"maxCount,omitempty"`
	MaxAge   string            `json:"maxAge,omitempty"`
	Custom   map[string]string `json:"custom,omitempty"`
}

func getSettings(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	v, err := s.Settings(c.ctx, stream)
	if err != nil {
		return err
	}
	out := streamSettings{MaxCount: v.MaxCount, Custom: v.Custom}
	if v.MaxAge > 0 {
		out.MaxAge = v.MaxAge.String()
	}
	return c.answer(http.StatusOK, out)
}

func putSettings(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	var q streamSettings
	body, err := c.readJSON(&q)
	if err != nil {
		return err
	}
	v := event.Settings{MaxCount: q.MaxCount, Custom: q.Custom}
	if q.MaxAge != "" {
		if v.MaxAge, err = time.ParseDuration(q.MaxAge); err != nil {
			return invalid("maxAge is %.40q: want a duration such as 720h", q.MaxAge)
		}
	}
	who, err := c.identify(body)
	if err != nil {
		return err
	}
	b := mainstem.NewBatch()
	s.SetSettingsTo(b, stream, v)
	return c.commitStream(s, b, who)
}

// Headers of a snapshot.
const headerType = "Mainstem-Type"

func getSnapshot(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	upTo, err := c.number("upTo")
	if err != nil {
		return err
	}
	snap, err := s.Snapshot(c.ctx, stream, mainstem.Version(upTo))
	if err != nil {
		return err
	}
	if err := c.reserve(int64(len(snap.Data))); err != nil {
		return err
	}
	h := c.w.Header()
	c.setNumber(headerVersion, uint64(snap.Version))
	if snap.Type != "" && isFieldValue(snap.Type) && utf8.ValidString(snap.Type) {
		h.Set(headerType, snap.Type)
	}
	h.Set("Content-Type", mediaBytes)
	c.w.WriteHeader(http.StatusOK)
	return c.write(snap.Data)
}

func putSnapshot(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(c.r.Header.Get(headerVersion), 10, 63)
	if err != nil || version == 0 {
		return invalid("%s is %.40q: want the version of the last event that the state contains", headerVersion, c.r.Header.Get(headerVersion))
	}
	body, err := c.body(int64(c.h.o.Limits.MaxValue), 1)
	if err != nil {
		return err
	}
	who, err := c.identify(body)
	if err != nil {
		return err
	}
	b := mainstem.NewBatch()
	s.SaveSnapshotTo(b, event.Snapshot{Stream: stream, Version: mainstem.Version(version), Type: c.r.Header.Get(headerType), Data: body})
	return c.commitStream(s, b, who)
}

func deleteSnapshots(c *call) error {
	s, stream, err := c.storeAndStream()
	if err != nil {
		return err
	}
	if err := s.DeleteSnapshots(c.ctx, stream); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
