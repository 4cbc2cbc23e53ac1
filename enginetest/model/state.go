package model

import (
	"bytes"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// state is everything that a log holds at one moment.
//
// Invariant: records are immutable once they are in a key; a change makes new
// slices or appends. So clone may share them.
type state struct {
	spaces map[string]*space
	order  []entry // every record ever written, by position; some are no longer held
	head   mainstem.Position
	newest time.Time // of the newest record
	clocks
}

// space is one space.
type space struct {
	id      uint64 // tells a space from an earlier one of the same name
	name    string
	policy  mainstem.Policy
	created time.Time
	updated time.Time
	last    mainstem.Position
	keys    map[string]*key // every key ever written
}

// key is one key.
//
// Invariant: records are in order of version, and none ends above head.
// Invariant: head never decreases.
type key struct {
	head    mainstem.Version
	last    mainstem.Position // of the newest record ever written
	records []mainstem.Record
}

// entry is a record's place in the order of the log.
type entry struct {
	position mainstem.Position
	id       uint64 // of the space
	space    string
	key      string
	version  mainstem.Version
}

func (s *state) clone() state {
	out := state{spaces: make(map[string]*space, len(s.spaces)), order: slices.Clip(s.order), head: s.head, newest: s.newest, clocks: s.clocks.clone()}
	for name, sp := range s.spaces {
		c := *sp
		c.keys = make(map[string]*key, len(sp.keys))
		for n, k := range sp.keys {
			kc := *k
			c.keys[n] = &kc
		}
		out.spaces[name] = &c
	}
	return out
}

// hidden reports whether r is no longer to be seen at time now.
func (sp *space) hidden(r *mainstem.Record, now moment) bool {
	return now.expired(r) || now.older(r, sp.policy.MaxAge)
}

// newest returns the record that ends at the newest version of k, or nil if it
// is not held or hidden.
func (sp *space) newest(k *key, now moment) *mainstem.Record {
	if k == nil || len(k.records) == 0 {
		return nil
	}
	r := &k.records[len(k.records)-1]
	if r.Version != k.head || sp.hidden(r, now) {
		return nil
	}
	return r
}

func (sp *space) live(k *key, now moment) bool {
	r := sp.newest(k, now)
	return r != nil && r.Live()
}

// at returns the index of the record of k that ends at v, or -1.
func (k *key) at(v mainstem.Version) int {
	i := sort.Search(len(k.records), func(i int) bool { return k.records[i].Version >= v })
	if i < len(k.records) && k.records[i].Version == v {
		return i
	}
	return -1
}

// get returns the newest record of name if it is live.
func (s *state) get(spaceName string, name []byte, now moment) (mainstem.Record, error) {
	sp := s.spaces[spaceName]
	if sp == nil {
		return mainstem.Record{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get", Space: spaceName}
	}
	if r := sp.newest(sp.keys[string(name)], now); r != nil && r.Live() {
		return now.shown(r).Clone(), nil
	}
	return mainstem.Record{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get", Space: spaceName, Key: bytes.Clone(name)}
}

// getMany returns the newest record of each key, or one of version 0 if it is not live.
func (s *state) getMany(spaceName string, keys [][]byte, now moment) ([]mainstem.Record, error) {
	sp := s.spaces[spaceName]
	if sp == nil {
		return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get many", Space: spaceName}
	}
	out := make([]mainstem.Record, len(keys))
	for i, name := range keys {
		out[i] = mainstem.Record{Space: spaceName, Key: name}
		if r := sp.newest(sp.keys[string(name)], now); r != nil && r.Live() {
			out[i] = now.shown(r)
		}
	}
	return out, nil
}

// scan returns the newest record of each key in r.
func (s *state) scan(spaceName string, r mainstem.Range, now moment) ([]mainstem.Record, error) {
	sp := s.spaces[spaceName]
	if sp == nil {
		return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "scan", Space: spaceName}
	}
	names := slices.Sorted(maps.Keys(sp.keys))
	if r.Reverse {
		slices.Reverse(names)
	}
	var out []mainstem.Record
	for _, name := range names {
		if !inRange(name, r) {
			continue
		}
		rec := sp.newest(sp.keys[name], now)
		if rec == nil || !rec.Live() && !r.Tombstones {
			continue
		}
		if r.Limit > 0 && len(out) == r.Limit {
			break
		}
		c := now.shown(rec)
		if r.KeysOnly {
			c.Value, c.Headers = nil, nil
		}
		out = append(out, c)
	}
	return out, nil
}

func inRange(name string, r mainstem.Range) bool {
	return strings.HasPrefix(name, string(r.Prefix)) &&
		name >= string(r.Start) &&
		(r.End == nil || name < string(r.End))
}

// read returns the records of one key that v asks for, and the key's newest version.
func (s *state) read(spaceName string, name []byte, v mainstem.Versions, now moment) ([]mainstem.Record, mainstem.Version, error) {
	sp := s.spaces[spaceName]
	if sp == nil {
		return nil, 0, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "read", Space: spaceName}
	}
	k := sp.keys[string(name)]
	if k == nil {
		return nil, 0, nil
	}
	first := sort.Search(len(k.records), func(i int) bool { return k.records[i].Version >= v.From })
	end := len(k.records)
	if v.To > 0 {
		end = max(first, sort.Search(end, func(i int) bool { return k.records[i].First() > v.To }))
	}
	asked := k.records[first:end]
	var out []mainstem.Record
	for i := range asked {
		if v.Limit > 0 && len(out) == v.Limit {
			break
		}
		r := &asked[i]
		if v.Reverse {
			r = &asked[len(asked)-1-i]
		}
		if !sp.hidden(r, now) {
			out = append(out, now.shown(r))
		}
	}
	return out, k.head, nil
}

// feed returns the records that f asks for, in the order of the log.
func (s *state) feed(f mainstem.Filter, now moment) []mainstem.Record {
	start := sort.Search(len(s.order), func(i int) bool { return s.order[i].position > f.After })
	var out []mainstem.Record
	for _, e := range s.order[start:] {
		if f.Spaces != nil && !slices.Contains(f.Spaces, e.space) || !strings.HasPrefix(e.key, string(f.KeyPrefix)) {
			continue
		}
		r := s.held(e)
		if r == nil || s.spaces[e.space].policy.NoFeed || s.spaces[e.space].hidden(r, now) {
			continue
		}
		if f.Limit > 0 && len(out) == f.Limit {
			break
		}
		out = append(out, now.shown(r))
	}
	return out
}

// held returns the record of e if the log still holds it.
func (s *state) held(e entry) *mainstem.Record {
	sp := s.spaces[e.space]
	if sp == nil || sp.id != e.id {
		return nil
	}
	k := sp.keys[e.key]
	if k == nil {
		return nil
	}
	if i := k.at(e.version); i >= 0 {
		return &k.records[i]
	}
	return nil
}

func (sp *space) info() mainstem.SpaceInfo {
	in := mainstem.SpaceInfo{Name: sp.name, Policy: clonePolicy(sp.policy), Created: sp.created, Last: sp.last, Updated: sp.updated}
	for _, k := range sp.keys {
		if len(k.records) > 0 {
			in.Keys++
		}
		for i := range k.records {
			in.Records++
			in.Bytes += size(&k.records[i])
		}
	}
	return in
}

// size counts the bytes of a record as [mainstem.Write.Size] does.
func size(r *mainstem.Record) int64 {
	w := mainstem.Write{Key: r.Key, Value: r.Value, Headers: r.Headers}
	return int64(w.Size())
}

func clonePolicy(p mainstem.Policy) mainstem.Policy {
	p.Metadata = maps.Clone(p.Metadata)
	return p
}
