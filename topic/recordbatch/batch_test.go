package recordbatch_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// franz-go's consumer reads the batches that are built here, and the batches of franz-go's encoders
// are read here.
func TestExchangeWithFranz(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			ours := build(t, c, samples()...)
			recordbatch.Place(ours, 40, 3)
			if h, err := recordbatch.Parse(ours); err != nil || h.Codec() != c {
				t.Fatalf("our batch has codec %v, error %v", h.Codec(), err)
			}
			got := kgoReads(t, ours)
			if len(got) != len(samples()) {
				t.Fatalf("franz-go reads %d records, want %d", len(got), len(samples()))
			}
			for i, want := range samples() {
				g := got[i]
				r := recordbatch.Record{Offset: g.Offset, Timestamp: g.Timestamp.UnixMilli(), Key: g.Key, Value: g.Value}
				for _, h := range g.Headers {
					r.Headers = append(r.Headers, recordbatch.Header{Key: h.Key, Value: h.Value})
				}
				want.Offset = 40 + int64(i)
				if show(r) != show(want) || g.LeaderEpoch != 3 {
					t.Errorf("franz-go reads %s of epoch %d\nwant %s of epoch 3", show(r), g.LeaderEpoch, show(want))
				}
			}

			theirs := foreign(t, c, samples()...)
			if _, err := recordbatch.Verify(theirs, recordbatch.Check{Open: true}); err != nil {
				t.Fatalf("verify: %v", err)
			}
			for i, r := range decode(t, theirs, 9) {
				want := samples()[i]
				want.Offset = 9 + int64(i)
				if show(r) != show(want) {
					t.Errorf("we read %s\nwant %s", show(r), show(want))
				}
			}
		})
	}
}

// Without compression a batch has only one encoding.
func TestSameBytesAsFranz(t *testing.T) {
	ours, theirs := build(t, recordbatch.None, samples()...), foreign(t, recordbatch.None, samples()...)
	recordbatch.Place(ours, 77, -1)
	if !bytes.Equal(ours, theirs) {
		t.Errorf("we write\n%x\nfranz-go writes\n%x", ours, theirs)
	}
}

func TestGoldenBytes(t *testing.T) {
	got := build(t, recordbatch.None, recordbatch.Record{Timestamp: 1_700_000_000_000, Key: []byte("k"), Value: []byte("v"), Headers: []recordbatch.Header{{Key: "h", Value: nil}}})
	recordbatch.Place(got, 5, 1)
	want := "0000000000000005" + "0000003d" + "00000001" + "02" + "ecc46c11" + "0000" + "00000000" +
		"0000018bcfe56800" + "0000018bcfe56800" + "ffffffffffffffff" + "ffff" + "ffffffff" + "00000001" +
		"16" + "00" + "00" + "00" + "026b" + "0276" + "02" + "0268" + "01"
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
	marker := recordbatch.Marker{ProducerID: 9, ProducerEpoch: 2, Commit: true, CoordinatorEpoch: 7, Timestamp: 1_700_000_000_000}.Batch()
	want = "0000000000000000" + "00000042" + "ffffffff" + "02" + "0c5e17c2" + "0030" + "00000000" +
		"0000018bcfe56800" + "0000018bcfe56800" + "0000000000000009" + "0002" + "ffffffff" + "00000001" +
		"20" + "00" + "00" + "00" + "08" + "00000001" + "0c" + "000000000007" + "00"
	if hex.EncodeToString(marker) != want {
		t.Errorf("marker\ngot  %x\nwant %s", marker, want)
	}
}

// Java clients frame snappy in blocks.
func TestXerialSnappy(t *testing.T) {
	plain := build(t, recordbatch.None, samples()...)
	body := plain[recordbatch.HeaderSize:]
	framed := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	for len(body) > 0 {
		n := min(100, len(body))
		block := s2.EncodeSnappy(nil, body[:n])
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
		body = body[n:]
	}
	b := append(slices.Clone(plain[:recordbatch.HeaderSize]), framed...)
	b[22] |= byte(recordbatch.Snappy)
	reseal(b)
	got := decode(t, b, 0)
	for i, want := range samples() {
		want.Offset = int64(i)
		if show(got[i]) != show(want) {
			t.Errorf("got %s, want %s", show(got[i]), show(want))
		}
	}
}

// reseal writes the right length and checksum into a batch that a test has changed.
func reseal(b []byte) {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], recordbatch.Checksum(b))
}

