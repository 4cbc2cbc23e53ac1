package event

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

// The index of a store is the space event.tag/<store>. It has a record for each event in
// each key that finds it, written in the batch of the event, right before it:
//
//	t:TAG             each tag
//	y:TYPE            the type
//	ty:TYPE 0x00 TAG  each tag of a declared [Pair]
//	*                 every event, if [IndexOptions.All] is set
//
// The position of the event is not known while the batch is built, but the distance to it
// is: the event's position is that of the record plus the distance. So the records of a key
// are in the order of their events, and a key was written after position p exactly if an
// event with that key stands after p: what [Store.FailIf] tests.
//
// The events from before the index was built have their records in keys of their own, "o"
// and the key, with absolute positions. All events in them come before all in the other.
//
//	value:  0x01  uvarint(distance)  stream    written with the event
//	        0x02  uvarint(position)  stream    written by a build
//
// A record without a stream is that of an event that is gone; see [Store.SweepIndex].
//
// Four more keys belong to the index as a whole:
//
//	index     the control record: JSON; it names the inline projections of the store too
//	anchor    written when a build begins; its position is in the control record
//	build     how far a build is: JSON
//	rewrite   written by a rewrite of an event while a build goes on
//	g:HASH    events of the stream that is the value were removed since the last sweep;
//	          the SHA-256 of its name
//
// Invariant: every append has the conditions that the control record is the one that its
// handle knows, by version and position, or that there is none. So no event is written without its records by a handle
// that does not know of the index: its commit fails with a [*StaleIndexError], the handle
// reads the control record, and the next batch has them. The same condition keeps out those that
// do not know the inline projections of the store: with an [*InlineError].
const (
	tagsPrefix = "event.tag/" // tag or type: the events that have it

	tagKey      = "t:"
	typeKey     = "y:"
	pairKey     = "ty:"
	builtPrefix = "o"
	gonePrefix  = "g:"

	entryDistance = 1
	entryPosition = 2
)

var (
	controlKey = inlineset.Control
	anchorKey  = []byte("anchor")
	buildKey   = []byte("build")
	rewriteKey = []byte("rewrite")
	allKey     = "*"
)

var tagsPolicy = inlineset.ControlPolicy

// IndexOptions say which keys the index of a store has. Nil and zero fields mean the defaults. They
// are stored with the index and apply to all programs that use it.
type IndexOptions struct {
	// MaxTags is the largest number of tags of one event that the store accepts, since each tag is
	// a write. Default [DefaultIndexTags]; at most [MaxTags].
	MaxTags int `json:"max_tags"`
	// All adds a key that every event has. Without it, [Store.FailIf] refuses a query with an empty
	// item. All appends conflict with a condition on such a query.
	All bool `json:"all,omitempty"`
	// Pairs adds keys for events of a type with a tag, so that a condition on both does not
	// conflict with other events. At most [MaxPairs].
	Pairs []Pair `json:"pairs,omitempty"`
}

// Pair declares keys of an index: one for each tag that begins with Prefix, of events of Type.
type Pair struct {
	Type   string `json:"type"`
	Prefix string `json:"prefix,omitempty"` // for example "course:"; empty: every tag
}

// Limits of an index.
const (
	DefaultIndexTags = 8
	MaxPairs         = 64
)

func (o *IndexOptions) withDefaults() (IndexOptions, error) {
	var out IndexOptions
	if o != nil {
		out = *o
	}
	if out.MaxTags == 0 {
		out.MaxTags = DefaultIndexTags
	}
	var wrong []error
	if out.MaxTags < 0 || out.MaxTags > MaxTags {
		wrong = append(wrong, fmt.Errorf("MaxTags is %d: want 0 (default %d) to %d", out.MaxTags, DefaultIndexTags, MaxTags))
	}
	if len(out.Pairs) > MaxPairs {
		wrong = append(wrong, fmt.Errorf("%d pairs: the limit is %d", len(out.Pairs), MaxPairs))
	}
	for _, p := range out.Pairs {
		if p.Type == "" || len(p.Type) > MaxType || len(p.Prefix) > MaxTag {
			wrong = append(wrong, fmt.Errorf("pair of type %.60q and prefix %.60q: want a type of 1 to %d bytes, and a prefix of at most %d", p.Type, p.Prefix, MaxType, MaxTag))
		}
	}
	if len(wrong) == 0 {
		return out, nil
	}
	return out, mainstem.Refusef(mainstem.KindInvalid, "index", "options: %w", errors.Join(wrong...))
}

