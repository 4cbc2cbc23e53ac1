package viewhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// kvEntry is one revision of a key in JSON.
type kvEntry struct {
	name
	value
	Revision uint64            `json:"revision"`
	Position position          `json:"position"`
	Modified *time.Time        `json:"modified,omitempty"`
	Expires  *time.Time        `json:"expires,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// entryOf shows an entry; without its value if it has none, or if keys says so.
func entryOf(e *kv.Entry[[]byte], as form, keys bool) kvEntry {
	out := kvEntry{name: nameOf(e.Key), Revision: uint64(e.Revision), Position: position(e.Position), Modified: timeOf(e.Modified), Expires: timeOf(e.Expires), Metadata: e.Metadata}
	if e.Live() && !keys {
		out.value = valueOf(e.Value, as)
	}
	return out
}

// timeOf returns a time for JSON, nil for none.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// sizeOf is how many bytes an entry has, about.
func sizeOf(e *kv.Entry[[]byte]) int {
	n := len(e.Key) + len(e.Value)
	for k, v := range e.Metadata {
		n += len(k) + len(v)
	}
	return n
}

// as reads how values are to be shown.
func (c *call) as() (form, error) {
	switch f := form(c.query.Get("as")); f {
	case "":
		return asText, nil
	case asText, asJSON, asBase64:
		return f, nil
	default:
		return "", invalid("the parameter as is %.40q: want text, json or base64", string(f))
	}
}

// kvQuery reads which entries a list has.
func (c *call) kvQuery() (q kv.Query, as form, err error) {
	for name, into := range map[string]*string{"prefix": &q.Prefix, "suffix": &q.Suffix, "start": &q.Start, "end": &q.End, "after": &q.After} {
		if *into, _, err = c.bytesParameter(name); err != nil {
			return q, "", err
		}
	}
	if err = c.flags(map[string]*bool{"reverse": &q.Reverse, "keys": &q.KeysOnly}); err != nil {
		return q, "", err
	}
	as, err = c.as()
	return q, as, err
}

func getTable(c *call) error {
	t, err := c.table()
	if err != nil {
		return err
	}
	if c.accepts(mediaEvents) {
		return watchTable(c, t)
	}
	for _, name := range []string{"updates", "history"} {
		if c.query.Has(name) {
			return invalid("the parameter %s is for watches: ask for %s", name, mediaEvents)
		}
	}
	if c.query.Has("index") {
		return listByIndex(c)
	}
	q, as, err := c.kvQuery()
	if err != nil {
		return err
	}
	list, err := c.lister(t)
	if err != nil {
		return err
	}
	if c.accepts(mediaLines) {
		return listLines(c, list, q, as)
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	p := page{c: c, limit: limit}
	q.Limit = limit + 1
	var next map[string]any
	last := ""
	for e, err := range list(c.ctx, &q) {
		if err != nil {
			return forgotten(err)
		}
		more, err := p.add(entryOf(&e, as, q.KeysOnly), sizeOf(&e))
		if err != nil {
			return err
		}
		if !more {
			next = cursorOf(last)
			break
		}
		last = e.Key
	}
	return p.send("entries", next)
}

// cursorOf says after which key a list goes on.
func cursorOf(key string) map[string]any {
	if n := nameOf(key); n.Key64 != nil {
		return map[string]any{"next64": n.Key64}
	}
	return map[string]any{"next": key}
}

// listLines answers with all entries, a line for each. The entries are those of one moment,
// unless the server has to wait for memory for a large one.
func listLines(c *call, list lister, q kv.Query, as form) error {
	limit, err := c.number("limit")
	if err != nil {
		return err
	}
	left := int(limit)
	return c.stream(mediaLines, func(ctx context.Context, send func(frame) error) error {
		q.Limit = left
		for e, err := range list(ctx, &q) {
			if err != nil {
				return forgotten(err)
			}
			if err := send(frame{data: entryOf(&e, as, q.KeysOnly), size: sizeOf(&e)}); err != nil {
				return err
			}
			q.After = e.Key
			if left--; left == 0 {
				return nil
			}
		}
		return nil
	})
}

// opNames are the types of the events of a watch.
var opNames = map[kv.Op]string{
	kv.OpCreate: "put", kv.OpUpdate: "put", kv.OpDelete: "delete", kv.OpPurge: "purge", kv.OpExpire: "expire", kv.OpSynced: "synced",
}

// watchQuery reads what a watch yields.
func (c *call) watchQuery() (o kv.WatchOptions, as form, err error) {
	q, as, err := c.kvQuery()
	if err != nil {
		return o, "", err
	}
	for _, name := range []string{"suffix", "suffix64", "start", "start64", "end", "end64", "after", "after64", "reverse", "limit", "at", "index", "value"} {
		if c.query.Has(name) {
			return o, "", invalid("a watch does not take the parameter %s", name)
		}
	}
	o.Prefix, o.MetaOnly = q.Prefix, q.KeysOnly
	if err := c.flags(map[string]*bool{"updates": &o.UpdatesOnly, "history": &o.History}); err != nil {
		return o, "", err
	}
	o.After, _, err = c.lastEvent()
	return o, as, err
}

// watchTable follows a table: the current values, an event "synced", then every change. Those
// before "synced" have no id, because a watch cannot go on between them.
func watchTable(c *call, t *bytesTable) error {
	o, as, err := c.watchQuery()
	if err != nil {
		return err
	}
	if err := c.resumable(t.Space(), o.After); err != nil {
		return err
	}
	ordered := o.History || o.After > 0 // every position is one to go on from
	return c.streamFrom(mediaEvents, !ordered, func(ctx context.Context, send func(frame) error) error {
		for e, err := range t.Watch(ctx, &o) {
			if err != nil {
				return err
			}
			f := frame{event: opNames[e.Op], data: entryOf(&e, as, o.MetaOnly), size: sizeOf(&e)}
			if e.Op == kv.OpSynced {
				ordered = true
				f.data = map[string]position{"position": position(e.Position)}
			}
			if ordered {
				f.id = idOf(e.Position)
			}
			if err := send(f); err != nil {
				return err
			}
			if ordered {
				o.After = e.Position
			}
		}
		return nil
	})
}

// kvPair is one write of a table in JSON.
type kvPair struct {
	name
	value
	kvOptions
}

// kvOptions are the conditions and options of a write in JSON.
type kvOptions struct {
	TTL        string            `json:"ttl,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	IfRevision *uint64           `json:"ifRevision,omitempty"`
	IfAbsent   bool              `json:"ifAbsent,omitempty"`
	IfExists   bool              `json:"ifExists,omitempty"`
}

