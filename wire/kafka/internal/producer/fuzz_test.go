package producer

import (
	"bytes"
	"testing"

	"github.com/mainstemdev/mainstem/enginetest/model"
)

// FuzzDecode checks that no stored value makes a decoder panic, and that a decoded value is encoded
// to the same bytes.
func FuzzDecode(f *testing.F) {
	names := []string{"head", "producer", "aborted", "transaction", "offsets"}
	for _, b := range examples() {
		for i := range names {
			f.Add(i, b)
		}
	}
	f.Fuzz(func(t *testing.T, i int, b []byte) {
		name := names[uint(i)%uint(len(names))]
		again, err := decodeAny(name, b)
		if err != nil || name == "transaction" || name == "offsets" {
			return // these may be in another order
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%s: %x becomes %x", name, b, again)
		}
	})
}

// FuzzAppend checks that no batch makes an append panic, that invalid batches are not stored, and
// that they do not change the answers of other producers.
func FuzzAppend(f *testing.F) {
	f.Add(plainBatch("a"), plainBatch("b"), true)
	f.Add(batch(id{1, 0}, 0, false, "a"), batch(id{1, 0}, 1, false, "b"), false)
	f.Add(batch(id{2, 0}, 0, true, "a"), batch(id{2, 0}, 1, true, "b"), true)
	f.Fuzz(func(t *testing.T, a, b []byte, txn bool) {
		x := newFixtureOn(t, model.New(nil))
		tp := x.topic("t", 1)
		name := "x"
		honest := x.init("")
		x.init(name)
		x.want(x.append(tp, 0, batch(honest, 0, false, "h")), nil, 0)
		o := AppendOptions{Implicit: true}
		if txn {
			o.TransactionalID = &name
		}
		both := []Append{{Topic: tp, Batch: a}, {Topic: tp, Batch: b}}
		x.m.Append(t.Context(), o, both)
		for _, one := range both {
			if (one.Code == 0) != (one.Base >= 0) {
				t.Errorf("code %d and offset %d", one.Code, one.Base)
			}
		}
		if len(a) < 61 || producerID(a) != honest.pid && (len(b) < 61 || producerID(b) != honest.pid) {
			x.want(x.append(tp, 0, batch(honest, 0, false, "h")), nil, 0)
		}
		x.stable(tp, 0)
		x.reopen(false)
		tp, _ = x.catalog.Topic(t.Context(), "t")
		x.stable(tp, 0)
	})
}
