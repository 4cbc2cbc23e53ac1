package kafka

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// produce sends with each kind of acknowledgement and looks at what is stored: a
// library that meets a broker it does not trust sends uncompressed and says nothing.
func produce(codec string) func(*Env) {
	const n = 200
	return func(e *Env) {
		for _, acks := range []Acks{AcksNone, AcksOne, AcksAll} {
			e.T.Run(fmt.Sprintf("acks=%d", acks), func(t *testing.T) {
				e := &Env{T: t, Library: e.Library, Judge: e.Judge, Address: e.Address, Run: e.Run, ctx: e.ctx}
				topic := e.topic(fmt.Sprintf("produce.%s.%d", codec, acks), 1)
				p := e.producer(ProducerOptions{Topic: topic, Acks: acks, Codec: codec})
				sent := numbered("a value long enough that it is worth compressing, because it says the same again and again: ", n)
				e.must(p.Send(e.ctx, sent), "send")
				e.closed(p)
				e.must(eventually(e.ctx, func() error { // nobody says when acks=0 has arrived
					if end := e.Judge.End(e.ctx, topic); end != n {
						return fmt.Errorf("%d records arrived, want %d", end, n)
					}
					return nil
				}), "wait for what was sent")
				e.sameValues(e.Judge.ReadAll(e.ctx, topic, false), sent)
				codecs := e.Judge.Codecs(e.ctx, topic)
				if len(codecs) == 0 || slices.ContainsFunc(codecs, func(c string) bool { return c != codec }) {
					e.Errorf("batches are compressed with %v, want %s", codecs, codec)
				}
			})
		}
	}
}

// sameValues compares keys and values, in order.
func (e *Env) sameValues(got, want []Record) {
	e.Helper()
	if diff := cmp.Diff(values(want), values(got)); diff != "" {
		e.Errorf("%d records, want %d (-want +got):\n%s", len(got), len(want), diff)
	}
}

func values(records []Record) []string {
	var vs []string
	for _, r := range records {
		vs = append(vs, string(r.Key)+"="+string(r.Value))
	}
	return vs
}

func recordParts(e *Env) {
	topic := e.topic("parts", 3)
	at := time.Date(2020, 2, 29, 12, 0, 0, 987e6, time.UTC)
	sent := []Record{
		{Partition: 1, Key: []byte("k"), Value: []byte("v"), Time: at},
		{Partition: 1, Key: []byte("deleted"), Time: at.Add(time.Second)},
		{Partition: 1, Value: []byte("no key"), Time: at.Add(2 * time.Second)},
		{Partition: 1, Key: []byte{0, 0xff}, Value: []byte{0}, Time: at.Add(3 * time.Second)},
		{Partition: 1, Key: []byte("h"), Value: []byte("v"), Time: at.Add(4 * time.Second), Headers: []Header{
			{"a", []byte("1")}, {"a", []byte("2")}, {"ü", []byte{0, 0xfe}},
		}},
	}
	e.roundTrip(topic, sent)
}

// emptyIsNotNil sends an empty value, which is a record, and no value, which
// deletes the key when a topic is compacted.
func emptyIsNotNil(e *Env) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	e.roundTrip(e.topic("empty", 2), []Record{
		{Partition: 1, Key: []byte("k"), Value: []byte{}, Time: at},
		{Partition: 1, Key: []byte{}, Value: []byte("v"), Time: at},
		{Partition: 1, Key: []byte("k"), Time: at},
		{Partition: 1, Value: []byte("v"), Time: at},
	})
}

// roundTrip produces records, looks at them with the judge, and reads them.
func (e *Env) roundTrip(topic string, sent []Record) {
	e.Helper()
	p := e.producer(ProducerOptions{Topic: topic, Acks: AcksAll, Codec: "none"})
	e.must(p.Send(e.ctx, sent), "send")
	e.closed(p)
	for i := range sent {
		sent[i].Offset = int64(i)
	}
	judged := e.Judge.ReadAll(e.ctx, topic, false)
	if diff := cmp.Diff(sent, utc(judged)); diff != "" {
		e.Errorf("what was stored (-sent +stored):\n%s", diff)
	}
	group := e.name("parts") // a group reads all partitions
	c := e.consumer(ConsumerOptions{Topic: topic, Group: group})
	defer e.closed(c)
	if diff := cmp.Diff(sent, utc(e.read(c, len(sent)))); diff != "" {
		e.Errorf("what was read (-sent +read):\n%s", diff)
	}
}

func utc(records []Record) []Record {
	for i := range records {
		records[i].Time = records[i].Time.UTC()
	}
	return records
}
