package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// The indexes of a table are declared in the space kv.indexes/<database>/<table>:
//
//	declared        JSON of declaration: the indexes that every write of the table must maintain
//	generation      decimal: the newest generation that an index of the table was given
//	built/<space>   JSON of progress, while that space is being filled
//	drop/<space>    a space of entries that no write maintains any more, to be dropped
//
// Invariant: a write of the table maintains exactly the indexes that are declared at its place in
// the order. Writes of an [Indexed] have a condition on the version of "declared"; writes of a
// plain [Bucket] have the condition that it is absent. So writers need not agree before the
// declaration changes: writes prepared under the old declaration fail with Conflict, and their
// programs read the new one and try again.
//
// The name of a space of entries contains a generation, which is never reused. So dropping an old
// space late, after a pause or by two processes, cannot remove newer entries.
const (
	keyDeclared   = "declared"
	keyGeneration = "generation"
	prefixBuilt   = "built/"
	prefixDrop    = "drop/"
)

var catalogPolicy = mainstem.Policy{History: 1, NoFeed: true, TombstoneAge: -1, Metadata: map[string]string{metaView: "kv.indexes"}}

// IndexState says whether an index can be read.
type IndexState string

// The states.
const (
	IndexBuilding IndexState = "building" // writes maintain it, but it lacks older values and cannot be read yet
	IndexReady    IndexState = "ready"    // it has all values
)

// IndexInfo describes an index of a table.
type IndexInfo struct {
	Name       string     `json:"name"`
	Field      string     `json:"field,omitempty"` // path in JSON values; "" if a program supplies a function
	Unique     bool       `json:"unique,omitempty"`
	Version    uint32     `json:"version,omitempty"` // of the definition
	Generation uint64     `json:"generation"`        // of the entries; new each time the index is built
	State      IndexState `json:"state"`
	// Guard is the generation of the old entries of a unique index while it is rebuilt, else 0.
	// Writes maintain these entries too: the new entries may still lack both of two keys that have
	// the same value.
	Guard uint64 `json:"guard,omitempty"`
	Done  int64  `json:"-"` // while it is built: number of keys read so far
	Total int64  `json:"-"` // while it is built: number of keys of the table when the build began
	Space string `json:"-"` // that holds the entries
}

// declaration is the value of "declared".
type declaration struct {
	Indexes []IndexInfo   `json:"indexes"`
	MaxAge  time.Duration `json:"max_age,omitempty"` // of the table; entries get the same MaxAge
}

func (d *declaration) find(name string) *IndexInfo {
	for i := range d.Indexes {
		if d.Indexes[i].Name == name {
			return &d.Indexes[i]
		}
	}
	return nil
}

// progress is the value of "built/<space>".
type progress struct {
	Key   []byte `json:"key"` // the last key that was read
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
}

// catalog reads and changes the declaration of one table.
type catalog struct {
	log             mainstem.Log
	database, table string
	space           string
}

func newCatalog(log mainstem.Log, database, table string) catalog {
	return catalog{log, database, table, catalogSpace(database, table)}
}

// read returns the declaration and its version, read from r; both are zero if the table has no
// index.
func (c *catalog) read(ctx context.Context, r mainstem.Reader) (declaration, Revision, error) {
	value, version, err := c.stored(ctx, r)
	if err != nil || version == 0 {
		return declaration{}, 0, err
	}
	d, err := c.decode(value)
	return d, version, err
}

// stored returns the encoded declaration and its version, 0 if the table has no index.
func (c *catalog) stored(ctx context.Context, r mainstem.Reader) ([]byte, Revision, error) {
	rec, err := r.Get(ctx, c.space, declaredKey)
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, 0, nil
	}
	return rec.Value, rec.Version, err
}

func (c *catalog) decode(value []byte) (declaration, error) {
	var d declaration
	if err := json.Unmarshal(value, &d); err != nil {
		return declaration{}, mainstem.Errorf(mainstem.KindCorrupt, "kv index", "the declaration of the indexes: %w", err).At(c.space, declaredKey)
	}
	for i := range d.Indexes {
		d.Indexes[i].Space = entrySpace(c.database, c.table, d.Indexes[i].Name, d.Indexes[i].Generation)
	}
	return d, nil
}