// equal reports whether both define the same index.
func (o *IndexOptions) equal(p *IndexOptions) bool {
	a, _ := json.Marshal(o)
	b, _ := json.Marshal(p)
	return bytes.Equal(a, b)
}

// The states of an index. A control record without a state is that of a store without an index.
const (
	stateBuilding = "building"
	stateReady    = "ready"
)

// control is the value of the control record.
type control struct {
	Format int               `json:"format"` // inlineset.Plain or Named
	State  string            `json:"state"`
	Retag  bool              `json:"retag,omitempty"` // the build also changes tags
	Since  mainstem.Position `json:"since"`           // ready: events up to here are in the built keys
	Anchor mainstem.Position `json:"anchor"`          // ready: position of the anchor
	IndexOptions
	Inline []inlineset.Entry `json:"inline,omitempty"`
}

// encode returns the control record with the inline projections of the store.
func (c control) encode(inline []inlineset.Entry) ([]byte, error) {
	c.Format, c.Inline = inlineset.Plain, inline
	if len(inline) > 0 {
		c.Format = inlineset.Named
	}
	return json.Marshal(c)
}

// index is the control record of a store as read by a handle: its index and its inline projections.
// It does not change.
type index struct {
	version mainstem.Version  // of the control record; 0: there is none
	written mainstem.Position // of the control record
	at      mainstem.Position // position of the anchor of the last build: no event is between it and the control record of that build
	moved   bool              // its records were copied from another log: positions are wrong
	old     bool              // inline projections are stored in the old form
	control
}

// bare is the index of a store without a control record.
var bare = new(index)

// exists reports whether appends write records of the index.
func (x *index) exists() bool { return x != nil && x.State != "" }

// readable reports whether queries can use the index.
func (x *index) readable() bool { return x.exists() && x.State == stateReady && !x.moved }

// since returns the position up to which events are, or will be, in the built keys only.
func (x *index) since() mainstem.Position {
	if x.State == stateReady {
		return x.Since
	}
	return x.at
}

// Refresh reads the index and the inline projections of the store into the handle, so that batches
// that are built with it next are not refused with a [*StaleIndexError], unless these change again.
// Calls that commit by themselves need no Refresh.
func (s *Store) Refresh(ctx context.Context) error {
	_, err := s.readIndex(ctx)
	return err
}

// readIndex reads the control record and caches it in the handle.
func (s *Store) readIndex(ctx context.Context) (*index, error) {
	x := new(index)
	for rec, err := range s.log.GetMany(ctx, s.spaces.tags, [][]byte{controlKey, anchorKey}) {
		switch {
		case isNotFound(err):
		case err != nil:
			return nil, err
		case rec.Version == 0:
		case bytes.Equal(rec.Key, anchorKey):
			x.at = rec.Position
		default:
			x.version, x.written = rec.Version, rec.Position
			if x.control, err = decodeControl(&rec); err != nil {
				return nil, err
			}
		}
	}
	x.moved = x.State == stateReady && x.Anchor != x.at
	if err := s.readOld(ctx, x); err != nil {
		return nil, err
	}
	s.index.Store(x)
	return x, nil
}

// readOld reads whether inline projections are stored in the old form, unless it is known that they
// are not.
func (s *Store) readOld(ctx context.Context, x *index) error {
	if known := s.index.Load(); known != nil && !known.old {
		return nil
	}
	entries, version, err := inlineset.ReadOld(ctx, s.log, s.name)
	if x.old = version > 0; x.Inline == nil {
		x.Inline = entries
	}
	return err
}

// learn records that there is no control record after b was committed, since b, which was built
// without reading the record, has that condition. So the record need not be read.
func (s *Store) learn(b *mainstem.Batch, r mainstem.Receipt) {
	if s.index.Load() != nil || r.Duplicate {
		return
	}
	absent := func(space string, key []byte) bool {
		return slices.ContainsFunc(b.Conditions(), func(c mainstem.Condition) bool {
			return c.Test == mainstem.TestAbsent && c.Space == space && bytes.Equal(c.Key, key)
		})
	}
	if absent(s.spaces.tags, controlKey) && absent(s.spaces.inline, inlineset.Old) {
		s.index.CompareAndSwap(nil, bare)
	}
}

