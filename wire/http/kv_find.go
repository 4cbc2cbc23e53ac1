package viewhttp

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// This file is reads of a table as it was, and by an index.

// point reads the parameter at.
func (c *call) point() (kv.Point, error) {
	text := c.query.Get("at")
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
		return kv.AtPosition(mainstem.Position(n)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.IsZero() {
		return kv.Point{}, invalid("the parameter at is %.40q: want a position above 0, or a time such as 2026-01-31T12:00:00Z", text)
	}
	return kv.AtTime(t), nil
}

// lister lists entries of a table.
type lister func(ctx context.Context, q *kv.Query) iter.Seq2[kv.Entry[[]byte], error]

// lister returns how the table is listed: as it is, or as it was.
func (c *call) lister(t *bytesTable) (lister, error) {
	if !c.query.Has("at") {
		return t.List, nil
	}
	at, err := c.point()
	return t.At(at).List, err
}

// pastEntry is what a key held. Where it had no value then, the entry is one without a revision.
func pastEntry(e kv.Entry[[]byte], err error) (kv.Entry[[]byte], error) {
	if err = forgotten(err); errors.Is(err, mainstem.ErrNotFound) && statusOf(err) == http.StatusNotFound {
		return kv.Entry[[]byte]{}, nil
	}
	return e, err
}

// forgotten gives a moment of which the table does not keep the history its status.
func forgotten(err error) error {
	if e := (*kv.HistoryError)(nil); errors.As(err, &e) {
		return withStatus(http.StatusGone, err)
	}
	return err
}

// indexChunk is how many entries are read by an index at a time.
const indexChunk = 64

// listByIndex answers with a page of the entries that have a value in an index, or of all in its order.
func listByIndex(c *call) error {
	for _, name := range []string{"prefix", "prefix64", "suffix", "suffix64", "start", "start64", "end", "end64", "after64", "at"} {
		if c.query.Has(name) {
			return invalid("a list by an index does not take the parameter %s", name)
		}
	}
	if c.accepts(mediaLines) {
		return invalid("a list by an index is a page: ask for %s", mediaJSON)
	}
	x, err := kv.OpenIndexed[[]byte](c.h.log, c.path["db"]+"/"+c.path["table"], &kv.Options{Codec: codec.Raw})
	if err != nil {
		return err
	}
	q, as, err := c.kvQuery()
	if err != nil {
		return err
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	i := kv.IndexQuery{Reverse: q.Reverse, After: q.After}
	for _, text := range c.query["value"] {
		i.Prefix = append(i.Prefix, kv.ParsePart(text))
	}
	p := page{c: c, limit: limit}
	next, err := c.pageOfIndex(&p, x.By(c.query.Get("index")), i, as, q.KeysOnly)
	if err != nil {
		return err
	}
	if next == "" {
		return p.send("entries", nil)
	}
	return p.send("entries", map[string]any{"next": next})
}

// pageOfIndex adds entries to a page and returns the cursor of those that follow, "" if none do. It
// reads a chunk at a time; one that does not fit is read again, an entry at a time, since there is a
// cursor only behind a chunk.
func (c *call) pageOfIndex(p *page, by *kv.IndexReader[[]byte], q kv.IndexQuery, as form, keys bool) (string, error) {
	for chunk := indexChunk; p.n < p.limit; {
		q.Limit = min(chunk, p.limit-p.n)
		entries, next, err := by.Page(c.ctx, &q)
		if err != nil {
			return "", err
		}
		size, list := 0, make([]any, len(entries))
		for i := range entries {
			size += sizeOf(&entries[i])
			list[i] = entryOf(&entries[i], as, keys)
		}
		more, err := p.addAll(size, list...)
		switch {
		case err != nil:
			return "", err
		case !more && len(list) == 1:
			return q.After, nil
		case !more:
			chunk = 1
			continue
		case next == "":
			return "", nil
		}
		q.After = next
	}
	return q.After, nil
}
