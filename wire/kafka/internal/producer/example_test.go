package producer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// A producer numbers its batches. One that is sent again, because the answer was
// lost, is stored once.
func Example() {
	ctx := context.Background()
	store, err := pebblelog.OpenMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	topics, err := topic.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer topics.Close()
	orders, err := topics.Create(ctx, "orders", topic.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := producer.Open(ctx, topics, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	who := m.InitProducerID(ctx, coord.Client{}, kmsg.NewPtrInitProducerIDRequest())
	batch := numbered(who.ProducerID, who.ProducerEpoch, 0, "an order")
	for range 2 {
		appends := []producer.Append{{Topic: orders, Partition: 0, Batch: batch}}
		m.Append(ctx, producer.AppendOptions{}, appends)
		fmt.Println("error code", appends[0].Code, "at offset", appends[0].Base)
	}
	end, err := orders.End(ctx, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("records:", end)
	// Output:
	// error code 0 at offset 0
	// error code 0 at offset 0
	// records: 1
}

// numbered returns a batch of one record, as a client sends it.
func numbered(pid int64, epoch int16, sequence int32, value string) []byte {
	var b recordbatch.Builder
	b.Append(&recordbatch.Record{Value: []byte(value)})
	batch, err := b.Finish(recordbatch.None)
	if err != nil {
		log.Fatal(err)
	}
	binary.BigEndian.PutUint64(batch[43:], uint64(pid))
	binary.BigEndian.PutUint16(batch[51:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[53:], uint32(sequence))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch
}
