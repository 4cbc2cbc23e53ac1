package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/recordbatch"

	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// The versions of the requests: the newest that name topics instead of numbering them.
const (
	produceVersion = 12
	fetchVersion   = 12
)

// mainstemFrames is Kafka's protocol with package recordbatch for the batches.
func mainstemFrames() stream.Factory {
	return stream.Factory{
		Name: "mainstem-kafka-frame", Note: "frames of Kafka's protocol: requests by franz-go's kmsg, batches by topic/recordbatch, verified as the server does",
		Protocol: func() (stream.Protocol, error) { return newKafkaFrames(&recordbatches{}), nil },
	}
}

// kmsgFrames is the same with franz-go's kmsg for the batches too.
func kmsgFrames() stream.Factory {
	return stream.Factory{
		Name: "kmsg-frame", Note: "frames of Kafka's protocol: requests and batches by franz-go's kmsg, checksums verified",
		Protocol: func() (stream.Protocol, error) { return newKafkaFrames(&kmsgBatches{}), nil },
	}
}

// batches makes and reads record batches.
type batches interface {
	batch(ms []stream.Message) ([]byte, error)
	records(batch []byte, f func(stream.Message) error) error
}

// kafkaFrames is requests, kept from one to the next.
type kafkaFrames struct {
	batches
	format    *kmsg.RequestFormatter
	produce   *kmsg.ProduceRequest
	fetch     *kmsg.FetchRequest
	gotFetch  kmsg.FetchRequest
	gotRecord kmsg.ProduceRequest
}

func newKafkaFrames(b batches) *kafkaFrames {
	f := &kafkaFrames{
		batches: b, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")),
		produce: kmsg.NewPtrProduceRequest(), fetch: kmsg.NewPtrFetchRequest(),
	}
	f.produce.SetVersion(produceVersion)
	f.produce.Acks, f.produce.TimeoutMillis = -1, 10_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Partitions = []kmsg.ProduceRequestTopicPartition{kmsg.NewProduceRequestTopicPartition()}
	f.produce.Topics = []kmsg.ProduceRequestTopic{topic}

	f.fetch.SetVersion(fetchVersion)
	fetched := kmsg.NewFetchRequestTopic()
	fetched.Partitions = []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
	f.fetch.Topics = []kmsg.FetchRequestTopic{fetched}
	return f
}

func (k *kafkaFrames) AppendProduce(dst []byte, topic string, ms []stream.Message) ([]byte, error) {
	b, err := k.batch(ms)
	if err != nil {
		return dst, err
	}
	k.produce.Topics[0].Topic, k.produce.Topics[0].Partitions[0].Records = topic, b
	return k.format.AppendRequest(dst, k.produce, 1), nil
}

func (k *kafkaFrames) ReadProduce(src []byte, f func(stream.Message) error) (topic string, err error) {
	if err := decodeRequest(src, &k.gotRecord); err != nil {
		return "", err
	}
	t := &k.gotRecord.Topics[0]
	return t.Topic, k.records(t.Partitions[0].Records, f)
}

func (k *kafkaFrames) AppendFetch(dst []byte, f stream.Fetch) ([]byte, error) {
	t := &k.fetch.Topics[0]
	t.Topic, t.Partitions[0].FetchOffset, t.Partitions[0].PartitionMaxBytes = f.Topic, f.Offset, f.Max
	return k.format.AppendRequest(dst, k.fetch, 1), nil
}

func (k *kafkaFrames) ReadFetch(src []byte) (stream.Fetch, error) {
	if err := decodeRequest(src, &k.gotFetch); err != nil {
		return stream.Fetch{}, err
	}
	t := &k.gotFetch.Topics[0]
	return stream.Fetch{Topic: t.Topic, Offset: t.Partitions[0].FetchOffset, Max: t.Partitions[0].PartitionMaxBytes}, nil
}

// decodeRequest decodes a frame whose header is of the flexible kind.
func decodeRequest(src []byte, req kmsg.Request) error {
	r := kbin.Reader{Src: src}
	if size := r.Int32(); int(size) != len(src)-4 {
		return fmt.Errorf("a frame of %d bytes says %d", len(src), size)
	}
	if key := r.Int16(); key != req.Key() {
		return fmt.Errorf("the key of the request is %d, want %d", key, req.Key())
	}
	req.SetVersion(r.Int16())
	_ = r.Int32()          // the correlation ID
	_ = r.NullableString() // the client ID
	kmsg.SkipTags(&r)
	if !r.Ok() {
		return errors.New("the header is cut off")
	}
	return req.ReadFrom(r.Src)
}

// recordbatches is package recordbatch.
type recordbatches struct {
	builder recordbatch.Builder
	decoder recordbatch.Decoder
}

func (r *recordbatches) batch(ms []stream.Message) ([]byte, error) {
	r.builder.Reset()
	for _, m := range ms {
		r.builder.Append(&recordbatch.Record{Timestamp: 1, Key: m.Key, Value: m.Value})
	}
	return r.builder.Finish(recordbatch.None)
}

func (r *recordbatches) records(batch []byte, f func(stream.Message) error) error {
	if _, err := recordbatch.Verify(batch, recordbatch.Check{}); err != nil {
		return err
	}
	for rec, err := range r.decoder.Records(batch, 0) {
		if err == nil {
			err = f(stream.Message{Key: rec.Key, Value: rec.Value})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kmsgBatches is franz-go's kmsg.
type kmsgBatches struct {
	raw, out []byte
}

// Where fields are in a batch; see package recordbatch.
const (
	batchLength = 8
	batchCRC    = 17
	batchSummed = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (k *kmsgBatches) batch(ms []stream.Message) ([]byte, error) {
	k.raw = k.raw[:0]
	for i, m := range ms {
		r := kmsg.Record{OffsetDelta: int32(i), Key: m.Key, Value: m.Value}
		size := 1 + 1 + kbin.VarintLen(int32(i)) + fieldLen(m.Key) + fieldLen(m.Value) + 1 // attributes, time, offset, headers
		r.Length = int32(size)
		k.raw = r.AppendTo(k.raw)
	}
	n := int32(len(ms))
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: n - 1, FirstTimestamp: 1, MaxTimestamp: 1,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: n, Records: k.raw,
	}
	k.out = b.AppendTo(k.out[:0])
	binary.BigEndian.PutUint32(k.out[batchLength:], uint32(len(k.out)-batchLength-4))
	binary.BigEndian.PutUint32(k.out[batchCRC:], crc32.Checksum(k.out[batchSummed:], castagnoli))
	return k.out, nil
}

// fieldLen is the length of a key or value with its own length before it.
func fieldLen(b []byte) int {
	if b == nil {
		return kbin.VarintLen(-1)
	}
	return kbin.VarintLen(int32(len(b))) + len(b)
}

func (k *kmsgBatches) records(batch []byte, f func(stream.Message) error) error {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(batch); err != nil {
		return err
	}
	if crc := crc32.Checksum(batch[batchSummed:], castagnoli); crc != uint32(b.CRC) {
		return fmt.Errorf("checksum %x, want %x", crc, b.CRC)
	}
	raw := b.Records
	for range b.NumRecords {
		length, n := kbin.Varint(raw)
		end := n + int(length)
		if n == 0 || end > len(raw) || end < n {
			return errors.New("a record is cut off")
		}
		var r kmsg.Record
		if err := r.ReadFrom(raw[:end]); err != nil {
			return err
		}
		if err := f(stream.Message{Key: r.Key, Value: r.Value}); err != nil {
			return err
		}
		raw = raw[end:]
	}
	return nil
}
