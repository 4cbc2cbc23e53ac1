package recordbatch_test

import (
	"testing"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func addSeeds(f *testing.F) {
	for _, c := range codecs {
		f.Add(build(f, c, samples()...))
	}
	f.Add(recordbatch.Marker{ProducerID: 1}.Batch())
	f.Add([]byte{})
}

// A batch that Verify accepts with Open can be decoded, has the number of records in its header,
// and can be read by franz-go. The checksum is corrected first, or hardly any input would pass.
func FuzzVerify(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= recordbatch.HeaderSize {
			data = append([]byte(nil), data...)
			reseal(data)
		}
		h, err := recordbatch.Verify(data, recordbatch.Check{Open: true, Control: true})
		if err != nil {
			return
		}
		var d recordbatch.Decoder
		n := int32(0)
		for r, err := range d.Records(data, 0) {
			if err != nil {
				t.Fatalf("accepted, but record %d: %v", n, err)
			}
			if r.Offset != int64(n) {
				t.Fatalf("record %d has offset %d", n, r.Offset)
			}
			n++
		}
		if n != h.NumRecords {
			t.Fatalf("%d records, the header says %d", n, h.NumRecords)
		}
		if !h.Control() {
			recordbatch.Place(data, 0, 0)
			if got := len(kgoReads(t, data)); got != int(n) {
				t.Fatalf("franz-go reads %d records, we %d", got, n)
			}
		}
	})
}

// Decoding and rewriting any bytes does not panic, and a rewritten batch is valid.
func FuzzRewrite(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= recordbatch.HeaderSize {
			data = append([]byte(nil), data...)
			reseal(data)
		}
		h, err := recordbatch.Parse(data)
		if err == nil {
			h.Committed()
		}
		var w recordbatch.Rewriter
		out, err := w.Rewrite(data, 10, 5, func(r recordbatch.Record) bool { return r.Offset%2 == 0 })
		if err != nil || out.Batch == nil {
			return
		}
		var d recordbatch.Decoder
		n := 0
		for r, err := range d.Records(out.Batch, 10) {
			if err != nil {
				t.Fatalf("rewritten record %d: %v", n, err)
			}
			if r.Offset%2 != 0 {
				t.Fatalf("offset %d was to go", r.Offset)
			}
			n++
		}
		if n != out.Kept {
			t.Fatalf("%d records, kept %d", n, out.Kept)
		}
	})
}
