package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// Dump is everything a log shows its readers, as lines of text: two logs with
// equal dumps cannot be told apart.
type Dump struct {
	Head  mainstem.Position
	lines []string
	keys  []held
	feed  []fed
}

// held is a key that holds records, and those, described.
type held struct {
	space   string
	key     []byte
	records []string
}

// fed is a record of the feed, described.
type fed struct {
	space string
	key   []byte
	text  string
}

// Take reads all of r: every space with its description, every record of every
// key by key and by version, and the whole feed. It fails on the first error.
func Take(ctx context.Context, r Log) (Dump, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return Dump{}, err
	}
	d := Dump{Head: head}
	d.add("head %d", head)
	var names []string
	for info, err := range r.Spaces(ctx, "") {
		if err != nil {
			return Dump{}, err
		}
		names = append(names, info.Name)
		d.add("space %s %+v created %d: %d keys, %d records, %d bytes, last %d, updated %d", info.Name, info.Policy,
			info.Created.UnixNano(), info.Keys, info.Records, info.Bytes, info.Last, info.Updated.UnixNano())
	}
	for _, name := range names {
		if err := d.space(ctx, r, name); err != nil {
			return Dump{}, err
		}
	}
	for rec, err := range r.Feed(ctx, mainstem.Filter{}) {
		if err != nil {
			return Dump{}, err
		}
		d.add("feed %s", Describe(&rec))
		d.feed = append(d.feed, fed{rec.Space, bytes.Clone(rec.Key), Describe(&rec)})
	}
	return d, nil
}

func (d *Dump) space(ctx context.Context, r mainstem.Reader, name string) error {
	var keys [][]byte
	for rec, err := range r.Scan(ctx, name, mainstem.Range{Tombstones: true}) {
		if err != nil {
			return err
		}
		d.add("newest %s", Describe(&rec))
		keys = append(keys, bytes.Clone(rec.Key))
	}
	for _, key := range keys {
		h := held{space: name, key: key}
		for rec, err := range r.Read(ctx, name, key, mainstem.Versions{}) {
			if err != nil {
				return err
			}
			h.records = append(h.records, Describe(&rec))
			d.add("record %s", Describe(&rec))
		}
		d.keys = append(d.keys, h)
	}
	return nil
}

func (d *Dump) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// Equal reports whether d and e show the same log.
func (d Dump) Equal(e Dump) bool { return slices.Equal(d.lines, e.lines) }

// Diff returns up to limit lines of each side that only one of d and e has, marked - and +.
func (d Dump) Diff(e Dump, limit int) string {
	var out []string
	mark := func(sign string, of, other []string) {
		has := map[string]bool{}
		for _, line := range other {
			has[line] = true
		}
		for _, line := range of {
			if !has[line] && len(out) < limit {
				out = append(out, sign+" "+line)
			}
		}
	}
	mark("-", d.lines, e.lines)
	limit *= 2
	mark("+", e.lines, d.lines)
	return strings.Join(out, "\n")
}

// Describe returns everything about rec on one line. Keys and values over 32
// bytes are shown by length and checksum.
func Describe(rec *mainstem.Record) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s v%d*%d @%d %d", rec.Space, abridge(rec.Key), rec.Version, rec.Count, rec.Position, rec.Time.UnixNano())
	if !rec.Expires.IsZero() {
		fmt.Fprintf(&s, " until %d", rec.Expires.UnixNano())
	}
	fmt.Fprintf(&s, " %s", rec.Tombstone)
	for _, h := range rec.Headers {
		fmt.Fprintf(&s, " %s=%q", h.Name, h.Value)
	}
	return s.String() + " " + abridge(rec.Value)
}

func abridge(p []byte) string {
	switch {
	case p == nil:
		return "nil"
	case len(p) <= 32:
		return fmt.Sprintf("%q", p)
	}
	return fmt.Sprintf("%d bytes %08x", len(p), crc32.ChecksumIEEE(p))
}
