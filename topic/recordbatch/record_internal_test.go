package recordbatch

import (
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shortRecords are records as clients send them.
var shortRecords = [][]byte{
	{12, 0, 0, 0, 1, 1, 0},
	{22, 0, 2, 0, 2, 'k', 2, 'v', 2, 2, 'h', 1},
}

// Where splitShort splits a record, splitAny splits it the same way. It splits those that clients
// send.
func TestSplitShort(t *testing.T) {
	for _, body := range shortRecords {
		if !compareSplits(t, body) {
			t.Errorf("%x is not split by splitShort", body)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		body := drawRecord(t)
		if rapid.Bool().Draw(t, "damaged") && len(body) > 0 {
			body[rapid.IntRange(0, len(body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		body = body[:rapid.OneOf(rapid.Just(len(body)), rapid.IntRange(0, len(body))).Draw(t, "length")]
		compareSplits(t, body)
	})
}

// FuzzSplit compares splitShort and splitAny on any bytes.
func FuzzSplit(f *testing.F) {
	for _, body := range shortRecords {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) { compareSplits(t, body) })
}

func compareSplits(t interface{ Fatalf(string, ...any) }, body []byte) bool {
	var fast, slow raw
	rest, ok := fast.splitShort(body)
	want, err := slow.splitAny(body)
	if ok && (err != nil || !reflect.DeepEqual(fast, slow) || len(rest) != len(want)) {
		t.Fatalf("%x: splitShort has %+v and %d more, splitAny %+v, %d more and %v", body, fast, len(rest), slow, len(want), err)
	}
	return ok
}

// drawRecord draws a record, with lengths and numbers of every size, and bytes after it.
func drawRecord(t *rapid.T) []byte {
	number := rapid.OneOf(rapid.Int64Range(-2, 70), rapid.Int64Range(-9000, 9000), rapid.Int64())
	field := rapid.SliceOfN(rapid.Byte(), 0, 5)
	bytes := func(b []byte, what string) []byte {
		if rapid.IntRange(0, 3).Draw(t, what+" is null") == 0 {
			return append(b, 1)
		}
		v := field.Draw(t, what)
		return append(binary.AppendVarint(b, int64(len(v))), v...)
	}
	in := []byte{rapid.Byte().Draw(t, "attributes")}
	in = binary.AppendVarint(in, number.Draw(t, "time"))
	in = binary.AppendVarint(in, number.Draw(t, "offset"))
	in = bytes(in, "key")
	in = bytes(in, "value")
	headers := rapid.IntRange(0, 3).Draw(t, "headers")
	in = binary.AppendVarint(in, int64(headers)+rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "wrong headers"))
	for range headers {
		name := field.Draw(t, "name")
		in = append(binary.AppendVarint(in, int64(len(name))), name...)
		in = bytes(in, "header")
	}
	out := binary.AppendVarint(nil, int64(len(in))+rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "wrong length"))
	return append(append(out, in...), field.Draw(t, "rest")...)
}

// BenchmarkSplit splits records of 100 bytes with both functions, by turns. It reports the time of
// splitShort as a share of that of splitAny.
func BenchmarkSplit(b *testing.B) {
	record := append([]byte{0, 10, 24, 8}, "key1"...)
	record = append(binary.AppendVarint(record, 100), make([]byte, 100)...)
	record = append(record, 0)
	body := append(binary.AppendVarint(nil, int64(len(record))), record...)
	var r raw
	var took [2]time.Duration
	for b.Loop() {
		began := time.Now()
		for range 1000 {
			if _, ok := r.splitShort(body); !ok {
				b.Fatal("not split")
			}
		}
		between := time.Now()
		for range 1000 {
			if _, err := r.splitAny(body); err != nil {
				b.Fatal(err)
			}
		}
		took[0] += between.Sub(began)
		took[1] += time.Since(between)
	}
	b.ReportMetric(float64(took[0])/float64(took[1]), "x-any")
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(1000*b.N), "ns/record")
}
