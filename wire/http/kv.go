package viewhttp

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/kv"
)

// bytesTable is a table whose values are bytes as they are.
type bytesTable = kv.Bucket[[]byte]

// openTable returns the table called name, "database/table".
func (h *Handler) openTable(name string) (*bytesTable, error) {
	return kv.Open[[]byte](h.log, name, &kv.Options{Codec: codec.Raw})
}

// table returns the table of the path.
func (c *call) table() (*bytesTable, error) {
	return c.h.openTable(c.path["db"] + "/" + c.path["table"])
}

// key returns the key of the path, or of the query where the path is by-key.
func (c *call) key() (string, error) {
	if key, ok := c.path["key"]; ok {
		return key, nil
	}
	key, given, err := c.bytesParameter("key")
	if err == nil && !given {
		err = invalid("the key is missing: want ?key= or ?key64=")
	}
	return key, err
}

// tableAndKey returns the table and the key of the request.
func (c *call) tableAndKey() (*bytesTable, string, error) {
	t, err := c.table()
	if err != nil {
		return nil, "", err
	}
	key, err := c.key()
	return t, key, err
}

func getKey(c *call) error {
	t, key, err := c.tableAndKey()
	if err != nil {
		return err
	}
	e, err := c.readKey(t, key)
	if err != nil {
		return err
	}
	if !e.Live() {
		return c.keyMissing(key, e)
	}
	if err := c.reserve(int64(len(e.Value))); err != nil {
		return err
	}
	c.setEntry(e)
	known, _, err := c.revisions("If-None-Match")
	if err != nil {
		return err
	}
	for _, v := range known {
		if v == e.Revision {
			return c.empty(http.StatusNotModified)
		}
	}
	c.w.Header().Set("Content-Type", mediaBytes)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(e.Value)))
	c.w.WriteHeader(http.StatusOK)
	return c.write(e.Value)
}

// readKey returns the entry that a GET asks for. Where the key has no value it is a tombstone,
// or has revision 0.
func (c *call) readKey(t *bytesTable, key string) (kv.Entry[[]byte], error) {
	revision, err := c.number("revision")
	if err != nil {
		return kv.Entry[[]byte]{}, err
	}
	if c.query.Has("at") {
		at, err := c.point()
		if err == nil && c.query.Has("revision") {
			err = invalid("both parameters at and revision are there: want one")
		}
		if err != nil {
			return kv.Entry[[]byte]{}, err
		}
		return pastEntry(t.At(at).Get(c.ctx, key))
	}
	if c.query.Has("revision") {
		return t.GetRevision(c.ctx, key, mainstem.Version(revision))
	}
	e, err := t.Get(c.ctx, key)
	if !errors.Is(err, mainstem.ErrNotFound) {
		return e, err
	}
	for e, err := range t.History(c.ctx, key, mainstem.Versions{Reverse: true, Limit: 1}) {
		if e.Live() { // it came between, or has expired and its end is not written yet
			e.Op = kv.OpExpire
		}
		return e, err
	}
	return kv.Entry[[]byte]{}, nil
}

// keyMissing is the answer about a key without a value. The revision is that of its deletion.
func (c *call) keyMissing(key string, e kv.Entry[[]byte]) error {
	if e.Revision == 0 {
		return refuse(http.StatusNotFound, mainstem.KindNotFound, "the key %.60q has no value", key)
	}
	c.setNumber(headerRevision, uint64(e.Revision))
	return refuse(http.StatusNotFound, mainstem.KindNotFound, "the key %.60q has no value: %s at revision %d", key, e.Op, e.Revision)
}

// setEntry sets the headers of an entry.
func (c *call) setEntry(e kv.Entry[[]byte]) {
	h := c.w.Header()
	c.setETag(e.Revision)
	c.setNumber(headerRevision, uint64(e.Revision))
	c.setNumber(headerPosition, uint64(e.Position))
	if !e.Expires.IsZero() {
		h.Set(headerExpires, e.Expires.UTC().Format(time.RFC3339Nano))
	}
	for name, v := range e.Metadata {
		if isToken(name) && isFieldValue(v) {
			h.Set(headerMeta+name, v)
		}
	}
}

// isToken reports whether a text may be part of the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != ""
}

// isFieldValue reports whether a text may be the value of a header.
func isFieldValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// metadataNames yields the names of the headers of metadata.
func metadataNames(h http.Header) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range h {
			if len(name) > len(headerMeta) && strings.HasPrefix(name, headerMeta) && !yield(name) {
				return
			}
		}
	}
}

// metadata returns what the headers Mainstem-Meta-* say, with names in lower case.
func (c *call) metadata() kv.Metadata {
	var m kv.Metadata
	for name := range metadataNames(c.r.Header) {
		if m == nil {
			m = kv.Metadata{}
		}
		m[strings.ToLower(name[len(headerMeta):])] = c.r.Header.Get(name)
	}
	return m
}

// condition returns what the headers If-Match and If-None-Match say of a write.
func (c *call) condition() (conds []kv.Condition, err error) {
	match, any, err := c.revisions("If-Match")
	switch {
	case err != nil:
		return nil, err
	case len(match) > 1:
		return nil, invalid("If-Match names %d revisions: want one", len(match))
	case len(match) == 1:
		conds = append(conds, kv.IfRevision(match[0]))
	case any:
		conds = append(conds, kv.IfExists())
	}
	none, any, err := c.revisions("If-None-Match")
	switch {
	case err != nil:
		return nil, err
	case len(none) > 0:
		return nil, invalid("If-None-Match of a write is * only: the key must have no value")
	case any:
		conds = append(conds, kv.IfAbsent())
	}
	return conds, nil
}