func decodeControl(rec *mainstem.Record) (control, error) {
	var c control
	err := json.Unmarshal(rec.Value, &c)
	if err == nil && c.Format > inlineset.Named {
		return control{}, mainstem.Errorf(mainstem.KindUnsupported, "index", "the control record has format %d: this version knows %d", c.Format, inlineset.Named).
			At(rec.Space, rec.Key).WithOutcome(mainstem.NotWritten)
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return control{}, mainstem.Errorf(mainstem.KindCorrupt, "decode", "control record: %w", err).At(rec.Space, rec.Key)
	}
	return c, nil
}

func (c *control) check() error {
	switch {
	case c.Format < inlineset.Plain, c.Format < inlineset.Named && c.State == "",
		c.State != "" && (c.State != stateBuilding && c.State != stateReady || c.MaxTags < 1 || c.MaxTags > MaxTags):
		return fmt.Errorf("format %d, state %.20q, %d tags", c.Format, c.State, c.MaxTags)
	}
	return inlineset.Check(c.Inline)
}

// expectIndex adds the condition that the control record is the one that the handle has read. It
// returns the index, nil if there is none, or if the handle has read none.
func (s *Store) expectIndex(b *mainstem.Batch) *index {
	x := s.index.Load()
	if x == nil {
		x = bare
	}
	s.expectControl(b, x)
	if !x.exists() {
		return nil
	}
	return x
}

// expectControl adds the conditions that the control record is that of x, unless b has them. After
// the store was dropped versions begin anew, and only the position distinguishes the record from a
// later one.
func (s *Store) expectControl(b *mainstem.Batch, x *index) {
	c := mainstem.Condition{Space: s.spaces.tags, Key: controlKey, Test: mainstem.TestVersion, Version: x.version}
	if x.version == 0 {
		c.Test = mainstem.TestAbsent
	}
	addOnce(b, c)
	if x.version > 0 {
		addOnce(b, mainstem.Condition{Space: s.spaces.tags, Key: controlKey, Test: mainstem.TestNotAfter, Position: x.written})
	}
}

// addOnce adds a condition unless b has it.
func addOnce(b *mainstem.Batch, c mainstem.Condition) {
	if !slices.ContainsFunc(b.Conditions(), func(o mainstem.Condition) bool {
		return o.Test == c.Test && o.Version == c.Version && o.Position == c.Position && o.Space == c.Space && bytes.Equal(o.Key, c.Key)
	}) {
		b.If(c)
	}
}

// StaleIndexError reports that the index of a store changed after the handle read it, or that the
// handle had not read it: it was created, built anew or dropped. It is a Conflict: nothing was
// written. The handle has read the index now, so a batch that is built again succeeds. Methods of
// [Store] that commit by themselves do so.
type StaleIndexError struct {
	Store string

	cause *mainstem.Error
}

// Error says what to do.
func (e *StaleIndexError) Error() string {
	return fmt.Sprintf("event store %s: conflict: the batch was made without knowing the index of the store as it is; make it again", e.Store)
}

// Unwrap returns the error of the log.
func (e *StaleIndexError) Unwrap() error { return e.cause }

func isStale(err error) bool {
	if err == nil {
		return false
	}
	var stale *StaleIndexError // on the heap: only if there is an error
	return errors.As(err, &stale)
}

// staleTries is how often a call builds its batch again because of a changed index. The index
// changes twice in a build.
const staleTries = 8

// checkIndexed returns an error for events that the index does not accept.
func (x *index) checkIndexed(op string, events []Event) error {
	if !x.exists() {
		return nil
	}
	for i := range events {
		if n := len(events[i].Tags); n > x.MaxTags {
			return mainstem.Refusef(mainstem.KindInvalid, op, "event %d has %d tags: the index of the store takes %d", i, n, x.MaxTags).
				WithHint("tag less, or build the index with a larger MaxTags")
		}
	}
	return nil
}

// keysOf calls do for each key of the index that finds ev, as prefix, type and tag.
func (x *index) keysOf(typ string, tags []string, do func(kind, a, b string)) {
	do(typeKey, typ, "")
	for _, tag := range tags {
		do(tagKey, tag, "")
		if x.paired(typ, tag) {
			do(pairKey, typ, tag)
		}
	}
	if x.All {
		do(allKey, "", "")
	}
}

