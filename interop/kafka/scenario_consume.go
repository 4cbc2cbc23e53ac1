package kafka

import (
	"context"
	"strings"
	"time"
)

func consumeStart(e *Env) {
	const n = 5000
	topic := e.topic("start", 1)
	sent := numbered("v", n)
	for len(sent) > 0 { // several batches
		e.Judge.Produce(e.ctx, topic, sent[:500])
		sent = sent[500:]
	}
	c := e.consumer(ConsumerOptions{Topic: topic, Start: AtStart})
	defer e.closed(c)
	got := e.read(c, n)
	e.sameValues(got, numbered("v", n))
	for i, r := range got {
		if r.Offset != int64(i) {
			e.Fatalf("record %d has offset %d", i, r.Offset)
		}
	}
}

// consumeEnd cannot know when a library has found the end, so it produces until
// the consumer sees something.
func consumeEnd(e *Env) {
	topic := e.topic("end", 1)
	e.Judge.Produce(e.ctx, topic, numbered("old", 100))
	c := e.consumer(ConsumerOptions{Topic: topic, Start: AtEnd})
	defer e.closed(c)
	var first []Record
	err := eventually(e.ctx, func() error {
		e.Judge.Produce(e.ctx, topic, numbered("new", 1))
		ctx, cancel := context.WithTimeout(e.ctx, time.Second)
		defer cancel()
		var err error
		first, err = c.Poll(ctx)
		return err
	})
	e.must(err, "poll at the end")
	for _, r := range first {
		if strings.HasPrefix(string(r.Value), "old") {
			e.Errorf("read %s at %d, which was there before", r.Value, r.Offset)
		}
	}
	next := first[len(first)-1].Offset + 1
	e.Judge.Produce(e.ctx, topic, numbered("last", 1))
	for {
		for _, r := range e.read(c, 1) {
			if r.Offset != next {
				e.Fatalf("read offset %d, want %d", r.Offset, next)
			}
			if next++; string(r.Value) == "last0" {
				return
			}
		}
	}
}

func consumeTimestamp(e *Env) {
	topic := e.topic("timestamp", 1)
	t0 := time.Date(2021, 3, 4, 5, 6, 7, 0, time.UTC)
	sent := numbered("v", 100)
	for i := range sent {
		sent[i].Time = t0.Add(time.Duration(i) * time.Second)
	}
	e.Judge.Produce(e.ctx, topic, sent[:40])
	e.Judge.Produce(e.ctx, topic, sent[40:])
	// 1 ms after record 59, in the middle of the second batch
	c := e.consumer(ConsumerOptions{Topic: topic, Start: AtTime, Time: sent[59].Time.Add(time.Millisecond)})
	defer e.closed(c)
	if got := e.read(c, 40); got[0].Offset != 60 || len(got) != 40 {
		e.Errorf("read %d records from offset %d, want 40 from 60", len(got), got[0].Offset)
	}
}
