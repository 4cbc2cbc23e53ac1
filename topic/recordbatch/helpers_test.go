package recordbatch_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

var codecs = []recordbatch.Codec{recordbatch.None, recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd}

// samples has every shape of a record: null and empty keys and values, headers,
// timestamps out of order.
func samples() []recordbatch.Record {
	return []recordbatch.Record{
		{Timestamp: 1000, Key: []byte("key"), Value: []byte("value")},
		{Timestamp: 900, Key: nil, Value: []byte{}},
		{Timestamp: 5000, Key: []byte{}, Value: nil},
		{Timestamp: 1001, Key: []byte("h"), Value: bytes.Repeat([]byte("long "), 500), Headers: []recordbatch.Header{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}},
		}},
	}
}

func build(t testing.TB, c recordbatch.Codec, records ...recordbatch.Record) []byte {
	t.Helper()
	var b recordbatch.Builder
	for i := range records {
		b.Append(&records[i])
	}
	out, err := b.Finish(c)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(out)
}

// foreign builds a batch with franz-go's encoders and compressors only.
func foreign(t testing.TB, c recordbatch.Codec, records ...recordbatch.Record) []byte {
	t.Helper()
	var body []byte
	first, newest := records[0].Timestamp, records[0].Timestamp
	for i, r := range records {
		newest = max(newest, r.Timestamp)
		k := kmsg.Record{TimestampDelta64: r.Timestamp - first, OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		k.Length = int32(len(k.AppendTo(nil))) - 1 // one byte holds the length 0
		body = k.AppendTo(body)
	}
	if c != recordbatch.None {
		name := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}[c]
		comp, err := kgo.DefaultCompressor(name)
		if err != nil {
			t.Fatal(err)
		}
		var used kgo.CompressionCodecType
		body, used = comp.Compress(new(bytes.Buffer), body)
		if recordbatch.Codec(used) != c {
			t.Fatalf("franz-go used codec %d, want %d", used, c)
		}
	}
	k := kmsg.RecordBatch{
		FirstOffset: 77, PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(c), LastOffsetDelta: int32(len(records) - 1),
		FirstTimestamp: first, MaxTimestamp: newest, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(records)), Records: body, Length: int32(49 + len(body)),
	}
	k.CRC = int32(crc32.Checksum(k.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return k.AppendTo(nil)
}

// kgoReads returns the records that franz-go's consumer decodes from batches.
func kgoReads(t testing.TB, batches []byte) []*kgo.Record {
	t.Helper()
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t"},
		&kmsg.FetchResponseTopicPartition{RecordBatches: batches}, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatalf("franz-go: %v", fp.Err)
	}
	return fp.Records
}

func decode(t testing.TB, batch []byte, base int64) []recordbatch.Record {
	t.Helper()
	var d recordbatch.Decoder
	var out []recordbatch.Record
	for r, err := range d.Records(batch, base) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Clone())
	}
	return out
}

// show returns a record as a text in which nil and empty differ.
func show(r recordbatch.Record) string {
	return fmt.Sprintf("%d@%d %#v=%#v %#v", r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
}
