package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Table describes a JetStream bucket.
type Table struct {
	Bucket string // of JetStream
	// Recorded tells that this package made or adopted the bucket, so that database and
	// table are known. The name of a bucket alone does not tell: a_b_c may be table c of
	// database a_b, or b_c of a.
	Recorded       bool
	Database, Name string // if recorded; Name is "" where a bucket holds all tables of its database
	Layout         string // if recorded: what it was made with
	Created        time.Time
	Messages       uint64 // values, deletions, and older revisions
}

// Tables yields the buckets of the account, in no order. Those that do not answer, because
// their servers are away, are left out.
func (s *Store) Tables(ctx context.Context) iter.Seq2[Table, error] {
	return s.tables(ctx, func(string) {})
}

// tables is Tables, and calls silent with the bucket of each that does not answer.
func (s *Store) tables(ctx context.Context, silent func(bucket string)) iter.Seq2[Table, error] {
	return func(yield func(Table, error) bool) {
		for offset := 0; ; {
			var page struct {
				Total   int          `json:"total"`
				Limit   int          `json:"limit"`
				Streams []streamInfo `json:"streams"`
				Missing []string     `json:"missing"` // also the offline ones
			}
			in := map[string]any{"subject": "$KV.*.>", "offset": offset}
			if _, err := s.ask(ctx, "STREAM.LIST", in, &page); err != nil {
				yield(Table{}, &mainstem.Error{Kind: kindOf(err), Op: "tables", Err: err})
				return
			}
			for _, name := range page.Missing {
				if bucket, ok := strings.CutPrefix(name, streamPrefix); ok {
					silent(bucket)
				}
			}
			for i := range page.Streams {
				t, ok := tableOf(&page.Streams[i])
				if ok && !yield(t, nil) {
					return
				}
			}
			step := max(len(page.Streams), page.Limit) // the missing ones count
			if offset += step; step == 0 || offset >= page.Total {
				return
			}
		}
	}
}

func tableOf(info *streamInfo) (Table, bool) {
	bucket, ok := strings.CutPrefix(info.Config.Name, streamPrefix)
	t := Table{Bucket: bucket, Created: info.Created, Messages: info.State.Messages}
	m := info.Config.Metadata
	if layout, recorded := m[metaLayout]; recorded {
		t.Recorded, t.Layout, t.Database, t.Name = true, layout, m[metaDatabase], m[metaTable]
	}
	return t, ok
}

// Adopt records database and table in the description of a bucket that another client
// made, so that DropDatabase knows it. Nothing else changes. A bucket recorded under
// other names is Exists; one that does not exist is NotFound.
func (s *Store) Adopt(ctx context.Context, database, table string) error {
	st, want, err := s.record(database, table)
	if err != nil {
		return err
	}
	_, err = st.change(ctx, func(config map[string]json.RawMessage) error {
		var have map[string]string
		if m := config["metadata"]; m != nil {
			if err := json.Unmarshal(m, &have); err != nil {
				return err
			}
		}
		if err := st.mismatch("adopt", have, want); err != nil {
			return err
		}
		if have == nil {
			have = make(map[string]string)
		}
		maps.Copy(have, want)
		m, err := json.Marshal(have)
		config["metadata"] = m
		return err
	})
	if err != nil {
		return st.failChange("adopt", err)
	}
	return nil
}

// record returns the bucket of a table, and how its metadata names it.
func (s *Store) record(database, table string) (*stream, map[string]string, error) {
	b, err := OpenTable[[]byte](s, database, table, nil)
	if err != nil {
		return nil, nil, err
	}
	database, table = b.owner()
	return b.stream, map[string]string{metaDatabase: database, metaTable: table, metaLayout: s.layout.String()}, nil
}

// owner returns the names that are recorded with the bucket: without the table if
// the bucket holds all those of its database.
func (b *Bucket[T]) owner() (database, table string) {
	if !b.store.layout.perTable {
		return b.database, ""
	}
	return b.database, b.table
}

// mismatch is an error if a bucket is recorded under other names than wanted.
func (s *stream) mismatch(op string, have, want map[string]string) error {
	if _, recorded := have[metaLayout]; !recorded || have[metaDatabase] == want[metaDatabase] && have[metaTable] == want[metaTable] {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindExists, Op: op, Space: s.bucket, Outcome: mainstem.NotWritten,
		Err:  fmt.Errorf("the bucket is table %q of database %q", have[metaTable], have[metaDatabase]),
		Hint: "names that differ only in where an underline stands share a bucket"}
}

// errNoTables has the text of go-orb's plug-in, which services look for.
var errNoTables = errors.New("can't drop table when bucket per table is disabled")

