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
//	declared        JSON of declaration: the indexes that every write of the table must keep
//	generation      decimal: the newest generation that an index of the table was given
//	built/<space>   JSON of progress, while that space is being filled
//	drop/<space>    a space of entries that no write keeps any more, and which is to be dropped
//
// Invariant: a write of the table keeps exactly the indexes that are declared at its place in the order. Writes of
// an [Indexed] have the version of "declared" as a condition, those of a plain [Bucket] its absence. So a
// change of the declaration needs no agreement of the programs that write: those that know the old one fail
// with Conflict, read, and go on.
//
// A space of entries has a generation in its name, which is never used again. So dropping one late, after a
// pause or by two processes, cannot meet the entries of a newer one.
const (
	keyDeclared   = "declared"
	keyGeneration = "generation"
	prefixBuilt   = "built/"
	prefixDrop    = "drop/"
)

var catalogPolicy = mainstem.Policy{History: 1, NoFeed: true, TombstoneAge: -1, Metadata: map[string]string{metaView: "kv.indexes"}}

// IndexState says what can be done with an index.
type IndexState string

// The states.
const (
	IndexBuilding IndexState = "building" // writes keep it; what was there before is not in it yet, so it cannot be read
	IndexReady    IndexState = "ready"    // it has all values
)

// IndexInfo describes an index of a table.
type IndexInfo struct {
	Name       string     `json:"name"`
	Field      string     `json:"field,omitempty"` // of values in JSON; "" if a program has a function for it
	Unique     bool       `json:"unique,omitempty"`
	Version    uint32     `json:"version,omitempty"` // of its definition
	Generation uint64     `json:"generation"`        // of its entries: another each time that it is built
	State      IndexState `json:"state"`
	// Guard is, while a unique index is built anew, the generation of the entries that it had before.
	// Writes keep them too: of two keys with one value the new entries may not have either yet.
	Guard uint64 `json:"guard,omitempty"`
	Done  int64  `json:"-"` // while it is built: keys that were read
	Total int64  `json:"-"` // while it is built: keys of the table when that began
	Space string `json:"-"` // of its entries
}

// declaration is the value of "declared".
type declaration struct {
	Indexes []IndexInfo   `json:"indexes"`
	MaxAge  time.Duration `json:"max_age,omitempty"` // of the table; entries get the same
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
	Key   []byte `json:"key"` // the last that was read
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

// read returns the declaration as r has it, and its version; both zero if the table has no index.
func (c *catalog) read(ctx context.Context, r mainstem.Reader) (declaration, Revision, error) {
	value, version, err := c.stored(ctx, r)
	if err != nil || version == 0 {
		return declaration{}, 0, err
	}
	d, err := c.decode(value)
	return d, version, err
}

// stored returns the declaration as it is stored, and its version; 0 if the table has no index.
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

// addCondition makes batch depend on the version of the declaration, 0 for none, once for a
// batch, mostly: it looks among the first and the last conditions only, since a batch may have many.
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

// change replaces the declaration by what edit makes of it, again if another process was first. edit returns
// false if there is nothing to do, and adds to the batch what belongs to the change; it may be called several times.
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

// nextGeneration returns a generation that no index of the table was given, and takes it in b.
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

// renew gives the index a new generation, which is to be built, in d and b.
func (c *catalog) renew(ctx context.Context, d *declaration, b *mainstem.Batch, index IndexInfo) error {
	index.Guard = 0
	if old := d.find(index.Name); old != nil {
		index.Guard = guardOf(old, &index)
		c.retire(d, b, index.Name, index.Guard)
	}
	// Several indexes of one change take one generation: their names tell them apart.
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

// guardOf returns the generation of old that keeps values unique while next is built, 0 for none: if
// both are defined alike.
func guardOf(old, next *IndexInfo) uint64 {
	switch {
	case !old.Unique || !next.Unique || old.Version != next.Version || old.Field != next.Field:
		return 0
	case old.State == IndexReady:
		return old.Generation
	}
	return old.Guard
}

// retire takes the index out of d, and has its entries dropped, but for those of the generation keep.
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

// dropTo notes that a space of entries is to be dropped.
func (c *catalog) dropTo(b *mainstem.Batch, space string) {
	b.Put(c.space, []byte(prefixDrop+space), nil)
}

// sweep drops the spaces of entries that no write keeps any more.
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

// DropIndex removes an index of a table with its entries. One that does not exist is NotFound. A program that declares
// the index builds it anew when it next writes or calls [Indexed.Build].
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

// dropAll removes every index of the table, which is to be dropped.
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
