package pglog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

	"github.com/mainstemdev/mainstem"
)

// The parameters of the function commit, in their order.
const (
	paramNow = iota
	paramGiven
	paramSync
	paramSpaces
	paramIDs
	paramEnsures
	paramEdits
	paramCondBatch
	paramCondSpace
	paramCondName
	paramCondMark
	paramCondTest
	paramCondVersion
	paramKeySpace
	paramKeyName
	paramKeyMark
	paramKeyRest
	paramKeyN
	paramKeyBytes
	paramKeyCount
	paramKeyLast
	paramKeyTTL
	paramBatch
	paramKey
	paramOp
	paramCount
	paramUpto
	paramTTL
	paramVersion
	paramSize
	paramHeaders
	paramValue
	params
)

// call is a call of the function commit or append, ready to be sent. It shares no memory with the
// batches but names of spaces, which are strings.
type call struct {
	params  [][]byte
	single  *single  // it is one of the function append; else it is one of commit
	names   []string // of all spaces in it, by their number from 1
	touched []string // those that are written
	ttl     int64    // the shortest time to live in it, ns; 0: none
	keys    []int32  // of each write, the place of its key, from 0
	upto    []int64  // of each write, the items of its key up to its end
}

// encoder turns batches into a call.
type encoder struct {
	call    *call
	numbers map[string]int32
	touched map[int32]struct{}
	spaces  array
	ids     array
	conds   struct{ batch, space, name, mark, test, version array }
	writes  struct{ batch, key, op, count, upto, ttl, version, size, headers, value array }

	places map[place]int32
	keys   []keySum
	last   int32 // the key of the last write

	long  bool // a key has more bytes than nameMax
	hasID bool
	plain bool // all writes are puts
	edits bool
}

// place identifies a key in a call.
type place struct {
	space int32
	key   string
}

// keySum is a key of a call, and what its writes add up to.
type keySum struct {
	space int32
	key   []byte // of the batch
	n     int32
	bytes int64
	count int64
	last  int32
	ttl   int64
}

// encode makes the call for batches. One with a time of its own, or whose spaces must
// be created (ensure), comes alone.
func encode(batches []*mainstem.Batch, ensure bool) (*call, error) {
	c := &call{params: make([][]byte, params)}
	e := encoder{call: c, numbers: make(map[string]int32, 4), touched: make(map[int32]struct{}, 4), plain: true, last: -1}
	e.size(batches)
	for i, b := range batches {
		e.batch(int32(i+1), b)
	}
	e.params(c.params)
	if t := batches[0].Time; !t.IsZero() {
		c.params[paramGiven] = bigint(t.UnixNano())
	}
	c.params[paramEdits] = []byte{0}
	if e.edits {
		c.params[paramEdits][0] = 1
	}
	if ensures := batches[0].Ensures(); ensure && len(ensures) > 0 {
		text, err := encodeEnsures(ensures)
		if err != nil {
			return nil, err
		}
		c.params[paramEnsures] = text
	}
	return c, nil
}

// size makes room for everything.
func (e *encoder) size(batches []*mainstem.Batch) {
	var writes, conds, condKeys, values int
	for _, b := range batches {
		writes += b.Len()
		for i := range b.Writes() {
			w := &b.Writes()[i]
			values += len(w.Value)
			e.long = e.long || len(w.Key) > nameMax
			e.plain = e.plain && w.Op == mainstem.OpPut
			e.edits = e.edits || w.Op >= mainstem.OpPurge
		}
		conds += len(b.Conditions())
		for i := range b.Conditions() {
			condKeys += len(b.Conditions()[i].Key)
		}
		e.hasID = e.hasID || b.ID != ""
	}
	e.spaces, e.ids = newArray(oidText, 4, 64), newArray(oidBytea, len(batches), 0)
	w := &e.writes
	w.batch, w.key, w.size = newArray(oidInt4, writes, 4*writes), newArray(oidInt4, writes, 4*writes), newArray(oidInt4, writes, 4*writes)
	w.op, w.count = newArray(oidInt2, writes, 2*writes), newArray(oidInt8, writes, 8*writes)
	w.ttl, w.upto = newArray(oidInt8, writes, 8*writes), newArray(oidInt8, writes, 8*writes)
	w.headers, w.value, w.version = newArray(oidBytea, writes, 0), newArray(oidBytea, writes, values), newArray(oidInt8, 0, 0)
	c := &e.conds
	c.batch, c.space = newArray(oidInt4, conds, 4*conds), newArray(oidInt4, conds, 4*conds)
	c.name, c.mark = newArray(oidBytea, conds, condKeys), newArray(oidBytea, conds, 0)
	c.test, c.version = newArray(oidInt2, conds, 2*conds), newArray(oidInt8, conds, 8*conds)
	e.call.keys, e.call.upto = make([]int32, 0, writes), make([]int64, 0, writes)
}

// space returns the number of a space.
func (e *encoder) space(name string) int32 {
	n, ok := e.numbers[name]
	if !ok {
		e.call.names = append(e.call.names, name)
		n = int32(len(e.call.names))
		e.numbers[name] = n
		e.spaces.text(storable(name))
	}
	return n
}

// target returns the place of the key of a write among the keys of the call.
func (e *encoder) target(space string, key []byte) int32 {
	n := e.space(space)
	if e.last >= 0 { // most often it is that of the write before
		if k := &e.keys[e.last]; k.space == n && bytes.Equal(k.key, key) {
			return e.last
		}
	}
	if len(e.keys) == 1 && e.places == nil {
		e.places = map[place]int32{{e.keys[0].space, string(e.keys[0].key)}: 0}
	}
	at, ok := e.places[place{n, string(key)}]
	if !ok {
		at = int32(len(e.keys))
		if e.places != nil {
			e.places[place{n, string(key)}] = at
		}
		e.keys = append(e.keys, keySum{space: n, key: key})
		if _, ok := e.touched[n]; !ok {
			e.touched[n] = struct{}{}
			e.call.touched = append(e.call.touched, space)
		}
	}
	e.last = at
	return at
}