// DropTable removes exactly one table with all it holds, large values included. A bucket
// that does not exist is NotFound; one that is recorded under other names of the same
// spelling is Exists and stays. In a bucket with many tables, it purges the keys whose
// envelopes say that they are this table's; values that are no envelopes stay. In go-orb's
// layout with one bucket tables alias each other: there it is Unsupported.
func (s *Store) DropTable(ctx context.Context, database, table string) error {
	st, want, err := s.record(database, table)
	if err != nil {
		return err
	}
	switch {
	case s.layout.perTable:
		return s.drop(ctx, st, want)
	case s.layout.kind == kindOrb:
		return &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "drop table", Space: st.bucket, Outcome: mainstem.NotWritten,
			Err: errNoTables, Hint: "all tables of this layout are one: drop the database, or use the layout Shared"}
	case table == "":
		return mainstem.Errorf(mainstem.KindInvalid, "drop table", "the empty table has no keys of its own in the layout %s: drop the database", s.layout)
	}
	b, err := OpenTable[Envelope](s, database, table, nil)
	if err != nil {
		return err
	}
	if _, err := st.refresh(ctx); err != nil {
		return st.failWrite("drop table", "", false, err)
	}
	if err := b.purgeAll(ctx); err != nil {
		return fmt.Errorf("drop table %s/%s: %w", database, table, err)
	}
	return nil
}

// drop deletes the bucket with its large values, if it is the one that is meant.
func (s *Store) drop(ctx context.Context, st *stream, want map[string]string) error {
	f, err := st.refresh(ctx)
	if err != nil {
		return st.failWrite("drop", "", false, err)
	}
	if err := st.mismatch("drop", f.metadata, want); err != nil {
		return err
	}
	removeObjects := func() error { return nil }
	if s.layout.form == formRaw { // others have no large values
		if removeObjects, err = st.leftObjects(ctx); err != nil {
			return st.failWrite("drop", "", false, fmt.Errorf("list the large values: %w", err))
		}
	}
	if sent, err := st.askPatiently(ctx, "STREAM.DELETE.", nil, nil); err != nil {
		return st.failWrite("drop", "", sent, err)
	}
	st.known.Store(nil)
	st.index.lost()
	if err := removeObjects(); err != nil {
		return &mainstem.Error{Kind: kindOf(err), Op: "drop", Space: st.bucket, Outcome: mainstem.Unknown,
			Err: fmt.Errorf("remove the large values: %w", err), Hint: "the bucket is gone; SweepObjects removes what is left"}
	}
	return nil
}

// purgeAll purges the keys of the table. Prefixes do not tell them from those of
// a table whose name goes on after an underline, but the keys in their envelopes do.
func (b *Bucket[T]) purgeAll(ctx context.Context) error {
	if err := b.Sync(ctx); err != nil {
		return err
	}
	keys, err := b.collect(ctx, "drop table", &kv.Query{})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(keys, listPortion) {
		names := make([]string, len(part))
		for i := range part {
			names[i] = part[i].key
		}
		messages, _, err := b.getMany(ctx, names)
		if err != nil {
			return err
		}
		for i, m := range messages {
			var e Envelope
			if m == nil || operation(m.header) != kv.OpUpdate || e.parse(m.data) != nil || e.Key != names[i] {
				continue
			}
			h := nats.Header{headerOperation: {"PURGE"}, headerRollup: {"sub"}}
			if err := b.end(ctx, "purge", names[i], h, kv.OpPurge, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// DropDatabase removes every bucket of exactly this database: "default" is not
// "default2". A database without buckets is NotFound. In layouts with a bucket for each
// table, a bucket that another client made does not tell whether it belongs to the
// database or only has a name that begins alike: if there is one, nothing is dropped
// and the error names it; drop it as a table, or [Store.Adopt] it. Nothing is dropped
// either, and the error is Unavailable, if a bucket of such a name does not answer. Each
// bucket goes by itself: after an error, calling again removes the rest.
func (s *Store) DropDatabase(ctx context.Context, database string) error {
	if database == "" {
		return mainstem.Errorf(mainstem.KindInvalid, "drop database", "the database has no name")
	}
	if !s.layout.perTable {
		st, want, err := s.record(database, "")
		if err != nil {
			return err
		}
		return s.drop(ctx, st, want)
	}
	var mine, unclear, silent []string
	alike := func(bucket string) bool { return strings.HasPrefix(bucket, database+"_") }
	tables := s.tables(ctx, func(bucket string) {
		if bucket == database || alike(bucket) {
			silent = append(silent, bucket)
		}
	})
	for t, err := range tables {
		switch {
		case err != nil:
			return err
		case t.Recorded && t.Database == database:
			mine = append(mine, t.Bucket)
		case t.Recorded:
		case t.Bucket == database && s.layout.kind != kindNATS:
			mine = append(mine, t.Bucket)
		case alike(t.Bucket):
			unclear = append(unclear, t.Bucket)
		}
	}
	if len(silent) > 0 {
		return mainstem.Refusef(mainstem.KindUnavailable, "drop database", "the buckets %s do not answer: nothing was dropped", strings.Join(silent, ", ")).
			WithHint("try again when all servers of the cluster are there")
	}
	if len(unclear) > 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "drop database", "whose are the buckets %s? nothing was dropped", strings.Join(unclear, ", ")).
			WithHint("Adopt those that are tables of " + database + ", or drop them as tables")
	}
	if len(mine) == 0 {
		return mainstem.Refusef(mainstem.KindNotFound, "drop database", "the database %q has no buckets", database)
	}
	for _, bucket := range mine {
		st := s.stream(bucket)
		f, err := st.refresh(ctx)
		if errors.Is(err, errNoBucket) {
			continue
		}
		if err != nil {
			return st.failWrite("drop database", "", false, err)
		}
		if err := s.drop(ctx, st, f.metadata); err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
	}
	return nil
}
