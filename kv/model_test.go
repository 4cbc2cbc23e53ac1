package kv_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// cell is what the oracle knows of a key: a table is a map of cells.
type cell struct {
	value    string
	revision kv.Revision
	live     bool
}

// program runs random calls on a bucket and on a map, and compares.
type program struct {
	t     *testing.T
	log   mainstem.Log
	b     *kv.Bucket[string]
	cells map[string]cell
}

func TestRandomProgramsAgainstAMap(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			p := &program{t: t, log: log, cells: map[string]cell{},
				b: open[string](t, log, fmt.Sprintf("t%d", round), &kv.Options{History: rapid.IntRange(1, 3).Draw(rt, "history")})}
			rt.Repeat(map[string]func(*rapid.T){
				"":          p.compare,
				"put":       p.put,
				"create":    p.create,
				"update":    p.update,
				"delete":    p.delete,
				"purge":     p.purge,
				"put many":  p.putMany,
				"modify":    p.modify,
				"batch":     p.batch,
				"drop":      p.drop,
				"get many":  p.getMany,
				"condition": p.conditions,
			})
		})
	})
}

var anyKey = rapid.SampledFrom([]string{"a", "b", "a\x00", "日本", "b/c"})

func (c *cell) write(v string) { *c = cell{v, c.revision + 1, true} }

func (c *cell) end() {
	if c.live {
		*c = cell{"", c.revision + 1, false}
	}
}

// change applies f to the oracle's cell of key.
func (p *program) change(key string, f func(c *cell)) {
	c := p.cells[key]
	f(&c)
	p.cells[key] = c
}

func (p *program) put(rt *rapid.T) {
	k, v := anyKey.Draw(rt, "key"), rapid.String().Draw(rt, "value")
	rev, err := p.b.Put(p.t.Context(), k, v)
	p.change(k, func(c *cell) { c.write(v) })
	if err != nil || rev != p.cells[k].revision {
		rt.Fatalf("revision %d, %v, want %d", rev, err, p.cells[k].revision)
	}
}

func (p *program) create(rt *rapid.T) {
	k := anyKey.Draw(rt, "key")
	_, err := p.b.Create(p.t.Context(), k, "created")
	if p.cells[k].live {
		if e := wantErr(p.t, err, mainstem.ErrExists); e.Got != p.cells[k].revision {
			rt.Fatalf("exists at %d, want %d", e.Got, p.cells[k].revision)
		}
		return
	}
	check(p.t, err)
	p.change(k, func(c *cell) { c.write("created") })
}

func (p *program) update(rt *rapid.T) {
	k, rev := anyKey.Draw(rt, "key"), kv.Revision(rapid.IntRange(0, 6).Draw(rt, "revision"))
	_, err := p.b.Update(p.t.Context(), k, "updated", rev)
	c := p.cells[k]
	if c.live != (rev > 0) || c.live && c.revision != rev {
		if e := wantErr(p.t, err, mainstem.ErrConflict); e.Got != c.revision || e.GotLive != c.live {
			rt.Fatalf("conflict got %d live %v, want %+v", e.Got, e.GotLive, c)
		}
		return
	}
	check(p.t, err)
	p.change(k, func(c *cell) { c.write("updated") })
}

func (p *program) delete(rt *rapid.T) {
	k := anyKey.Draw(rt, "key")
	check(p.t, p.b.Delete(p.t.Context(), k))
	p.change(k, (*cell).end)
}

func (p *program) purge(rt *rapid.T) {
	k := anyKey.Draw(rt, "key")
	check(p.t, p.b.Purge(p.t.Context(), k))
	p.change(k, (*cell).end)
}

func (p *program) putMany(rt *rapid.T) {
	keys := rapid.SliceOfN(anyKey, 0, 4).Draw(rt, "keys")
	var pairs []kv.Pair[string]
	for i, k := range keys {
		pairs = append(pairs, kv.Pair[string]{Key: k, Value: fmt.Sprint(i)})
		p.change(k, func(c *cell) { c.write(fmt.Sprint(i)) })
	}
	must[[]kv.Revision](p.t)(p.b.PutMany(p.t.Context(), pairs))
}

