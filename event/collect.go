package event

import (
	"time"

	"github.com/mainstemdev/mainstem"
)

// collector gathers lent records and turns them into events that own their memory. However many
// events there are, it allocates only one block for the events, one for all their data, one for all
// their metadata strings, and a map for each event with custom metadata. Collectors are pooled.
type collector struct {
	dec     decoder
	entries []entry
	names   []string // streams, types and content types; adjacent entries share them
	data    []byte   // the data of all entries
	text    []byte   // the metadata strings and tags of all entries
	customs []custom
	last    struct{ stream, typ, content int32 } // in names, of the newest entry
	zone    *time.Location
}

// entry is an event whose bytes are in the collector's blocks. It contains no pointers, so that the
// garbage collector does not scan the entries.
type entry struct {
	id                   ID
	version              mainstem.Version
	position             mainstem.Position
	time                 int64 // unix ns
	stream, typ, content int32 // in names
	data                 int   // bytes of data, -1 for nil
	hasMetadata          bool
	lengths              [4]uint32 // lengths of the four identifiers in text
	customs              int32
	tags                 uint32 // bytes of $tags in text
}

// custom is one entry of custom metadata: a name, and the length of a value in text.
type custom struct {
	name  string
	value uint32
}

var typeDeleted = []byte(TypeDeleted)

// Limits of the block of a collector: when it holds this many, it is turned into events.
const (
	blockEntries = 1024
	blockBytes   = 256 << 10
)

// add gathers rec, an event of the stream in its key.
func (c *collector) add(rec *mainstem.Record) error {
	f := &c.dec.f
	if !rec.Live() {
		*f = fields{typ: typeDeleted}
	} else if err := f.parse(rec.Headers); err != nil {
		return mainstem.Errorf(mainstem.KindCorrupt, "decode", "version %d: %w", rec.Version, err).At(rec.Space, rec.Key)
	}
	if len(c.entries) == 0 {
		c.names = append(c.names[:0], "")
		c.last.stream, c.last.typ, c.last.content = 0, 0, 0
		c.zone = rec.Time.Location()
	}
	c.entries = append(c.entries, entry{
		id: f.id, version: rec.Version, position: rec.Position, time: rec.Time.UnixNano(),
		stream: c.name(&c.last.stream, rec.Key), typ: c.name(&c.last.typ, f.typ), content: c.name(&c.last.content, f.content),
		data: len(rec.Value),
	})
	e := &c.entries[len(c.entries)-1]
	if rec.Value == nil || !rec.Live() {
		e.data = -1
	} else {
		c.data = append(c.data, rec.Value...)
	}
	if f.hasMetadata {
		c.metadata(e, rec.Headers)
	}
	e.tags = uint32(len(f.tags))
	c.text = append(c.text, f.tags...)
	return nil
}

// name returns the index of b in names. It adds b unless it equals the last name of its kind.
func (c *collector) name(last *int32, b []byte) int32 {
	if c.names[*last] != string(b) {
		*last = int32(len(c.names))
		c.names = append(c.names, c.dec.intern(b))
	}
	return *last
}

func (c *collector) metadata(e *entry, headers mainstem.Headers) {
	f := &c.dec.f
	e.hasMetadata = true
	for i, b := range [...][]byte{f.corr, f.cause, f.user, f.tenant} {
		e.lengths[i] = uint32(len(b))
		c.text = append(c.text, b...)
	}
	if f.custom == 0 {
		return
	}
	e.customs = int32(f.custom)
	for i := range headers {
		if h := &headers[i]; !own(h.Name) {
			c.customs = append(c.customs, custom{c.dec.internName(h.Name), uint32(len(h.Value))})
			c.text = append(c.text, h.Value...)
		}
	}
}

// full reports whether flush should be called.
func (c *collector) full() bool { return len(c.entries) >= blockEntries || c.size() >= blockBytes }

// size returns the number of bytes gathered since the last flush.
func (c *collector) size() int { return len(c.data) + len(c.text) }

// flush appends the gathered events to dst and empties the collector.
func (c *collector) flush(dst []Recorded) []Recorded {
	n := len(c.entries)
	if n == 0 {
		return dst
	}
	dst, out := extend(dst, n)
	rest := block{data: append([]byte{}, c.data...), text: string(c.text), customs: c.customs}
	for i := range c.entries {
		e, r := &c.entries[i], &out[i]
		r.ID, r.Version, r.Position, r.Time = e.id, e.version, e.position, time.Unix(0, e.time).In(c.zone)
		r.Stream, r.Type, r.ContentType = c.names[e.stream], c.names[e.typ], c.names[e.content]
		if e.data >= 0 {
			r.Data = rest.bytes(e.data)
		}
		if e.hasMetadata {
			rest.metadata(e, &r.Metadata)
		}
		if e.tags > 0 {
			r.Tags = splitTags(rest.string(e.tags))
		}
	}
	c.reset()
	return dst
}

// extend returns dst with n more events, and these alone. All of their fields are zero, whatever was
// in the memory of dst.
func extend(dst []Recorded, n int) (all, added []Recorded) {
	switch {
	case cap(dst)-len(dst) >= n:
		all = dst[:len(dst)+n]
		clear(all[len(dst):])
	case len(dst) == 0:
		all = make([]Recorded, n)
	default:
		all = append(dst, make([]Recorded, n)...)
	}
	return all, all[len(dst):]
}

// block is the unused rest of the memory for the events of one flush.
type block struct {
	data    []byte
	text    string
	customs []custom
}

func (b *block) bytes(n int) (out []byte) {
	out, b.data = b.data[:n:n], b.data[n:]
	return out
}

func (b *block) string(n uint32) (out string) {
	out, b.text = b.text[:n], b.text[n:]
	return out
}

func (b *block) metadata(e *entry, m *Metadata) {
	m.CorrelationID = b.string(e.lengths[0])
	m.CausationID = b.string(e.lengths[1])
	m.UserID = b.string(e.lengths[2])
	m.TenantID = b.string(e.lengths[3])
	if e.customs == 0 {
		return
	}
	m.Custom = make(map[string]string, e.customs)
	for _, cu := range b.customs[:e.customs] {
		m.Custom[cu.name] = b.string(cu.value)
	}
	b.customs = b.customs[e.customs:]
}

// reset discards the gathered records, and the blocks that are too large to keep.
func (c *collector) reset() {
	clear(c.names) // so that the strings can be freed
	clear(c.customs)
	c.entries, c.names, c.customs = c.entries[:0], c.names[:0], c.customs[:0]
	c.data, c.text = c.data[:0], c.text[:0]
	if cap(c.data) > 4*blockBytes {
		c.data = nil
	}
	if cap(c.text) > 4*blockBytes {
		c.text = nil
	}
}

// collector returns an empty collector; return it with s.release.
func (s *Store) collector() *collector { return s.collectors.Get().(*collector) }

func (s *Store) release(c *collector) {
	c.reset()
	s.collectors.Put(c)
}
