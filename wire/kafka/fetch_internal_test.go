package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
)

// The connection keeps the batches of an answer until it is encoded, also in a session, whose
// parts drop their references at once.
func TestSessionReturnsMemoryOfBatches(t *testing.T) {
	for _, id := range []int32{0, 1} { // without and with a session
		data := getBuffer(1 << 20)[:1<<20]
		part := &fetchPart{name: "t", chunk: partition.Chunk{Data: data}}
		f := &fetch{c: &conn{}, parts: []*fetchPart{part}, bytes: len(data)}
		f.fill(new(kmsg.FetchResponse), &session{id: id, incremental: id != 0, parts: f.parts})
		if got := f.c.fetched; len(got) != 1 || &got[0][0] != &data[0] || f.c.batches != len(data) {
			t.Errorf("session %d: the connection keeps %d buffers of %d bytes, want the one of %d", id, len(got), f.c.batches, len(data))
		}
		if f.c.dropBatches(); len(f.c.fetched) != 0 || f.c.batches != 0 {
			t.Errorf("session %d: the connection still keeps %d buffers", id, len(f.c.fetched))
		}
	}
}