func TestVerifyRefuses(t *testing.T) {
	put16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); reseal(b); return b }
	}
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); reseal(b); return b }
	}
	put64 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint64(b[at:], v); reseal(b); return b }
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		check  recordbatch.Check
		want   recordbatch.Reason
		text   string
	}{
		{"empty", func([]byte) []byte { return nil }, recordbatch.Check{}, recordbatch.Corrupt, "0 bytes"},
		{"cut in the header", func(b []byte) []byte { return b[:60] }, recordbatch.Check{}, recordbatch.Corrupt, "60 bytes"},
		{"cut in the records", func(b []byte) []byte { return b[:len(b)-1] }, recordbatch.Check{}, recordbatch.Corrupt, "are there"},
		{"two batches", func(b []byte) []byte { return append(b, b...) }, recordbatch.Check{}, recordbatch.BadRecord, "one batch at a time"},
		{"old magic", func(b []byte) []byte { b[16] = 1; return b }, recordbatch.Check{}, recordbatch.OldFormat, "magic 1"},
		{"flipped bit", func(b []byte) []byte { b[len(b)-3] ^= 4; return b }, recordbatch.Check{}, recordbatch.Corrupt, "CRC-32C"},
		{"too large", nil, recordbatch.Check{MaxBytes: 100}, recordbatch.TooLarge, "limit is 100"},
		{"tiny length", func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 3); return b }, recordbatch.Check{}, recordbatch.Corrupt, "3 bytes"},
		{"negative length", func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 1<<31); return b }, recordbatch.Check{}, recordbatch.Corrupt, "header alone"},
		{"codec 5", put16(21, 5), recordbatch.Check{}, recordbatch.UnknownCodec, "codec 5"},
		{"control", put16(21, 1<<5), recordbatch.Check{}, recordbatch.BadRecord, "control"},
		{"delete horizon", put16(21, 1<<6), recordbatch.Check{}, recordbatch.BadRecord, "delete horizon"},
		{"unknown attribute", put16(21, 1<<7), recordbatch.Check{}, recordbatch.BadRecord, "attributes"},
		{"transactional without producer", put16(21, 1<<4), recordbatch.Check{}, recordbatch.BadRecord, "producer id"},
		{"more offsets than records", put32(23, 9), recordbatch.Check{}, recordbatch.BadRecord, "last offset delta 9"},
		{"negative delta", put32(23, 1<<31), recordbatch.Check{}, recordbatch.BadRecord, "last offset delta"},
		{"huge delta", put32(23, 1<<30), recordbatch.Check{}, recordbatch.BadRecord, "last offset delta"},
		{"fewer records", func(b []byte) []byte { return put32(23, 2)(put32(57, 3)(b)) }, recordbatch.Check{}, recordbatch.BadRecord, "follow the last"},
		{"more records", func(b []byte) []byte { return put32(23, 4)(put32(57, 5)(b)) }, recordbatch.Check{}, recordbatch.BadRecord, "record 4 of 5"},
		{"no records", func(b []byte) []byte { return put32(57, 0)(b) }, recordbatch.Check{}, recordbatch.BadRecord, "0 records"},
		{"timestamp", put64(27, 1<<63), recordbatch.Check{}, recordbatch.BadTimestamp, "timestamps"},
		{"no key", nil, recordbatch.Check{Keys: true}, recordbatch.BadRecord, "record 1 of 4 has no key"},
		{"record longer than the batch", func(b []byte) []byte { b[61] = 0x7e; reseal(b); return b }, recordbatch.Check{}, recordbatch.BadRecord, "record 0 of 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := build(t, recordbatch.None, samples()...)
			if c.change != nil {
				b = c.change(b)
			}
			_, err := recordbatch.Verify(b, c.check)
			var e *recordbatch.Error
			if !errors.As(err, &e) || e.Reason != c.want || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want reason %v and %q", err, c.want, c.text)
			}
		})
	}
}

// A compressed batch is decompressed only on request, see [recordbatch.Check]; only then are
// mistakes in its records found.
func TestVerifyCompressed(t *testing.T) {
	for _, c := range codecs[1:] {
		good := build(t, c, samples()...)
		if _, err := recordbatch.Verify(good, recordbatch.Check{}); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if _, err := recordbatch.Verify(good, recordbatch.Check{Keys: true}); err == nil || !strings.Contains(err.Error(), "no key") {
			t.Errorf("%v: a record without key: %v", c, err)
		}
		bad := slices.Clone(good)
		clear(bad[recordbatch.HeaderSize:])
		reseal(bad)
		if _, err := recordbatch.Verify(bad, recordbatch.Check{}); err != nil {
			t.Errorf("%v: an unopened batch: %v", c, err)
		}
		var e *recordbatch.Error
		if _, err := recordbatch.Verify(bad, recordbatch.Check{Open: true}); !errors.As(err, &e) {
			t.Errorf("%v: garbage inside: %v", c, err)
		}
	}
}