func (p *program) modify(rt *rapid.T) {
	k := anyKey.Draw(rt, "key")
	must[kv.Entry[string]](p.t)(p.b.Modify(p.t.Context(), k, func(old string, found bool) (string, error) {
		if c := p.cells[k]; old != c.value || found != c.live {
			return "", fmt.Errorf("modify is given %q, %v, want %+v", old, found, c)
		}
		return old + "+", nil
	}))
	p.change(k, func(c *cell) { c.write(c.value + "+") })
}

func (p *program) batch(rt *rapid.T) {
	batch := mainstem.NewBatch()
	after := maps.Clone(p.cells)
	p.cells, after = after, p.cells // changes go to a copy, until the batch is known to hold
	holds := true
	for i := range rapid.IntRange(1, 4).Draw(rt, "writes") {
		k := anyKey.Draw(rt, "key")
		switch rapid.IntRange(0, 3).Draw(rt, "write") {
		case 0:
			p.b.PutTo(batch, k, fmt.Sprint(i))
			p.change(k, func(c *cell) { c.write(fmt.Sprint(i)) })
		case 1:
			p.b.DeleteTo(batch, k)
			p.change(k, (*cell).end)
		case 2:
			p.b.PurgeTo(batch, k)
			p.change(k, (*cell).end)
		case 3:
			p.b.ExpectTo(batch, k, kv.IfExists())
			holds = holds && after[k].live
		}
	}
	_, err := p.log.Commit(p.t.Context(), batch)
	if holds != (err == nil) || err != nil && !errors.Is(err, mainstem.ErrConflict) {
		rt.Fatalf("commit: %v; the conditions hold: %v", err, holds)
	}
	if !holds {
		p.cells = after
	}
}

func (p *program) drop(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "really") > 0 {
		return
	}
	if err := p.b.Drop(p.t.Context()); err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		rt.Fatal(err)
	}
	clear(p.cells)
}

func (p *program) getMany(rt *rapid.T) {
	keys := rapid.SliceOfN(anyKey, 0, 5).Draw(rt, "keys")
	for i, e := range must[[]kv.Entry[string]](p.t)(p.b.GetMany(p.t.Context(), keys...)) {
		p.wantEntry(rt, keys[i], e)
	}
}

func (p *program) conditions(rt *rapid.T) {
	k := anyKey.Draw(rt, "key")
	c := p.cells[k]
	for name, x := range map[string]struct {
		o     kv.Condition
		holds bool
	}{
		"absent":   {kv.IfAbsent(), !c.live},
		"exists":   {kv.IfExists(), c.live},
		"revision": {kv.IfRevision(c.revision), c.live || c.revision == 0},
		"next":     {kv.IfRevision(c.revision + 1), false},
	} {
		batch := mainstem.NewBatch()
		p.b.ExpectTo(batch, k, x.o)
		if _, err := p.log.Commit(p.t.Context(), batch); x.holds != (err == nil) {
			rt.Fatalf("%s on %+v: %v", name, c, err)
		}
	}
}

// compare runs after every call.
func (p *program) compare(rt *rapid.T) {
	var want []string
	for _, k := range sortedKeys(p.cells) {
		if p.cells[k].live {
			want = append(want, k)
		}
	}
	var got []string
	for _, e := range collect(p.t, p.b.List(p.t.Context(), nil)) {
		got = append(got, e.Key)
		p.wantEntry(rt, e.Key, e)
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("keys %q, want %q", got, want)
	}
	for k := range p.cells {
		e, err := p.b.Get(p.t.Context(), k)
		if err != nil {
			wantErr(p.t, err, mainstem.ErrNotFound)
			e.Key = k
		}
		p.wantEntry(rt, k, e)
	}
}

func (p *program) wantEntry(rt *rapid.T, key string, e kv.Entry[string]) {
	want := p.cells[key]
	if !want.live {
		want = cell{}
	}
	if got := (cell{e.Value, e.Revision, e.Live()}); e.Key != key || got != want {
		rt.Fatalf("%q is %+v, want %+v", key, got, want)
	}
}