// addCondition makes batch depend on the version of the declaration, 0 for none. It avoids most
// duplicates in a batch: it compares with the first and the last conditions only, since a batch may
// have many.
func (c *catalog) addCondition(b *mainstem.Batch, version Revision) {
	const some = 8
	have := b.Conditions()
	first, last := have[:min(some, len(have))], have[max(0, len(have)-some):]
	for i := range first {
		if c.isCondition(&first[i], version) || c.isCondition(&last[i], version) {
			return
		}
	}
	c.condition(b, version)
}

func (c *catalog) condition(b *mainstem.Batch, version Revision) {
	if version == 0 {
		b.IfAbsent(c.space, declaredKey)
	} else {
		b.IfVersion(c.space, declaredKey, version)
	}
}

var declaredKey = []byte(keyDeclared)

func (c *catalog) isCondition(have *mainstem.Condition, version Revision) bool {
	if have.Space != c.space || string(have.Key) != keyDeclared {
		return false
	}
	return version == 0 && have.Test == mainstem.TestAbsent || version > 0 && have.Test == mainstem.TestVersion && have.Version == version
}

// change replaces the declaration with the result of edit, and tries again if another process
// changed it first. edit returns false if there is nothing to do, and adds the writes that belong
// to the change to the batch; it may be called several times.
func (c *catalog) change(ctx context.Context, edit func(*declaration, *mainstem.Batch) (bool, error)) error {
	for attempt := 0; ; attempt++ {
		d, version, err := c.read(ctx, c.log)
		if err != nil {
			return err
		}
		b := mainstem.NewBatch()
		changed, err := edit(&d, b)
		if err != nil || !changed {
			return err
		}
		b.Ensure(c.space, catalogPolicy)
		c.condition(b, version)
		if len(d.Indexes) == 0 {
			b.Delete(c.space, declaredKey)
		} else {
			value, err := json.Marshal(d)
			if err != nil {
				return err
			}
			b.Put(c.space, declaredKey, value)
		}
		if _, err = c.log.Commit(ctx, b); !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// nextGeneration returns a generation that no index of the table was given, and reserves it in b.
func (c *catalog) nextGeneration(ctx context.Context, b *mainstem.Batch) (uint64, error) {
	key, n := []byte(keyGeneration), uint64(0)
	r, err := c.log.Get(ctx, c.space, key)
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		b.IfAbsent(c.space, key)
	case err != nil:
		return 0, err
	default:
		if n, err = strconv.ParseUint(string(r.Value), 10, 64); err != nil {
			return 0, mainstem.Errorf(mainstem.KindCorrupt, "kv index", "the generation: %w", err).At(c.space, key)
		}
		b.IfVersion(c.space, key, r.Version)
	}
	b.Put(c.space, key, strconv.AppendUint(nil, n+1, 10))
	return n + 1, nil
}

// renew gives the index, which is to be built, a new generation in d and b.
func (c *catalog) renew(ctx context.Context, d *declaration, b *mainstem.Batch, index IndexInfo) error {
	index.Guard = 0
	if old := d.find(index.Name); old != nil {
		index.Guard = guardOf(old, &index)
		c.retire(d, b, index.Name, index.Guard)
	}
	// Several indexes of one change share one generation; their names differ.
	n := uint64(0)
	for _, w := range b.Writes() {
		if string(w.Key) == keyGeneration {
			n, _ = strconv.ParseUint(string(w.Value), 10, 64)
		}
	}
	if n == 0 {
		var err error
		if n, err = c.nextGeneration(ctx, b); err != nil {
			return err
		}
	}
	index.Generation, index.State = n, IndexBuilding
	index.Space = entrySpace(c.database, c.table, index.Name, n)
	d.Indexes = append(d.Indexes, index)
	b.Ensure(index.Space, entryPolicy(d.MaxAge))
	return nil
}

// guardOf returns the generation of old whose entries keep values unique while next is built. It is
// 0, for none, unless both indexes are defined alike.
func guardOf(old, next *IndexInfo) uint64 {
	switch {
	case !old.Unique || !next.Unique || old.Version != next.Version || old.Field != next.Field:
		return 0
	case old.State == IndexReady:
		return old.Generation
	}
	return old.Guard
}

// retire removes the index from d and schedules its entries to be dropped, except those of the
// generation keep.
func (c *catalog) retire(d *declaration, b *mainstem.Batch, name string, keep uint64) {
	old := d.find(name)
	for _, generation := range []uint64{old.Generation, old.Guard} {
		if generation != 0 && generation != keep {
			c.dropTo(b, entrySpace(c.database, c.table, name, generation))
		}
	}
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: c.space, Key: []byte(prefixBuilt + old.Space)})
	d.Indexes = slices.DeleteFunc(d.Indexes, func(i IndexInfo) bool { return i.Name == name })
}

