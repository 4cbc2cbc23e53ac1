package pglog

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
)

// drawPuts draws batches that put to one key.
func drawPuts(t *rapid.T) []*mainstem.Batch {
	key := append(longKey(t, "key"), 'k')
	var all []*mainstem.Batch
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		b := mainstem.NewBatch()
		for range rapid.IntRange(1, 3).Draw(t, "writes") {
			w := mainstem.Write{Space: "s", Key: slices.Clone(key)}
			w.Value = rapid.SampledFrom([][]byte{nil, {}, []byte("v"), []byte("value")}).Draw(t, "value")
			w.Count = rapid.SampledFrom([]uint32{0, 1, 1, 7}).Draw(t, "count")
			w.TTL = rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Hour}).Draw(t, "ttl")
			if rapid.Bool().Draw(t, "headers") {
				w.Headers = mainstem.Headers{{Name: "a", Value: []byte("x")}, {Name: "b"}}
			}
			b.Add(w)
		}
		all = append(all, b)
	}
	return all
}

// A single that the server declined is the call that it would have been otherwise.
func TestSingleBecomesGeneral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := drawPuts(t)
		single := encodeSingle(batches)
		if single == nil {
			t.Fatal("puts to one key are not a single")
		}
		want, err := encode(batches, false)
		if err != nil {
			t.Fatal(err)
		}
		got := single.general()
		for i := range want.params {
			if d := cmp.Diff(want.params[i], got.params[i]); d != "" {
				t.Fatalf("parameter %d: %s", i+1, d)
			}
		}
		if d := cmp.Diff([]any{want.names, want.touched, want.ttl, want.keys, want.upto}, []any{got.names, got.touched, got.ttl, got.keys, got.upto}); d != "" {
			t.Fatal(d)
		}
	})
}

func TestNoSingle(t *testing.T) {
	for name, change := range map[string]func(*mainstem.Batch){
		"no write":      func(b *mainstem.Batch) { b.Reset() },
		"an ID":         func(b *mainstem.Batch) { b.ID = "id" },
		"a delete":      func(b *mainstem.Batch) { b.Delete("s", []byte("k")) },
		"another key":   func(b *mainstem.Batch) { b.Put("s", []byte("l"), nil) },
		"another space": func(b *mainstem.Batch) { b.Put("t", []byte("k"), nil) },
	} {
		b := mainstem.NewBatch()
		b.Put("s", []byte("k"), []byte("v"))
		change(b)
		if encodeSingle([]*mainstem.Batch{b}) != nil {
			t.Errorf("%s: it is a single", name)
		}
	}
}

func TestAnswerToSingle(t *testing.T) {
	c := &call{upto: []int64{1, 3}}
	if r, err := decodeSingle(c, [][]byte{nil}); r != nil || err != nil {
		t.Errorf("declined: %v, %v", r, err)
	}
	r, err := decodeSingle(c, [][]byte{int8s([]int64{10, 11, 12})})
	if err != nil || r.base != 10 || r.time != 11 || !slices.Equal(r.versions, []int64{13, 15}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, row := range [][][]byte{{}, {nil, nil}, {int8s([]int64{1, 2})}, {[]byte("x")}} {
		if r, err := decodeSingle(c, row); err == nil {
			t.Errorf("%q is read as %+v", row, r)
		}
	}
}