// condition returns the condition of a write, false if it has none.
func (o *kvOptions) condition() (cond kv.Condition, some bool, err error) {
	n := 0
	if o.IfRevision != nil {
		n, cond = n+1, kv.IfRevision(mainstem.Version(*o.IfRevision))
	}
	if o.IfAbsent {
		n, cond = n+1, kv.IfAbsent()
	}
	if o.IfExists {
		n, cond = n+1, kv.IfExists()
	}
	if n > 1 {
		return cond, false, invalid("a write has %d of ifRevision, ifAbsent and ifExists: want one", n)
	}
	return cond, n == 1, nil
}

// put returns the options of a write of a value.
func (o *kvOptions) put() ([]kv.PutOption, error) {
	var out []kv.PutOption
	if o.TTL != "" {
		d, err := parseTTL(o.TTL)
		if err != nil {
			return nil, invalid("ttl is %.40q: want a duration such as 30m, 0 for none", o.TTL)
		}
		out = append(out, kv.TTL(d))
	}
	if len(o.Metadata) > 0 {
		out = append(out, kv.Metadata(o.Metadata))
	}
	cond, some, err := o.condition()
	if some {
		out = append(out, cond)
	}
	return out, err
}

// putTo adds the write to b.
func (p *kvPair) putTo(b *mainstem.Batch, t *bytesTable) error {
	key, err := p.text()
	if err != nil {
		return err
	}
	data, err := p.bytes("a value")
	if err != nil {
		return err
	}
	opts, err := p.put()
	if err != nil {
		return err
	}
	t.PutTo(b, key, data, opts...)
	return nil
}

// writtenMany is the answer to a write of many keys.
type writtenMany struct {
	Revisions []uint64 `json:"revisions"`
	Position  position `json:"position"`
	Duplicate bool     `json:"duplicate"`
}

func postTable(c *call) error {
	t, err := c.table()
	if err != nil {
		return err
	}
	pairs, who, err := readList[kvPair](c, c.h.o.Limits.MaxBatchWrites-1)
	if err != nil {
		return err
	}
	b := mainstem.NewBatch()
	for i := range pairs {
		if err := pairs[i].putTo(b, t); err != nil {
			return invalid("element %d: %w", i, err)
		}
	}
	if len(pairs) == 0 {
		return invalid("the array is empty: want at least one key with its value")
	}
	r, _, err := c.commit(b, who, nil)
	if err != nil {
		return err
	}
	out := writtenMany{Position: position(r.Last), Duplicate: r.Duplicate}
	for i := range pairs {
		out.Revisions = append(out.Revisions, uint64(r.Versions[i]))
	}
	return c.answer(http.StatusOK, out)
}

func dropTable(c *call) error {
	if err := kv.DropTable(c.ctx, c.h.log, c.path["db"], c.path["table"]); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func dropDatabase(c *call) error {
	if err := kv.DropDatabase(c.ctx, c.h.log, c.path["db"]); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func getDatabases(c *call) error {
	names, err := kv.Databases(c.ctx, c.h.log)
	if err != nil {
		return err
	}
	if names == nil {
		names = []string{}
	}
	return c.answer(http.StatusOK, map[string][]string{"databases": names})
}

// tableInfo is a table in JSON.
type tableInfo struct {
	Name     string    `json:"name"`
	Codec    string    `json:"codec,omitempty"`
	Keys     int64     `json:"keys"`
	Bytes    counter   `json:"bytes"`
	Position position  `json:"position"`
	Created  time.Time `json:"created"`
	History  int       `json:"history"`
}

func getDatabase(c *call) error {
	all := []tableInfo{}
	for t, err := range kv.Tables(c.ctx, c.h.log, c.path["db"]) {
		if err != nil {
			return err
		}
		all = append(all, tableInfo{t.Name, t.Codec, t.Space.Keys, counter(t.Space.Bytes), position(t.Space.Last), t.Space.Created.UTC(), t.Space.Policy.History})
	}
	if len(all) == 0 {
		return refuse(http.StatusNotFound, mainstem.KindNotFound, "the database %.60q has no tables", c.path["db"])
	}
	return c.answer(http.StatusOK, map[string][]tableInfo{"tables": all})
}