// A few bytes that declare a large decompressed size cost no memory.
func TestClaimsCostNothing(t *testing.T) {
	wrap := func(c recordbatch.Codec, body ...byte) []byte {
		b := append(build(t, recordbatch.None, samples()[0])[:recordbatch.HeaderSize], body...)
		b[22] |= byte(c)
		reseal(b)
		return b
	}
	for name, b := range map[string][]byte{
		"snappy": wrap(recordbatch.Snappy, binary.AppendUvarint(nil, 100<<20)...),
		"zstd":   wrap(recordbatch.Zstd, 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 6, 1, 0, 0),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := recordbatch.Verify(b, recordbatch.Check{Open: true})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: 100 MiB in a few bytes are accepted", name)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%s: a claim of 100 MiB allocates %d bytes", name, n)
		}
	}
}

// Many empty headers take few bytes, compressed. A decoder asks for the memory of their decoded
// form, allocates no more than that, and decodes none if it skips headers. Verify limits them.
func TestManyHeadersAreCounted(t *testing.T) {
	batch := func(headers int) []byte {
		return build(t, recordbatch.Zstd, recordbatch.Record{Headers: make([]recordbatch.Header, headers)})
	}
	if _, err := recordbatch.Verify(batch(recordbatch.MaxHeaders), recordbatch.Check{Open: true}); err != nil {
		t.Errorf("the most headers: %v", err)
	}
	over := batch(recordbatch.MaxHeaders + 1)
	var refused *recordbatch.Error
	if _, err := recordbatch.Verify(over, recordbatch.Check{Open: true}); !errors.As(err, &refused) || refused.Reason != recordbatch.BadRecord {
		t.Errorf("too many headers: %v", err)
	}
	count := func(d *recordbatch.Decoder) (headers int, allocated uint64, err error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for r, e := range d.Records(over, 0) {
			headers, err = len(r.Headers), e
		}
		runtime.ReadMemStats(&after)
		return headers, after.TotalAlloc - before.TotalAlloc, err
	}
	const need = 40 * (recordbatch.MaxHeaders + 1)
	most := 0
	d := recordbatch.Decoder{Room: func(n int) error { most = max(most, n); return nil }}
	if n, allocated, err := count(&d); n != recordbatch.MaxHeaders+1 || err != nil || most < need || allocated > uint64(most)*5/4 {
		t.Errorf("%d headers, %v: asked for %d bytes, want %d or more, and allocated %d", n, err, most, need, allocated)
	}
	full := errors.New("full")
	d = recordbatch.Decoder{Room: func(n int) error {
		if n > need {
			return full
		}
		return nil
	}}
	if n, _, err := count(&d); n != 0 || err != full {
		t.Errorf("without room: %d headers, %v", n, err)
	}
	d.SkipHeaders = true
	if n, _, err := count(&d); n != 0 || err != nil {
		t.Errorf("skipped: %d headers, %v", n, err)
	}
}

// One byte more than the limit is refused, whatever the codec.
func TestDecompressionIsBounded(t *testing.T) {
	const limit = 1 << 20
	for _, c := range codecs[1:] {
		for _, n := range []int{limit, limit + 1, 20 * limit} {
			small, err := recordbatch.Compress(nil, make([]byte, n), c)
			if err != nil || len(small) > n/10 {
				t.Fatalf("%v: %d bytes, %v", c, len(small), err)
			}
			out, err := recordbatch.Decompress(nil, small, c, limit)
			if (err == nil) != (n == limit) || err == nil && len(out) != n {
				t.Errorf("%v: %d bytes with a limit of %d: %d bytes, %v", c, n, limit, len(out), err)
			}
		}
	}
}

func TestStamp(t *testing.T) {
	for _, c := range codecs {
		b := build(t, c, samples()...)
		recordbatch.Stamp(b, 123456)
		for _, r := range kgoReads(t, b) {
			if r.Timestamp.UnixMilli() != 123456 || r.Attrs.TimestampType() != 1 {
				t.Errorf("%v: timestamp %d of type %d", c, r.Timestamp.UnixMilli(), r.Attrs.TimestampType())
			}
		}
		for _, r := range decode(t, b, 0) {
			if r.Timestamp != 123456 {
				t.Errorf("%v: we read timestamp %d", c, r.Timestamp)
			}
		}
	}
}

