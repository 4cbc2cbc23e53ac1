package natskv_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

// On three nodes with three replicas, the leader steps down and a node is killed
// while clients write: what was acknowledged is there, lists and cached values are
// right, and a watch has told of every key.
func TestCluster(t *testing.T) {
	c := testnats.NewCluster(t, 3, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	o := &natskv.TableOptions{Replicas: 3}
	writer := table[string](t, openRestless(t, c.URL(), natskv.Options{}), "b", o)
	put(t, writer, "first", "0")
	reader := table[string](t, openRestless(t, c.URL(), natskv.Options{CacheBytes: 1 << 20}), "b", o)
	nearest := table[string](t, openRestless(t, c.URL(), natskv.Options{AnyReplica: true}), "b", o)
	w := follow(t, reader, nil)
	testkit.Eventually(t, "synced", func() bool { return slices.Contains(w.seen(), "synced") })

	var wg sync.WaitGroup
	var written atomic.Int64
	for i := range 3 {
		wg.Go(func() {
			for j := range 40 {
				put(t, writer, fmt.Sprintf("k%d-%02d", i, j), fmt.Sprint(j))
				written.Add(1)
			}
		})
	}
	testkit.Eventually(t, "written", func() bool { return written.Load() > 20 })
	c.StepDown("KV_b")
	testkit.Eventually(t, "written", func() bool { return written.Load() > 60 })
	down := c.Leader("KV_b")
	down.Stop()
	wg.Wait()
	down.Start()
	c.WaitHealthy("KV_b")

	testkit.Succeeds(t, "the index is up to date", func() error { return reader.Sync(ctx) })
	if n := len(keysInTheEnd(t, reader, &kv.Query{Prefix: "k"})); n != 120 {
		t.Errorf("%d keys; want 120", n)
	}
	testkit.Eventually(t, "the watch has told of every key", func() bool {
		n := 0
		for i := range 3 {
			for j := range 40 {
				if slices.ContainsFunc(w.seen(), func(s string) bool { return s == fmt.Sprintf("create k%d-%02d=%d", i, j, j) }) {
					n++
				}
			}
		}
		return n == 120
	})
	for i := range 3 {
		for _, b := range []*natskv.Bucket[string]{writer, reader} {
			if e := must[kv.Entry[string]](t)(b.Get(ctx, fmt.Sprintf("k%d-39", i))); e.Value != "39" {
				t.Errorf("value %q", e.Value)
			}
		}
	}
	testkit.Succeeds(t, "the index is up to date", func() error { return nearest.Sync(ctx) })
	for i := range 50 { // what this client wrote, it reads, whatever replica answers
		v := fmt.Sprint("v", i)
		put(t, nearest, "mine", v)
		if e := must[kv.Entry[string]](t)(nearest.Get(ctx, "mine")); e.Value != v {
			t.Fatalf("read %q after writing %q", e.Value, v)
		}
		if many := must[[]kv.Entry[string]](t)(nearest.GetMany(ctx, "mine", "first")); many[0].Value != v || many[1].Value != "0" {
			t.Fatalf("read %q and %q after writing %q", many[0].Value, many[1].Value, v)
		}
	}
	all := must[[]kv.Entry[string]](t)(reader.GetMany(ctx, keysInTheEnd(t, reader, nil)...))
	if len(all) != 121 && len(all) != 122 {
		t.Errorf("%d entries", len(all))
	}
}

// A mirror that lacks keys answers direct gets of the bucket. Reads do not go to it.
func TestMirrorOfABucket(t *testing.T) {
	c := testnats.NewCluster(t, 3, nil)
	ctx := t.Context()
	put(t, table[string](t, open(t, c.URL(), nil), "b", nil), "k", "v")
	put(t, table[string](t, open(t, c.URL(), nil), "b", nil), "mirrored", "v")
	must[jetstream.Stream](t)(js(t, c.URL()).CreateStream(ctx, jetstream.StreamConfig{
		Name: "KV_mirror", MaxMsgsPerSubject: 1, AllowDirect: true, MirrorDirect: true,
		Mirror: &jetstream.StreamSource{Name: "KV_b", FilterSubject: "$KV.b.mirrored"},
	}))
	nc := connect(t, c.URL())
	testkit.Eventually(t, "the mirror answers direct gets", func() bool {
		m, err := nc.Request("$JS.API.DIRECT.GET.KV_b.$KV.b.k", nil, testnats.Patience)
		return err == nil && m.Header.Get("Status") == "404"
	})
	b := table[string](t, open(t, c.URL(), nil), "b", nil)
	for range 50 {
		if e, err := b.Get(ctx, "k"); err != nil || e.Value != "v" {
			t.Fatalf("read %q, %v", e.Value, err)
		}
		if many := must[[]kv.Entry[string]](t)(b.GetMany(ctx, "k")); many[0].Value != "v" {
			t.Fatalf("read %q together", many[0].Value)
		}
	}
}
