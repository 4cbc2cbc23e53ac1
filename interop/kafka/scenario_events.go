package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
)

// events reads the events of a store as records: key = stream, value = data.
func events(e *Env) {
	store := "shop" + e.Run
	var want []Record
	for i := range 5 {
		stream := fmt.Sprintf("order-%d", i%2)
		e.Append(e.T, store, stream, "Placed", fmt.Sprintf(`{"n":%d}`, i))
		want = append(want, Record{Key: []byte(stream), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	topic := "event." + store
	alone := e.consumer(ConsumerOptions{Topic: topic, Start: AtStart})
	got := e.read(alone, 5)
	e.sameValues(got, want)
	e.Append(e.T, store, "order-9", "Placed", `{"n":9}`)
	e.sameValues(e.read(alone, 1), []Record{{Key: []byte("order-9"), Value: []byte(`{"n":9}`)}})
	e.closed(alone)
	for i, r := range got {
		if i > 0 && r.Offset <= got[i-1].Offset {
			e.Errorf("offset %d follows %d", r.Offset, got[i-1].Offset)
		}
	}

	o := ConsumerOptions{Topic: topic + ".order", Group: e.name("events")}
	c := e.consumer(o)
	again := e.read(c, 6)
	if diff := cmp.Diff(got, again[:5]); diff != "" {
		e.Errorf("the category's topic differs from the store's (-store +category):\n%s", diff)
	}
	e.must(c.Commit(e.ctx), "commit")
	e.closed(c)
	e.Append(e.T, store, "order-1", "Placed", `{"n":10}`)
	c = e.consumer(o)
	e.sameValues(e.read(c, 1), []Record{{Key: []byte("order-1"), Value: []byte(`{"n":10}`)}})
	e.closed(c)

	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second) // libraries that would try without end
	defer cancel()
	p := e.producer(ProducerOptions{Topic: topic, Acks: AcksAll, Codec: "none"})
	if err := p.Send(ctx, numbered("v", 1)); err == nil {
		e.Error("a record was produced to a topic of events")
	}
	_ = p.Close()
	if end := e.Judge.ReadAll(e.ctx, topic, false); len(end) != 7 {
		e.Errorf("the topic has %d records, want 7", len(end))
	}
}