// paired reports whether the index has a key for events of typ with tag.
func (x *index) paired(typ, tag string) bool {
	for i := range x.Pairs {
		if p := &x.Pairs[i]; p.Type == typ && strings.HasPrefix(tag, p.Prefix) {
			return true
		}
	}
	return false
}

// appendKey appends a key that [index.keysOf] gives.
func appendKey(dst []byte, kind, a, b string) []byte {
	dst = append(append(dst, kind...), a...)
	if kind == pairKey {
		dst = append(append(dst, 0), b...)
	}
	return dst
}

func indexKey(kind, a, b string) []byte { return appendKey(nil, kind, a, b) }

// appendEntry appends the value of a record of the index.
func appendEntry(dst []byte, kind byte, n uint64, stream []byte) []byte {
	return append(binary.AppendUvarint(append(dst, kind), n), stream...)
}

// entrySize bounds the bytes of a key and value that are neither type, tag nor stream.
const entrySize = 3 + 1 + 1 + 2

// indexed returns the number of records that the index gets for ev, and of their bytes.
func (x *index) indexed(ev *Event, stream int) (n, size int) {
	x.keysOf(ev.Type, ev.Tags, func(_, a, b string) {
		n++
		size += entrySize + len(a) + len(b) + stream
	})
	return n, size
}

// indexSize returns the bytes that the records of the index for events take.
func (x *index) indexSize(events []Event, stream int) int {
	size := 0
	for i := range events {
		_, n := x.indexed(&events[i], stream)
		size += n
	}
	return size
}

// addIndex adds to b the records of the index for ev, which must be the next write.
func (s *Store) addIndex(b *mainstem.Batch, enc *encoder, x *index, stream []byte, ev *Event) {
	distance, _ := x.indexed(ev, 0)
	x.keysOf(ev.Type, ev.Tags, func(kind, one, two string) {
		n := len(enc.bytes)
		enc.bytes = appendKey(enc.bytes, kind, one, two)
		v := len(enc.bytes)
		enc.bytes = appendEntry(enc.bytes, entryDistance, uint64(distance), stream)
		b.Put(s.spaces.tags, enc.bytes[n:v:v], enc.bytes[v:len(enc.bytes):len(enc.bytes)])
		distance--
	})
}

// decodeEntry returns the position of the event of a record of the index, and its stream. The
// stream is empty if the event is gone; its bytes are those of the record.
func decodeEntry(rec *mainstem.Record) (mainstem.Position, []byte, error) {
	if len(rec.Value) > 1 {
		v, n := binary.Uvarint(rec.Value[1:])
		stream := rec.Value[1+max(n, 0):]
		switch {
		case n <= 0 || len(stream) > MaxStream:
		case rec.Value[0] == entryDistance && v > 0 && v <= maxIndexKeys:
			return rec.Position + mainstem.Position(v), stream, nil
		case rec.Value[0] == entryPosition && v > 0 && mainstem.Position(v) < rec.Position:
			return mainstem.Position(v), stream, nil
		}
	}
	return 0, nil, mainstem.Errorf(mainstem.KindCorrupt, "decode", "version %d: %.40q is no entry of an index", rec.Version, rec.Value).At(rec.Space, rec.Key)
}

// maxIndexKeys is the most keys that one event has: type, all, tags, and as many pairs.
const maxIndexKeys = 2 + 2*MaxTags

// markGone records, if the store has an index, that events of the stream in key are removed.
func (s *Store) markGone(b *mainstem.Batch, key []byte) {
	if s.expectIndex(b) == nil {
		return
	}
	b.ExplainWith(s)
	b.Ensure(s.spaces.tags, tagsPolicy)
	hash := sha256.Sum256(key)
	b.Put(s.spaces.tags, append([]byte(gonePrefix), hash[:]...), key)
}

// markRewritten makes a running build read the event again: the build would otherwise undo the
// rewrite.
func (s *Store) markRewritten(b *mainstem.Batch) {
	x := s.expectIndex(b)
	b.ExplainWith(s)
	if x.exists() && x.State == stateBuilding {
		b.Ensure(s.spaces.tags, tagsPolicy)
		b.Put(s.spaces.tags, rewriteKey, nil)
	}
}
