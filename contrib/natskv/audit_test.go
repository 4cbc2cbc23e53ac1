package natskv

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// brief delivers n keys, each with a second to live, two seconds of the server's clock apart,
// and returns the largest number of keys that the index had. There is no heartbeat.
func brief(t *testing.T, x *index, n int) (most int) {
	t.Helper()
	clock := x.stream.store.clock
	for i := range n {
		now := time.Unix(0, clock.now()).Add(2 * time.Second)
		clock.learn(clock.elapsed(), now)
		m := &nats.Msg{Subject: x.stream.subject + fmt.Sprint("k", i), Header: nats.Header{headerTTL: {"1s"}}}
		if err := x.deliver(m, delivery{seq: uint64(i + 1), number: uint64(i + 1), time: now.UnixNano()}); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
		most = max(most, x.keys.n)
	}
	return most
}

// A bucket that is written all the time never has a heartbeat, and so no audit: its expired
// keys are forgotten all the same.
func TestBusyIndexForgetsExpiredKeys(t *testing.T) {
	x := testIndex(0)
	x.stream.store.auditEvery = 0 // it is always time
	if most := brief(t, x, 30); most > 1 {
		t.Errorf("the index has had %d keys; want no more than the newest", most)
	}
}

// Expired keys do not count against the limit of an index, even if it is not yet time to
// look for them.
func TestFullIndexForgetsExpiredKeys(t *testing.T) {
	x := testIndex(0)
	x.stream.store.indexKeys = 10
	x.swept = time.Now()
	brief(t, x, 30)
	if x.keys.n > 10 || x.timed != x.keys.n {
		t.Errorf("the index has %d keys, of which %d expire; want 10 at most", x.keys.n, x.timed)
	}
}

// An audit forgets what has expired although the index is behind the server.
func TestAuditForgetsExpiredKeys(t *testing.T) {
	x := testIndex(0)
	x.swept = time.Now()
	brief(t, x, 3)
	info := &streamInfo{}
	info.State.LastSeq = 4
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.audit(info); x.keys.n > 1 {
		t.Errorf("the index has %d keys; want no more than the newest", x.keys.n)
	}
}
