package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

// mutant is a log with a fault: the functions that are set take the place of
// the model's.
type mutant struct {
	mainstem.Log
	commit  func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error)
	get     func(ctx context.Context, space string, key []byte) (mainstem.Record, error)
	change  func(r mainstem.Record) mainstem.Record  // of every record read
	hide    func(how string, r mainstem.Record) bool // of scan, read and feed
	follows func(ctx context.Context, f *mainstem.Filter) context.Context
	scans   func(r *mainstem.Range)
	many    func(ctx context.Context, space string, keys [][]byte) sequence
	drop    func(ctx context.Context, name string) error
	info    func(in *mainstem.SpaceInfo)
	head    func()
	closing func()
	deaf    bool // followers never wake
	empty   bool // unknown spaces are empty ones
}

type sequence = iter.Seq2[mainstem.Record, error]

func (m *mutant) pass(how string, seq sequence) sequence {
	return func(yield func(mainstem.Record, error) bool) {
		for r, err := range seq {
			if err != nil && m.empty && errors.Is(err, mainstem.ErrNotFound) {
				return
			}
			if err == nil && m.change != nil {
				r = m.change(r)
			}
			if err == nil && m.hide != nil && m.hide(how, r) {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (m *mutant) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if m.commit != nil {
		return m.commit(ctx, b)
	}
	return m.Log.Commit(ctx, b)
}

func (m *mutant) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if m.get != nil {
		return m.get(ctx, space, key)
	}
	r, err := m.Log.Get(ctx, space, key)
	if err == nil && m.change != nil {
		r = m.change(r)
	}
	return r, err
}

func (m *mutant) GetMany(ctx context.Context, space string, keys [][]byte) sequence {
	if m.many != nil {
		return m.many(ctx, space, keys)
	}
	return m.pass("get many", m.Log.GetMany(ctx, space, keys))
}

func (m *mutant) Scan(ctx context.Context, space string, r mainstem.Range) sequence {
	if m.scans != nil {
		m.scans(&r)
	}
	return m.pass("scan", m.Log.Scan(ctx, space, r))
}

func (m *mutant) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) sequence {
	return m.pass("read", m.Log.Read(ctx, space, key, v))
}

func (m *mutant) Feed(ctx context.Context, f mainstem.Filter) sequence {
	how := "feed"
	if f.Follow {
		how = "follow"
	}
	if m.follows != nil {
		ctx = m.follows(ctx, &f)
	}
	if !f.Follow || !m.deaf {
		return m.pass(how, m.Log.Feed(ctx, f))
	}
	f.Follow = false
	return func(yield func(mainstem.Record, error) bool) {
		for r := range m.Log.Feed(ctx, f) {
			if !yield(r, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(mainstem.Record{}, &mainstem.Error{Kind: mainstem.KindCanceled, Err: ctx.Err()})
	}
}

func (m *mutant) DropSpace(ctx context.Context, name string) error {
	if m.drop != nil {
		return m.drop(ctx, name)
	}
	return m.Log.DropSpace(ctx, name)
}

func (m *mutant) Space(ctx context.Context, name string) (mainstem.SpaceInfo, error) {
	in, err := m.Log.Space(ctx, name)
	if m.info != nil && err == nil {
		m.info(&in)
	}
	return in, err
}

func (m *mutant) Head(ctx context.Context) (mainstem.Position, error) {
	if m.head != nil {
		m.head()
	}
	return m.Log.Head(ctx)
}

func (m *mutant) Close() error {
	if m.closing != nil {
		m.closing()
	}
	return m.Log.Close()
}

func (m *mutant) Sweep(ctx context.Context) error { return m.Log.(*model.Log).Sweep(ctx) }

// without returns b without what strip removes.
func without(b *mainstem.Batch, strip func(w *mainstem.Write), conditions, id bool) *mainstem.Batch {
	out := mainstem.NewBatch()
	out.Durability, out.Time = b.Durability, b.Time
	out.Fail(b.Err())
	if id {
		out.ID = b.ID
	}
	for _, e := range b.Ensures() {
		out.Ensure(e.Space, e.Policy)
	}
	for _, w := range b.Writes() {
		if strip != nil {
			strip(&w)
		}
		out.Add(w)
	}
	if conditions {
		for _, c := range b.Conditions() {
			out.If(c)
		}
	}
	return out
}

// changed returns b with its conditions on positions changed.
func changed(b *mainstem.Batch, change func(c *mainstem.Condition)) *mainstem.Batch {
	out := without(b, nil, false, true)
	for _, c := range b.Conditions() {
		if c.Test == mainstem.TestNotAfter {
			change(&c)
		}
		out.If(c)
	}
	return out
}

// mutants are the faults, with the law that each breaks.
var mutants = []struct {
	name    string
	law     Law
	also    string // a case of another law that must notice too and say law
	lines   int    // programs must find it, with a program of at most so many steps; 0: they cannot
	declare func(f *Features)
	spoil   func(l *model.Log) *mutant
}{
	{name: "commits write by write", law: Atomic, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (all mainstem.Receipt, err error) {
			if b.Len() < 2 || b.ID != "" {
				return l.Commit(ctx, b)
			}
			for i, w := range b.Writes() {
				one := without(b, nil, i == 0, false)
				one.Reset()
				for _, e := range b.Ensures() {
					one.Ensure(e.Space, e.Policy)
				}
				one.Add(w)
				if i == 0 {
					for _, c := range b.Conditions() {
						one.If(c)
					}
				}
				r, err := l.Commit(ctx, one)
				if err != nil {
					return r, err
				}
				all.Versions, all.Time, all.Last = append(all.Versions, r.Versions...), r.Time, max(all.Last, r.Last)
				if all.First == 0 {
					all.First = r.First
				}
			}
			return all, nil
		}}
	}},
	{name: "creates spaces of failed batches", law: Atomic, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			for _, e := range b.Ensures() {
				_ = l.CreateSpace(ctx, e.Space, e.Policy)
			}
			return l.Commit(ctx, b)
		}}
	}},
	{name: "drops a record from feeds", law: Ordered, lines: 5, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, hide: func(how string, r mainstem.Record) bool {
			return (how == "feed" || how == "follow") && r.Position%7 == 5
		}}
	}},
	{name: "publishes out of order", law: Ordered, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, hide: func(how string, r mainstem.Record) bool { // until three more were written
			head, _ := l.Head(context.Background())
			return how == "feed" && r.Position%5 == 3 && head > r.Position && head < r.Position+3
		}}
	}},
	{name: "gives positions twice", law: Ordered, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, change: func(r mainstem.Record) mainstem.Record { r.Position = (r.Position + 1) / 2; return r }}
	}},
	{name: "reads stale values", law: Ordered, also: "history of busy clients", lines: 4, spoil: func(l *model.Log) *mutant {
		var mu sync.Mutex
		cache, used := map[string]mainstem.Record{}, 0
		return &mutant{Log: l, get: func(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
			mu.Lock()
			defer mu.Unlock()
			at := space + "\x00" + string(key)
			if r, ok := cache[at]; ok && used < 3 {
				used++
				return r.Clone(), nil
			}
			r, err := l.Get(ctx, space, key)
			if err == nil {
				cache[at], used = r.Clone(), 0
			}
			return r, err
		}}
	}},
	{name: "lets time run backwards", law: Ordered, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, change: func(r mainstem.Record) mainstem.Record {
			r.Time = r.Time.Add(-time.Duration(r.Position) * time.Millisecond)
			return r
		}}
	}},
	{name: "loses the newest record with a restart", law: Durable, lines: 5, spoil: func(l *model.Log) *mutant {
		var newest mainstem.Record
		for r := range l.Feed(context.Background(), mainstem.Filter{}) {
			newest = r
		}
		if newest.Position > 0 { // it is a reopened log
			b := mainstem.NewBatch()
			b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: newest.Space, Key: newest.Key, Version: newest.Version})
			_, _ = l.Commit(context.Background(), b)
		}
		return &mutant{Log: l}
	}},
	{name: "ignores conditions", law: Conditional, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return l.Commit(ctx, without(b, nil, false, true))
		}}
	}},
	{name: "ignores the second condition", law: Conditional, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			c := without(b, nil, false, true)
			for _, cond := range b.Conditions()[:min(1, len(b.Conditions()))] {
				c.If(cond)
			}
			return l.Commit(ctx, c)
		}}
	}},
	{name: "forgets the positions of what was removed", law: Conditional, lines: 5, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return l.Commit(ctx, changed(b, func(c *mainstem.Condition) {
				at := mainstem.Range{Start: c.Key, End: append(slices.Clone(c.Key), 0), Tombstones: true}
				if held, _ := collect(l.Scan(ctx, c.Space, at)); len(held) == 0 {
					c.Position = math.MaxUint64
				}
			}))
		}}
	}},
	{name: "takes one position too many", law: Conditional, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return l.Commit(ctx, changed(b, func(c *mainstem.Condition) { c.Position++ }))
		}}
	}},
	{name: "takes one position too few", law: Conditional, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return l.Commit(ctx, changed(b, func(c *mainstem.Condition) { c.Position = max(c.Position, 1) - 1 }))
		}}
	}},
	{name: "takes the newest position of the space for that of a key", law: Conditional, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			for _, c := range b.Conditions() {
				if in, err := l.Space(ctx, c.Space); err == nil && c.Test == mainstem.TestNotAfter && in.Last > c.Position {
					return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Space: c.Space, Key: c.Key,
						Outcome: mainstem.NotWritten, Want: c, GotPosition: in.Last}
				}
			}
			return l.Commit(ctx, b)
		}}
	}},
	{name: "tests conditions, then commits", law: Conditional, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			if b.Len() == 0 || len(b.Conditions()) == 0 {
				return l.Commit(ctx, b)
			}
			tests := mainstem.NewBatch()
			for _, c := range b.Conditions() {
				tests.If(c)
			}
			if r, err := l.Commit(ctx, tests); err != nil {
				return r, err
			}
			time.Sleep(100 * time.Microsecond) // what a lock should have covered
			return l.Commit(ctx, without(b, nil, false, true))
		}}
	}},
	{name: "writes and says canceled", law: Honest, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			r, err := l.Commit(context.WithoutCancel(ctx), b)
			if err == nil && ctx.Err() != nil {
				return r, &mainstem.Error{Kind: mainstem.KindCanceled, Op: "commit", Outcome: mainstem.NotWritten, Err: ctx.Err()}
			}
			return r, err
		}}
	}},
	{name: "leaves conflicts unexplained", law: Conditional, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			r, err := l.Commit(ctx, b)
			var e *mainstem.Error
			if errors.As(err, &e) {
				err = e
			}
			return r, err
		}}
	}},
	{name: "says canceled of a deadline", law: Honest, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			r, err := l.Commit(ctx, b)
			if errors.Is(err, context.DeadlineExceeded) {
				err = &mainstem.Error{Kind: mainstem.KindCanceled, Op: "commit", Outcome: mainstem.NotWritten, Err: context.Canceled}
			}
			return r, err
		}}
	}},
	{name: "returns errors without kinds", law: Honest, lines: 2, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			r, err := l.Commit(ctx, b)
			if err != nil {
				err = fmt.Errorf("it did not work: %s", err)
			}
			return r, err
		}}
	}},
	{name: "forgets to say the outcome", law: Honest, lines: 2, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			r, err := l.Commit(ctx, b)
			var e *mainstem.Error
			if errors.As(err, &e) {
				e.Outcome = mainstem.NoOutcome
			}
			return r, err
		}}
	}},
	{name: "takes unknown spaces for empty ones", law: Honest, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, empty: true}
	}},
	{name: "ignores batch IDs", law: Idempotent, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return l.Commit(ctx, without(b, nil, true, false))
		}}
	}},
	{name: "cuts batch IDs", law: Idempotent, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			c := without(b, nil, true, true)
			c.ID = c.ID[:min(len(c.ID), mainstem.MaxBatchID-1)]
			return l.Commit(ctx, c)
		}}
	}},
	{name: "always keeps its own time", law: Exact, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			b = without(b, nil, true, true)
			b.Time = time.Time{}
			return l.Commit(ctx, b)
		}}
	}},
	{name: "makes nil empty", law: Exact, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, change: func(r mainstem.Record) mainstem.Record {
			if r.Value == nil && r.Live() {
				r.Value = []byte{}
			}
			return r
		}}
	}},
	{name: "sorts headers", law: Exact, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, change: func(r mainstem.Record) mainstem.Record {
			slices.SortStableFunc(r.Headers, func(a, b mainstem.Header) int { return strings.Compare(a.Name, b.Name) })
			return r
		}}
	}},
	{name: "lends what Get should give", law: Exact, spoil: func(l *model.Log) *mutant {
		var mu sync.Mutex
		cache := map[string]mainstem.Record{}
		return &mutant{Log: l, get: func(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
			r, err := l.Get(ctx, space, key)
			if err != nil {
				return r, err
			}
			mu.Lock()
			defer mu.Unlock()
			if c, ok := cache[space+string(key)]; ok && c.Position == r.Position {
				return c, nil
			}
			cache[space+string(key)] = r
			return r, nil
		}}
	}},
	{name: "never wakes followers", law: Live, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, deaf: true}
	}},
	{name: "keeps tombstones from followers", law: Live, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, hide: func(how string, r mainstem.Record) bool { return how == "follow" && !r.Live() }}
	}},
	{name: "does not notice a canceled follower", law: Live, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, follows: func(ctx context.Context, f *mainstem.Filter) context.Context {
			if f.Follow {
				return context.WithoutCancel(ctx)
			}
			return ctx
		}}
	}},
	{name: "brings followers what they did not ask for", law: Live, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, follows: func(ctx context.Context, f *mainstem.Filter) context.Context {
			if f.Follow {
				f.KeyPrefix = nil
			}
			return ctx
		}}
	}},
	{name: "repeats versions of forgotten keys", law: Contract, spoil: func(l *model.Log) *mutant {
		var mu sync.Mutex
		base := map[string]mainstem.Version{}
		at := func(space string, key []byte) string { return space + "\x00" + string(key) }
		return &mutant{Log: l,
			change: func(r mainstem.Record) mainstem.Record {
				mu.Lock()
				defer mu.Unlock()
				r.Version -= base[at(r.Space, r.Key)]
				return r
			},
			commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
				r, err := l.Commit(ctx, b)
				mu.Lock()
				defer mu.Unlock()
				for i, w := range b.Writes() {
					switch k := at(w.Space, w.Key); {
					case err == nil && w.Op == mainstem.OpForget:
						base[k] = l.Version(w.Space, w.Key)
					case err == nil && r.Versions[i] > 0:
						r.Versions[i] -= base[k]
					}
				}
				return r, err
			}}
	}},
	{name: "drops spaces by prefix", law: Contract, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, drop: func(ctx context.Context, name string) error {
			for in := range l.Spaces(ctx, name) {
				if in.Name != name {
					_ = l.DropSpace(ctx, in.Name)
				}
			}
			return l.DropSpace(ctx, name)
		}}
	}},
	{name: "gets many one by one", law: Atomic, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, many: func(ctx context.Context, space string, keys [][]byte) sequence {
			return func(yield func(mainstem.Record, error) bool) {
				for i := range keys {
					if err := mainstem.ValidateKeys(keys); err != nil {
						yield(mainstem.Record{}, err)
						return
					}
					for r, err := range l.GetMany(ctx, space, keys[i:i+1]) {
						if !yield(r, err) || err != nil {
							return
						}
					}
				}
			}
		}}
	}},
	{name: "gets many without what is missing", law: Contract, lines: 2, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, hide: func(how string, r mainstem.Record) bool { return how == "get many" && r.Version == 0 }}
	}},
	{name: "gets many in the order of the keys", law: Contract, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, many: func(ctx context.Context, space string, keys [][]byte) sequence {
			return l.GetMany(ctx, space, slices.SortedFunc(slices.Values(keys), bytes.Compare))
		}}
	}},
	{name: "gets many with tombstones", law: Contract, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, many: func(ctx context.Context, space string, keys [][]byte) sequence {
			return func(yield func(mainstem.Record, error) bool) {
				for r, err := range l.GetMany(ctx, space, keys) {
					if err == nil && r.Version == 0 && len(keys) < 100 { // a scan of the model sorts all its keys
						at := mainstem.Range{Start: r.Key, End: append(slices.Clone(r.Key), 0), Tombstones: true}
						for ended := range l.Scan(ctx, space, at) {
							r = ended
						}
					}
					if !yield(r, err) {
						return
					}
				}
			}
		}}
	}},
	{name: "gets a key of many only once", law: Contract, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, many: func(ctx context.Context, space string, keys [][]byte) sequence {
			return l.GetMany(ctx, space, slices.CompactFunc(slices.Clone(keys), bytes.Equal))
		}}
	}},
	{name: "scans one too few backwards", law: Contract, lines: 6, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, scans: func(r *mainstem.Range) {
			if r.Reverse && r.Limit > 1 {
				r.Limit--
			}
		}}
	}},
	{name: "scans to the end included", law: Contract, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, scans: func(r *mainstem.Range) {
			if r.End != nil {
				r.End = append(slices.Clone(r.End), 0)
			}
		}}
	}},
	{name: "truncates one too many", law: Contract, lines: 5, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return l.Commit(ctx, without(b, func(w *mainstem.Write) {
				if w.Op == mainstem.OpTruncate && w.Version <= l.Version(w.Space, w.Key) {
					w.Version++
				}
			}, true, true))
		}}
	}},
	{name: "counts a key too many", law: Contract, lines: 3, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, info: func(in *mainstem.SpaceInfo) {
			if in.Keys > 1 {
				in.Keys++
			}
		}}
	}},
	{name: "tells of a record that is not there yet", law: Ordered, lines: 1, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, info: func(in *mainstem.SpaceInfo) { in.Last++ }}
	}},
	{name: "shows expired records", law: Contract, lines: 4, spoil: func(l *model.Log) *mutant {
		return &mutant{Log: l, commit: func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return l.Commit(ctx, without(b, func(w *mainstem.Write) {
				if w.TTL > 0 && w.TTL < 100*time.Hour {
					w.TTL += 100 * time.Hour
				}
			}, true, true))
		}}
	}},
}