// dropTo schedules a space of entries to be dropped.
func (c *catalog) dropTo(b *mainstem.Batch, space string) {
	b.Put(c.space, []byte(prefixDrop+space), nil)
}

// sweep drops the spaces of entries that no write maintains any more.
func (c *catalog) sweep(ctx context.Context) error {
	var spaces []string
	for r, err := range c.log.Scan(ctx, c.space, mainstem.Range{Prefix: []byte(prefixDrop), KeysOnly: true}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		spaces = append(spaces, strings.TrimPrefix(string(r.Key), prefixDrop))
	}
	for _, s := range spaces {
		if err := c.log.DropSpace(ctx, s); err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return fmt.Errorf("drop the entries of an index: %w", err)
		}
		b := mainstem.NewBatch()
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: c.space, Key: []byte(prefixDrop + s)})
		if _, err := c.log.Commit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (c *catalog) progress(ctx context.Context, r mainstem.Reader, space string) (p progress, version Revision, err error) {
	key := []byte(prefixBuilt + space)
	rec, err := r.Get(ctx, c.space, key)
	if errors.Is(err, mainstem.ErrNotFound) {
		return p, 0, nil
	}
	if err != nil {
		return p, 0, err
	}
	if err := json.Unmarshal(rec.Value, &p); err != nil {
		return p, 0, mainstem.Errorf(mainstem.KindCorrupt, "kv index", "the progress of an index: %w", err).At(c.space, key)
	}
	return p, rec.Version, nil
}

// Indexes returns the indexes of a table, in the order of their names; none for a table that does not exist.
func Indexes(ctx context.Context, log mainstem.Log, database, table string) ([]IndexInfo, error) {
	if err := validateNames(database, table); err != nil {
		return nil, err
	}
	c := newCatalog(log, database, table)
	d, _, err := c.read(ctx, log)
	if err != nil {
		return nil, err
	}
	for i := range d.Indexes {
		if d.Indexes[i].State == IndexBuilding {
			p, _, err := c.progress(ctx, log, d.Indexes[i].Space)
			if err != nil {
				return nil, err
			}
			d.Indexes[i].Done, d.Indexes[i].Total = p.Done, p.Total
		}
	}
	slices.SortFunc(d.Indexes, func(a, b IndexInfo) int { return strings.Compare(a.Name, b.Name) })
	return d.Indexes, nil
}

// DropIndex removes an index of a table with its entries. An index that does not exist is NotFound.
// A program that declares the index builds it again at its next write or call of [Indexed.Build].
func DropIndex(ctx context.Context, log mainstem.Log, database, table, index string) error {
	if err := validateNames(database, table); err != nil {
		return err
	}
	c := newCatalog(log, database, table)
	err := c.change(ctx, func(d *declaration, b *mainstem.Batch) (bool, error) {
		if d.find(index) == nil {
			return false, mainstem.Refusef(mainstem.KindNotFound, "drop index", "the table %s/%s has no index %.80q", database, table, index)
		}
		c.retire(d, b, index, 0)
		return true, nil
	})
	if err != nil {
		return err
	}
	return c.sweep(ctx)
}

// dropAll removes every index of the table before the table is dropped.
func (c *catalog) dropAll(ctx context.Context) error {
	any := false
	err := c.change(ctx, func(d *declaration, b *mainstem.Batch) (bool, error) {
		any = len(d.Indexes) > 0
		for len(d.Indexes) > 0 {
			c.retire(d, b, d.Indexes[0].Name, 0)
		}
		return any, nil
	})
	if err != nil || !any {
		return err
	}
	return c.sweep(ctx)
}
