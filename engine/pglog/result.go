package pglog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// result is what the function commit returned.
type result struct {
	base     int64 // records have the positions after it
	time     int64
	versions []int64 // of the writes of batches that are in neither map
	failures map[int]failure
	repeats  map[int]repeat
}

// failure is a batch that was refused. One of Condition, Space and Write is set.
type failure struct {
	Batch     int   `json:"batch"`
	Condition int   `json:"condition"` // its number among those of the call, from 1
	Space     int   `json:"space"`     // the number of an unknown one, from 1
	Write     int   `json:"write"`     // the number of one that is impossible, from 1
	Got       int64 `json:"got"`
	Live      bool  `json:"live"`
	Position  int64 `json:"position"`
}

// repeat is the receipt of a batch that was committed before.
type repeat struct {
	Batch    int     `json:"batch"`
	First    int64   `json:"first"`
	Last     int64   `json:"last"`
	Time     int64   `json:"time"`
	Versions []int64 `json:"versions"`
}

// The columns of the result.
const resultColumns = 6

// decodeResult reads what the call c returned.
func decodeResult(c *call, row [][]byte) (*result, error) {
	if len(row) != resultColumns || len(row[0]) != 8 || len(row[1]) != 8 {
		return nil, fmt.Errorf("the function commit returned %d columns: is the schema that of this version?", len(row))
	}
	r := &result{base: int64(binary.BigEndian.Uint64(row[0])), time: int64(binary.BigEndian.Uint64(row[1]))}
	var err error
	if r.versions, err = decodeInt8s(row[2]); err != nil {
		return nil, err
	}
	if row[5] != nil {
		heads, err := decodeInt8s(row[5])
		if err != nil {
			return nil, err
		}
		r.versions = make([]int64, len(c.keys))
		for i, k := range c.keys {
			if int(k) >= len(heads) {
				return nil, fmt.Errorf("the server returned %d versions of keys, want one more", len(heads))
			}
			r.versions[i] = heads[k] + c.upto[i]
		}
	}
	if len(row[3]) > 1 {
		var list []failure
		if err := json.Unmarshal(row[3][1:], &list); err != nil { // the first byte is the version of jsonb
			return nil, err
		}
		r.failures = make(map[int]failure, len(list))
		for _, f := range list {
			r.failures[f.Batch-1] = f
		}
	}
	if len(row[4]) > 1 {
		var list []repeat
		if err := json.Unmarshal(row[4][1:], &list); err != nil {
			return nil, err
		}
		r.repeats = make(map[int]repeat, len(list))
		for _, p := range list {
			r.repeats[p.Batch-1] = p
		}
	}
	return r, nil
}

// decodeSingle reads what the call c of append returned, nil if the server declined it.
func decodeSingle(c *call, row [][]byte) (*result, error) {
	if len(row) != 1 {
		return nil, fmt.Errorf("the function append returned %d columns: is the schema that of this version?", len(row))
	}
	if row[0] == nil {
		return nil, nil
	}
	n, err := decodeInt8s(row[0])
	if err != nil {
		return nil, err
	}
	if len(n) != 3 {
		return nil, fmt.Errorf("the function append returned %d numbers, want 3", len(n))
	}
	r := &result{base: n[0], time: n[1], versions: make([]int64, len(c.upto))}
	for i, upto := range c.upto {
		r.versions[i] = n[2] + upto
	}
	return r, nil
}

// decodeInt8s reads a bigint[] without nulls in PostgreSQL's binary format.
func decodeInt8s(b []byte) ([]int64, error) {
	if len(b) == 12 || b == nil {
		return nil, nil // no dimensions: it is empty
	}
	const element = 4 + 8
	if len(b) < arrayHead || binary.BigEndian.Uint32(b) != 1 || binary.BigEndian.Uint32(b[8:]) != oidInt8 ||
		uint64(len(b)-arrayHead) != uint64(binary.BigEndian.Uint32(b[12:]))*element {
		return nil, fmt.Errorf("malformed array of %d bytes", len(b))
	}
	out := make([]int64, (len(b)-arrayHead)/element)
	for i := range out {
		at := b[arrayHead+i*element:]
		if binary.BigEndian.Uint32(at) != 8 {
			return nil, fmt.Errorf("malformed array: element %d has %d bytes", i, int32(binary.BigEndian.Uint32(at)))
		}
		out[i] = int64(binary.BigEndian.Uint64(at[4:]))
	}
	return out, nil
}

func unixTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// receipt makes the receipt of the next batch that was committed, of n writes.
func (r *result) receipt(n int) (mainstem.Receipt, error) {
	if n == 0 {
		return mainstem.Receipt{}, nil
	}
	if n > len(r.versions) {
		return mainstem.Receipt{}, fmt.Errorf("the server returned %d versions too few", n-len(r.versions))
	}
	out := mainstem.Receipt{Time: unixTime(r.time), Versions: make([]mainstem.Version, n)}
	for i, v := range r.versions[:n] {
		out.Versions[i] = mainstem.Version(v)
		if v == 0 {
			continue
		}
		r.base++
		if out.Last = mainstem.Position(r.base); out.First == 0 {
			out.First = out.Last
		}
	}
	r.versions = r.versions[n:]
	return out, nil
}

// receipt returns the first receipt of a batch that was committed before.
func (p repeat) receipt() mainstem.Receipt {
	out := mainstem.Receipt{First: mainstem.Position(p.First), Last: mainstem.Position(p.Last), Time: unixTime(p.Time), Duplicate: true}
	for _, v := range p.Versions {
		out.Versions = append(out.Versions, mainstem.Version(v))
	}
	return out
}

// explain returns the error of a batch that was refused. before is how many conditions
// the batches before it in the call have.
func (f failure) explain(b *mainstem.Batch, before int) *mainstem.Error {
	e := &mainstem.Error{Op: "commit", Outcome: mainstem.NotWritten}
	if i := f.Condition - before - 1; f.Condition > 0 && i < len(b.Conditions()) {
		e.Kind, e.Want = mainstem.KindConflict, b.Conditions()[i]
		e.Want.Key = bytes.Clone(e.Want.Key)
		e.Space, e.Key, e.Got, e.GotLive = e.Want.Space, e.Want.Key, mainstem.Version(f.Got), f.Live
		if e.Want.Test == mainstem.TestNotAfter {
			e.GotPosition = mainstem.Position(f.Position)
		}
		return e
	}
	if f.Write > 0 && f.Write <= b.Len() {
		w := b.Writes()[f.Write-1]
		e.Kind, e.Space, e.Key = mainstem.KindNotFound, w.Space, bytes.Clone(w.Key)
		e.Err = fmt.Errorf("%s: no record ends at version %d", w.Op, w.Version)
		if w.Op == mainstem.OpTruncate {
			e.Kind = mainstem.KindInvalid
			e.Err = fmt.Errorf("truncate before version %d: it is in the future, the key is at version %d", w.Version, f.Got)
		}
		return e
	}
	e.Kind, e.Err = mainstem.KindInternal, fmt.Errorf("the server refused the batch for a reason that is unknown here: %+v", f)
	return e
}
