package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// loadRows is how many rows are read into one transaction of the mirror.
const loadRows = 5_000

// load reads the tables and all rows from the log, after creating the standard
// ones in a log that has none.
func (s *Server) load(ctx context.Context) error {
	var found *schema
	for attempt := 0; ; attempt++ {
		// The head is read first: whatever is written after it is met again by the
		// follower, and known by its version.
		head, err := s.log.Head(ctx)
		if err != nil {
			return err
		}
		s.applied.prefix = head
		if found, err = s.loadCatalog(ctx); err != nil {
			return err
		}
		if len(found.tables) > 0 {
			break
		}
		if err := s.bootstrap(ctx); err != nil && (attempt > 0 || !errors.Is(err, mainstem.ErrConflict)) {
			return err
		}
	}
	sc, err := s.withSystem(found)
	if err != nil {
		return err
	}
	for _, t := range sc.sorted() {
		if err := s.loadTable(ctx, t); err != nil {
			return err
		}
	}
	s.schema.Store(sc)
	return nil
}

// loadCatalog reads the records of the catalog space.
func (s *Server) loadCatalog(ctx context.Context) (*schema, error) {
	databases, tables := map[string]mainstem.Version{}, map[string]*table{}
	for rec, err := range s.log.Scan(ctx, CatalogSpace, mainstem.Range{}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break // a new log
		}
		if err != nil {
			return nil, err
		}
		key := string(rec.Key)
		switch {
		case strings.HasPrefix(key, keyDatabase):
			databases[strings.TrimPrefix(key, keyDatabase)] = rec.Version
		case strings.HasPrefix(key, keyTable):
			t, err := decodeTable(bytes.Clone(rec.Value), rec.Version)
			if err != nil {
				return nil, mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(CatalogSpace, rec.Key)
			}
			tables[t.String()] = t
		case strings.HasPrefix(key, keyTrigger):
			if err := s.automations.restore(strings.TrimPrefix(key, keyTrigger), rec.Value, rec.Version); err != nil {
				return nil, mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(CatalogSpace, rec.Key)
			}
		}
	}
	return newSchema(1, databases, tables), nil
}

// bootstrap creates the standard tables in one commit.
func (s *Server) bootstrap(ctx context.Context) error {
	b := mainstem.NewBatch()
	b.Ensure(CatalogSpace, rowPolicy())
	next := uint64(1)
	put := func(key string, record any) {
		p, err := json.Marshal(record)
		if err != nil {
			b.Fail(broken("describing "+key, err))
			return
		}
		b.IfAbsent(CatalogSpace, []byte(key))
		b.Put(CatalogSpace, []byte(key), p)
	}
	for _, name := range standardDatabases {
		put(keyDatabase+name, struct{}{})
	}
	for _, def := range standardTables() {
		r := def.record(&next)
		put(keyTable+r.Database+"."+r.Name, r)
		b.Ensure(r.space(), rowPolicy())
		for _, row := range def.rows {
			t := newTable(r, 0)
			b.Put(t.space, encodeKey(t, row), encodeRow(nil, t, row))
		}
	}
	put(keyNext, nextRecord{next})
	_, err := s.log.Commit(ctx, b)
	return err
}

// withSystem adds the tables that the server fills itself.
func (s *Server) withSystem(sc *schema) (*schema, error) {
	var err error
	out := sc.with(func(databases map[string]mainstem.Version, tables map[string]*table) {
		for _, r := range systemTables() {
			if tables[r.Database+"."+r.Name] != nil {
				err = fmt.Errorf("the log holds a table %s.%s", r.Database, r.Name)
			}
			databases[r.Database] = max(databases[r.Database], 1)
			t := newTable(r, 0)
			t.system = true
			tables[t.String()] = t
		}
	})
	if err != nil {
		return nil, broken("system tables", err)
	}
	return out, nil
}

// loadTable makes the mirror of a table and reads its rows. The indexes come
// last: it is quicker.
func (s *Server) loadTable(ctx context.Context, t *table) error {
	if t.virtual {
		return s.mirror.createTable(ctx, t, false)
	}
	if err := s.mirror.createTable(ctx, t, true); err != nil {
		return broken("making the mirror of "+t.String(), err)
	}
	rows, values := 0, make([]Value, len(t.Columns))
	tx := &tx{s: s, ctx: s.quiet}
	if err := s.mirror.begin(ctx, final); err != nil {
		return broken("reading the rows of "+t.String(), err)
	}
	for rec, err := range s.log.Scan(ctx, t.space, mainstem.Range{}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break // another server has dropped the table since the catalog was read: the feed brings that
		}
		if err != nil {
			return errors.Join(err, s.mirror.rollback(ctx))
		}
		origin, err := decodeRow(rec.Value, t, values)
		if err != nil || origin == foreignRow {
			if err := tx.skip(t, &rec, err); err != nil {
				return err
			}
			continue
		}
		k := int64(0)
		if t.incr >= 0 {
			k = values[t.incr].n
		}
		if _, err := s.mirror.put(ctx, t, k, origin.version(&rec), values); err != nil {
			return errors.Join(mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(t.space, rec.Key), s.mirror.rollback(ctx))
		}
		if rows++; rows%loadRows == 0 {
			if err := s.nextLoad(ctx); err != nil {
				return broken("reading the rows of "+t.String(), err)
			}
		}
	}
	if err := s.mirror.createIndexes(ctx, t); err != nil {
		return broken("indexing "+t.String(), errors.Join(err, s.mirror.rollback(ctx)))
	}
	if err := s.mirror.commit(ctx); err != nil {
		return broken("reading the rows of "+t.String(), err)
	}
	return nil
}

// nextLoad ends one transaction of a load and begins the next.
func (s *Server) nextLoad(ctx context.Context) error {
	if err := s.mirror.commit(ctx); err != nil {
		return err
	}
	return s.mirror.begin(ctx, final)
}