// preconditionFailed gives a conflict of a condition in a header its status.
func preconditionFailed(err error) error {
	if errors.Is(err, mainstem.ErrConflict) {
		return withStatus(http.StatusPreconditionFailed, err)
	}
	return err
}

// ttl reads the header Mainstem-TTL.
func (c *call) ttl() ([]kv.ValueOption, error) {
	text := c.r.Header.Get(headerTTL)
	if text == "" {
		return nil, nil
	}
	d, err := parseTTL(text)
	if err != nil {
		return nil, invalid("%s is %.40q: want a duration such as 30m, 0 for none", headerTTL, text)
	}
	return []kv.ValueOption{kv.TTL(d)}, nil
}

func parseTTL(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("less than 0")
	}
	return d, err
}

// written is the answer to a write of one key.
type written struct {
	Revision  uint64   `json:"revision"` // 0: nothing was written
	Position  position `json:"position"`
	Value     *counter `json:"value,omitempty"` // of an increment
	Duplicate bool     `json:"duplicate"`
}

// answerWritten answers with what a batch wrote by its first write.
func (c *call) answerWritten(r mainstem.Receipt, value *counter) error {
	c.setNumber(headerRevision, uint64(r.Versions[0]))
	if r.Versions[0] > 0 && value == nil {
		c.setETag(r.Versions[0])
	}
	return c.answer(http.StatusOK, written{uint64(r.Versions[0]), position(positionsOf(r)[0]), value, r.Duplicate})
}

func putKey(c *call) error {
	t, key, err := c.tableAndKey()
	if err != nil {
		return err
	}
	conds, err := c.condition()
	if err != nil {
		return err
	}
	opts, err := c.ttl()
	if err != nil {
		return err
	}
	body, err := c.body(int64(c.h.o.Limits.MaxValue), 1)
	if err != nil {
		return err
	}
	if body == nil {
		body = []byte{} // a value of no bytes is one
	}
	who, err := c.identify(body)
	if err != nil {
		return err
	}
	put := []kv.PutOption{}
	for _, o := range opts {
		put = append(put, o)
	}
	if m := c.metadata(); m != nil {
		put = append(put, m)
	}
	for _, cond := range conds {
		put = append(put, cond)
	}
	b := mainstem.NewBatch()
	t.PutTo(b, key, body, put...)
	r, _, err := c.commit(b, who, nil)
	if err != nil {
		return preconditionFailed(err)
	}
	return c.answerWritten(r, nil)
}

// contention is the pause that lets other writers of a counter have their turn.
var contention = backoff.Policy{First: 50 * time.Microsecond, Max: 20 * time.Millisecond, Jitter: 1}

func postKey(c *call) error {
	if op := c.query.Get("op"); op != "increment" {
		return invalid("the parameter op is %.40q: want increment", op)
	}
	key, err := c.key()
	if err != nil {
		return err
	}
	var q struct {
		By *counter `json:"by"`
	}
	body, err := c.readJSON(&q)
	if err != nil {
		return err
	}
	if q.By == nil {
		return invalid("by is missing: want the number to add")
	}
	opts, err := c.ttl()
	if err != nil {
		return err
	}
	who, err := c.identify(body)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		r, memo, err := c.increment(key, int64(*q.By), opts, who)
		if errors.Is(err, mainstem.ErrConflict) && contention.Wait(c.ctx, n) {
			continue
		}
		if err != nil {
			return err
		}
		var v counter
		if err := json.Unmarshal(memo, &v); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "http", "a remembered counter: %w", err)
		}
		return c.answerWritten(r, &v)
	}
}

// increment adds to the counter at key of the table of the path. It returns the sum in JSON.
func (c *call) increment(key string, delta int64, opts []kv.ValueOption, who identity) (mainstem.Receipt, json.RawMessage, error) {
	b := mainstem.NewBatch()
	sum, err := c.h.incrementTo(c.ctx, b, c.path["db"]+"/"+c.path["table"], key, delta, opts)
	if err != nil {
		return c.made(who, err)
	}
	memo, err := json.Marshal(counter(sum))
	if err != nil {
		return mainstem.Receipt{}, nil, mainstem.Refusef(mainstem.KindInternal, "http", "encode a counter: %w", err)
	}
	return c.commit(b, who, memo)
}

// incrementTo adds to b that a counter is larger by delta, and returns the sum.
func (h *Handler) incrementTo(ctx context.Context, b *mainstem.Batch, table, key string, delta int64, opts []kv.ValueOption) (int64, error) {
	t, err := kv.Open[int64](h.log, table, nil)
	if err != nil {
		return 0, err
	}
	n := b.Len()
	if err := kv.IncrementTo(ctx, b, t, key, delta, opts...); err != nil {
		if errors.Is(err, mainstem.ErrCorrupt) {
			return 0, refuse(http.StatusConflict, mainstem.KindInvalid, "the value of %.60q is not a whole number: %w", key, err)
		}
		return 0, err
	}
	return strconv.ParseInt(string(b.Writes()[n].Value), 10, 64)
}