func (e *encoder) batch(n int32, b *mainstem.Batch) {
	if b.ID != "" {
		e.ids.text(b.ID)
	} else {
		e.ids.bytes(nil)
	}
	for i := range b.Conditions() {
		c := &b.Conditions()[i]
		key := split(c.Key)
		e.conds.batch.int4(n)
		e.conds.space.int4(e.space(c.Space))
		e.conds.name.bytes(key.first)
		e.conds.mark.bytes(key.mark)
		e.conds.test.int2(int16(c.Test))
		e.conds.version.int8(asked(c))
	}
	for i := range b.Writes() {
		e.write(n, &b.Writes()[i])
	}
}

func (e *encoder) write(n int32, w *mainstem.Write) {
	size, value, ttl, count := w.Size(), w.Value, w.TTL, int64(1)
	switch w.Op {
	case mainstem.OpPut:
		count = int64(max(w.Count, 1))
	case mainstem.OpRewrite:
		ttl = 0
	default: // a tombstone has no value
		size -= len(value)
		value, ttl = nil, 0
	}
	at := e.target(w.Space, w.Key)
	k := &e.keys[at]
	k.n++
	k.bytes += int64(size)
	k.count += count
	k.ttl = int64(ttl)
	e.call.keys, e.call.upto = append(e.call.keys, at), append(e.call.upto, k.count)
	k.last = int32(len(e.call.keys))
	if ttl > 0 && (e.call.ttl == 0 || int64(ttl) < e.call.ttl) {
		e.call.ttl = int64(ttl)
	}
	a := &e.writes
	a.batch.int4(n)
	a.key.int4(at + 1)
	a.op.int2(int16(w.Op))
	a.count.int8(count)
	a.upto.int8(k.count)
	a.ttl.int8(int64(ttl))
	a.size.int4(int32(size))
	a.value.bytes(value)
	if e.edits {
		a.version.int8(number(w.Version))
	}
	if len(w.Headers) == 0 {
		a.headers.bytes(nil)
	} else {
		a.headers.appended(func(dst []byte) []byte { return appendHeaders(dst, w.Headers) })
	}
}

func (e *encoder) params(c [][]byte) {
	c[paramSpaces] = e.spaces.param()
	if e.hasID {
		c[paramIDs] = e.ids.param()
	}
	for i, a := range []*array{&e.conds.batch, &e.conds.space, &e.conds.name, &e.conds.mark, &e.conds.test, &e.conds.version} {
		c[paramCondBatch+i] = a.param()
	}
	e.keyParams(c)
	w := &e.writes
	for i, a := range []*array{&w.batch, &w.key, &w.op, &w.count, &w.upto, &w.ttl, &w.version, &w.size, &w.headers, &w.value} {
		c[paramBatch+i] = a.param()
	}
}

func (e *encoder) keyParams(c [][]byte) {
	n, size := len(e.keys), 0
	for i := range e.keys {
		size += len(e.keys[i].key)
	}
	space, last, records := newArray(oidInt4, n, 4*n), newArray(oidInt4, n, 4*n), newArray(oidInt4, n, 4*n)
	names, marks, rests := newArray(oidBytea, n, size), newArray(oidBytea, n, 0), newArray(oidBytea, 0, 0)
	sizes, counts, ttls := newArray(oidInt8, n, 8*n), newArray(oidInt8, n, 8*n), newArray(oidInt8, n, 8*n)
	for i := range e.keys {
		k := &e.keys[i]
		key := split(k.key)
		space.int4(k.space)
		names.bytes(key.first)
		marks.bytes(key.mark)
		if e.long {
			rests.bytes(key.rest)
		}
		records.int4(k.n)
		sizes.int8(k.bytes)
		counts.int8(k.count)
		last.int4(k.last)
		ttls.int8(k.ttl)
	}
	c[paramKeySpace], c[paramKeyName], c[paramKeyMark], c[paramKeyRest] = space.param(), names.param(), marks.param(), rests.param()
	if e.plain {
		c[paramKeyN], c[paramKeyBytes], c[paramKeyCount], c[paramKeyLast], c[paramKeyTTL] = records.param(), sizes.param(), counts.param(), last.param(), ttls.param()
	}
}

// description is a space in the parameter for ensures.
type description struct {
	Name         string            `json:"name"`
	History      int               `json:"history"`
	MaxAge       int64             `json:"max_age"`
	MaxBytes     int64             `json:"max_bytes"`
	TombstoneAge int64             `json:"tombstone_age"`
	NoFeed       bool              `json:"no_feed"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

func describe(name string, p mainstem.Policy) description {
	return description{name, p.History, int64(p.MaxAge), p.MaxBytes, int64(p.TombstoneAge), p.NoFeed, p.Metadata}
}

func encodeEnsures(ensures []mainstem.Ensure) ([]byte, error) {
	out := make([]description, len(ensures))
	for i := range ensures {
		out[i] = describe(ensures[i].Space, ensures[i].Policy)
	}
	return json.Marshal(out)
}

// bigint encodes a parameter of that type.
func bigint(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// asked returns what a condition asks for, besides its test: a version or a position.
func asked(c *mainstem.Condition) int64 {
	if c.Test == mainstem.TestNotAfter {
		return number(c.Position)
	}
	return number(c.Version)
}