// The records that are kept have the same offsets, timestamps and bytes, for this package and for
// franz-go. The batch has the same offsets, codec and producer.
func TestRewrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) recordbatch.Record {
			return recordbatch.Record{
				Timestamp: rapid.Int64Range(0, 1<<41).Draw(t, "ms"),
				Key:       rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "key"),
				Value:     rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value"),
			}
		}), 1, 20).Draw(t, "records")
		keep := rapid.SliceOfN(rapid.Bool(), len(records), len(records)).Draw(t, "keep")
		codec := rapid.SampledFrom(codecs).Draw(t, "codec")
		horizon := rapid.SampledFrom([]int64{-1, 0, 1 << 41}).Draw(t, "horizon")
		var bld recordbatch.Builder
		var want []string
		for i := range records {
			bld.Append(&records[i])
			if keep[i] {
				r := records[i]
				r.Offset = 1000 + int64(i)
				want = append(want, show(r))
			}
		}
		data, err := bld.Finish(codec)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := recordbatch.Parse(data)
		var w recordbatch.Rewriter
		out, err := w.Rewrite(data, 1000, horizon, func(r recordbatch.Record) bool { return keep[r.Offset-1000] })
		if err != nil {
			t.Fatal(err)
		}
		if out.Kept != len(want) || out.Kept+out.Removed != len(records) {
			t.Fatalf("kept %d and removed %d of %d, want %d kept", out.Kept, out.Removed, len(records), len(want))
		}
		if out.Batch == nil {
			if len(want) > 0 && (len(want) < len(records) || horizon >= 0) {
				t.Fatal("nothing was rewritten")
			}
			return
		}
		after, err := recordbatch.Parse(out.Batch)
		if err != nil || after.Offsets() != before.Offsets() || after.Codec() != before.Codec() || after.ProducerID != before.ProducerID {
			t.Fatalf("header %+v, error %v; was %+v", after, err, before)
		}
		if ms, has := after.DeleteHorizon(); has != (horizon >= 0) || has && ms != horizon {
			t.Fatalf("delete horizon %d, %v; want %d", ms, has, horizon)
		}
		recordbatch.Place(out.Batch, 1000, 0)
		var d recordbatch.Decoder
		var got []string
		for r, err := range d.Records(out.Batch, 1000) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, show(r))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("we read %v, want %v", got, want)
		}
	})
}

func TestRewrittenBatchIsReadByFranz(t *testing.T) {
	var w recordbatch.Rewriter
	for _, c := range codecs {
		out, err := w.Rewrite(build(t, c, samples()...), 0, 777_000, func(r recordbatch.Record) bool { return r.Offset != 1 })
		if err != nil {
			t.Fatal(err)
		}
		var offsets, times []int64
		for _, r := range kgoReads(t, out.Batch) {
			offsets, times = append(offsets, r.Offset), append(times, r.Timestamp.UnixMilli())
		}
		if !slices.Equal(offsets, []int64{0, 2, 3}) || !slices.Equal(times, []int64{1000, 5000, 1001}) {
			t.Errorf("%v: franz-go reads offsets %v with timestamps %v", c, offsets, times)
		}
	}
}

func TestMarker(t *testing.T) {
	for _, commit := range []bool{true, false} {
		b := recordbatch.Marker{ProducerID: 9, ProducerEpoch: 2, Commit: commit, Timestamp: 5}.Batch()
		if _, err := recordbatch.Verify(b, recordbatch.Check{}); err == nil {
			t.Error("a client may write a marker")
		}
		h, err := recordbatch.Verify(b, recordbatch.Check{Control: true, Keys: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := h.Committed(); !ok || got != commit {
			t.Errorf("committed %v, %v; want %v", got, ok, commit)
		}
		if n := len(kgoReads(t, b)); n != 0 {
			t.Errorf("franz-go's consumer sees %d records of a marker", n)
		}
	}
	h, _ := recordbatch.Parse(build(t, recordbatch.None, samples()...))
	if _, ok := h.Committed(); ok {
		t.Error("data passes for a marker")
	}
}

func TestParseCodec(t *testing.T) {
	for _, c := range codecs {
		if got, err := recordbatch.ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if _, err := recordbatch.ParseCodec("brotli"); err == nil {
		t.Error("brotli is accepted")
	}
}
