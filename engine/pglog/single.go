package pglog

import (
	"bytes"
	"encoding/binary"

	"github.com/mainstemdev/mainstem"
)

// The parameters of the function append, in their order; the first three are as those of
// commit.
const (
	appendCondSpace = paramSync + 1 + iota
	appendCondName
	appendCondMark
	appendCondTest
	appendCondVersion
	appendSpace
	appendName
	appendMark
	appendRest
	appendN
	appendItems
	appendBytes
	appendTTL
	appendHeadersOne
	appendValueOne
	appendUpto
	appendCount
	appendTTLs
	appendSizes
	appendHeadersAll
	appendValues
	appendParams
)

// single is a call that puts to one key, which the function append does faster than
// commit. If the server declines it, it becomes a call of commit.
type single struct {
	conds []int32 // of each condition, its batch, from 1
	batch []int32 // of each write, its batch, from 1
	ttls  []int64 // of each write; nil if there are none
}

// encodeSingle makes a call of append for batches, nil if they are not for it.
func encodeSingle(batches []*mainstem.Batch) *call {
	var first *mainstem.Write
	var writes, conds, values, headers int
	for _, b := range batches {
		if b.ID != "" {
			return nil
		}
		for i := range b.Writes() {
			w := &b.Writes()[i]
			if first == nil {
				first = w
			}
			if w.Op != mainstem.OpPut || w.Space != first.Space || !bytes.Equal(w.Key, first.Key) {
				return nil
			}
			values += len(w.Value)
			headers += w.Size() - len(w.Key) - len(w.Value) + headerOverhead*len(w.Headers)
		}
		writes += b.Len()
		conds += len(b.Conditions())
	}
	if first == nil {
		return nil
	}
	e := singleEncoder{single: &single{batch: make([]int32, 0, writes)}, upto: make([]int64, 0, writes)}
	c := &call{params: make([][]byte, appendParams), single: e.single, touched: []string{first.Space}, names: []string{first.Space}}
	if writes > 1 {
		e.sizes, e.headers, e.values = newArray(oidInt4, writes, 4*writes), newArray(oidBytea, writes, headers+2*writes), newArray(oidBytea, writes, values)
	}
	if t := batches[0].Time; !t.IsZero() {
		c.params[paramGiven] = bigint(t.UnixNano())
	}
	e.conditions(batches, conds, c)
	for n, b := range batches {
		for i := range b.Writes() {
			e.write(int32(n+1), &b.Writes()[i])
		}
	}
	key := split(bytes.Clone(first.Key))
	c.params[appendSpace] = []byte(storable(first.Space))
	c.params[appendName], c.params[appendMark], c.params[appendRest] = key.first, key.mark, key.rest
	e.params(c, first)
	return c
}

// singleEncoder gathers the records of a single.
type singleEncoder struct {
	*single
	upto                   []int64
	bytes, last, ttl       int64 // ttl: the shortest
	counts                 bool  // a record has more items than one
	sizes, headers, values array
}

func (e *singleEncoder) write(batch int32, w *mainstem.Write) {
	n := len(e.upto)
	count, before := int64(max(w.Count, 1)), int64(0)
	if n > 0 {
		before = e.upto[n-1]
	}
	e.upto = append(e.upto, before+count)
	e.counts = e.counts || count > 1
	e.batch = append(e.batch, batch)
	if e.last = int64(w.TTL); w.TTL > 0 {
		if e.ttls == nil {
			e.ttls, e.ttl = make([]int64, n, cap(e.batch)), e.last
		}
		e.ttl = min(e.ttl, e.last)
	}
	if e.ttls != nil {
		e.ttls = append(e.ttls, e.last)
	}
	size := w.Size()
	e.bytes += int64(size)
	if e.sizes.buf == nil {
		return
	}
	e.sizes.int4(int32(size))
	e.values.bytes(w.Value)
	if len(w.Headers) == 0 {
		e.headers.bytes(nil)
	} else {
		e.headers.appended(func(dst []byte) []byte { return appendHeaders(dst, w.Headers) })
	}
}

