package natskv

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/kv"
)

func (p *presence) size() int { return len(p.live) + len(p.deleted) + len(p.before) }

// A watch that does not know what was there before knows the last deletions, not all.
func TestPresenceForgetsOldDeletions(t *testing.T) {
	const n = 10_000
	var p presence
	p.sync() // of such a watch it says nothing
	for i := range n {
		key := fmt.Sprint(i)
		if p.begin(key, 1, 0) {
			t.Fatalf("the first value of %s that it has met is one that created the key", key)
		}
		p.end(key)
		p.end(key)
		if p.size() > 2*watchedDeletions {
			t.Fatalf("%d keys are known after %d; want %d at most", p.size(), i+1, 2*watchedDeletions)
		}
	}
	for i := n - watchedDeletions; i < n; i++ {
		if key := fmt.Sprint(i); !p.begin(key, 1, 0) || p.begin(key, 1, 0) {
			t.Fatalf("of the values after the deletion of %s, the first creates the key and the second does not", key)
		}
	}
}

// A watch that knows all keys forgets those whose values have expired, and no others.
func TestPresenceForgetsExpiredValues(t *testing.T) {
	p := presence{complete: true}
	p.begin("current", 0, 0)
	p.sync()
	for i := range int64(10_000) {
		key := fmt.Sprint("brief", i)
		if !p.begin(key, i, i+2) || p.begin(key, i+1, i+2) || !p.begin(key, i+2, i+3) {
			t.Fatalf("%s is created by its first value and by the one after it has expired", key)
		}
		if p.size() > 2*presenceSweep {
			t.Fatalf("%d keys are known after %d; want %d at most", p.size(), i+1, 2*presenceSweep)
		}
	}
	for i := range int64(3 * presenceSweep) {
		if key := fmt.Sprint("lasting", i); !p.begin(key, 20_000, 0) || p.begin(key, 30_000, 0) {
			t.Fatalf("%s is created by its first value", key)
		}
	}
	for i := range int64(3 * presenceSweep) {
		key := fmt.Sprint("lasting", i)
		if p.begin(key, 40_000, 0) {
			t.Fatalf("%s is created by its third value", key)
		}
		p.end(key)
	}
	if p.begin("current", 50_000, 0) || p.size() != 1 {
		t.Errorf("%d keys are known; want one, whose value never expires", p.size())
	}
}

// While the values come that there are, the history of a key says what creates it.
func TestPresenceInHistory(t *testing.T) {
	p := presence{complete: true}
	for i, step := range []struct {
		key     string
		end     bool
		created bool
	}{
		{key: "a"}, {key: "a"}, {key: "a", end: true}, {key: "b", end: true}, {key: "a", created: true}, {key: "a"},
	} {
		if step.end {
			p.end(step.key)
		} else if got := p.begin(step.key, 1, 0); got != step.created {
			t.Errorf("step %d: the value creates %s: %v", i, step.key, got)
		}
	}
	p.sync()
	if p.begin("a", 1, 0) || !p.begin("b", 1, 0) || !p.begin("c", 1, 0) || p.size() != 3 {
		t.Errorf("of a, b and c, two are created, and %d are known", p.size())
	}
}

// What a watch yields after a value has expired is a creation, and it keeps no key that it
// does not yield.
func TestWatchYieldsCreationAfterExpiry(t *testing.T) {
	st := testIndex(0).stream
	var got []kv.Op
	w := watch[string]{
		Bucket: &Bucket[string]{store: st.store, stream: st}, o: kv.WatchOptions{MetaOnly: true, Prefix: "k"}, ctx: t.Context(),
		yield: func(e kv.Entry[string], err error) bool { got = append(got, e.Op); return err == nil },
	}
	w.presence.complete = true
	if err := cmp.Or(w.restart(bucketA), w.synced()); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"k", "other", "k", "k"} { // at 0, 2, 4 and 4.5 seconds
		m := &nats.Msg{Subject: st.subject + key, Header: nats.Header{headerTTL: {"1s"}}}
		at := min(time.Duration(2*i)*time.Second, 4500*time.Millisecond)
		if err := w.deliver(m, delivery{seq: uint64(i + 1), time: int64(at)}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []kv.Op{kv.OpSynced, kv.OpCreate, kv.OpCreate, kv.OpUpdate}; !slices.Equal(got, want) || w.presence.size() != 1 {
		t.Errorf("the watch has yielded %v and keeps %d keys; want %v and one", got, w.presence.size(), want)
	}
}