// params sets what the records come to.
func (e *singleEncoder) params(c *call, first *mainstem.Write) {
	n := len(e.upto)
	c.upto, c.keys, c.ttl = e.upto, make([]int32, n), e.ttl
	numbers := make([]byte, 0, 4+3*8)
	number := func(v int64) []byte {
		at := len(numbers)
		numbers = binary.BigEndian.AppendUint64(numbers, uint64(v))
		return numbers[at:]
	}
	numbers = binary.BigEndian.AppendUint32(numbers, uint32(n))
	c.params[appendN] = numbers
	c.params[appendItems], c.params[appendBytes], c.params[appendTTL] = number(e.upto[n-1]), number(e.bytes), number(e.last)
	if e.sizes.buf == nil {
		if len(first.Headers) > 0 {
			c.params[appendHeadersOne] = appendHeaders(nil, first.Headers)
		}
		c.params[appendValueOne] = bytes.Clone(first.Value)
		return
	}
	if e.counts {
		c.params[appendUpto], c.params[appendCount] = int8s(e.upto), int8s(differences(e.upto))
	}
	if e.ttls != nil {
		c.params[appendTTLs] = int8s(e.ttls)
	}
	c.params[appendSizes], c.params[appendHeadersAll], c.params[appendValues] = e.sizes.param(), e.headers.param(), e.values.param()
}

// differences returns how much each number is above the one before.
func differences(upto []int64) []int64 {
	out := make([]int64, len(upto))
	before := int64(0)
	for i, v := range upto {
		out[i], before = v-before, v
	}
	return out
}

// conditions sets the conditions of all batches.
func (e *singleEncoder) conditions(batches []*mainstem.Batch, n int, c *call) {
	if n == 0 {
		return
	}
	spaces, names, marks := newArray(oidText, n, 32*n), newArray(oidBytea, n, 32*n), newArray(oidBytea, n, 0)
	tests, versions := newArray(oidInt2, n, 2*n), newArray(oidInt8, n, 8*n)
	for i, b := range batches {
		for j := range b.Conditions() {
			cond := &b.Conditions()[j]
			key := split(cond.Key)
			spaces.text(storable(cond.Space))
			names.bytes(key.first)
			marks.bytes(key.mark)
			tests.int2(int16(cond.Test))
			versions.int8(asked(cond))
			e.conds = append(e.conds, int32(i+1))
			c.names = append(c.names, cond.Space)
		}
	}
	c.params[appendCondSpace], c.params[appendCondName], c.params[appendCondMark] = spaces.param(), names.param(), marks.param()
	c.params[appendCondTest], c.params[appendCondVersion] = tests.param(), versions.param()
}

// general returns the call as one of commit. The call itself is of no use afterwards.
func (c *call) general() *call {
	s, q, n := c.single, c.params, len(c.upto)
	p := make([][]byte, params)
	p[paramNow], p[paramGiven], p[paramSync] = q[paramNow], q[paramGiven], q[paramSync]
	names := newArray(oidText, len(c.names), 64)
	for _, name := range c.names {
		names.text(storable(name))
	}
	p[paramSpaces], p[paramEdits] = names.param(), []byte{0}
	if len(s.conds) > 0 {
		spaces := make([]int32, len(s.conds))
		for i := range spaces {
			spaces[i] = int32(i + 2) // after the space of the key
		}
		p[paramCondBatch], p[paramCondSpace] = int4s(s.conds), int4s(spaces)
		copy(p[paramCondName:], q[appendCondName:appendCondVersion+1])
	}
	p[paramKeySpace], p[paramKeyLast], p[paramKeyN] = int4s([]int32{1}), int4s([]int32{int32(n)}), int4s([]int32{int32(n)})
	p[paramKeyName], p[paramKeyMark] = wrap(oidBytea, q[appendName]), wrap(oidBytea, q[appendMark])
	if len(q[appendRest]) > 0 {
		p[paramKeyRest] = wrap(oidBytea, q[appendRest])
	}
	p[paramKeyBytes], p[paramKeyCount], p[paramKeyTTL] = wrap(oidInt8, q[appendBytes]), wrap(oidInt8, q[appendItems]), wrap(oidInt8, q[appendTTL])
	keys, ttls := make([]int32, n), s.ttls
	for i := range keys {
		keys[i] = 1
	}
	if ttls == nil {
		ttls = make([]int64, n)
	}
	p[paramBatch], p[paramKey], p[paramUpto], p[paramCount], p[paramTTL] = int4s(s.batch), int4s(keys), int8s(c.upto), int8s(differences(c.upto)), int8s(ttls)
	ops := newArray(oidInt2, n, 2*n)
	for range n {
		ops.int2(int16(mainstem.OpPut))
	}
	p[paramOp] = ops.param()
	if n == 1 {
		p[paramSize], p[paramHeaders], p[paramValue] = wrap(oidInt4, q[appendBytes][4:]), wrap(oidBytea, q[appendHeadersOne]), wrap(oidBytea, q[appendValueOne])
	} else {
		p[paramSize], p[paramHeaders], p[paramValue] = q[appendSizes], q[appendHeadersAll], q[appendValues]
	}
	return &call{params: p, names: c.names, touched: c.touched, ttl: c.ttl, keys: c.keys, upto: c.upto}
}
