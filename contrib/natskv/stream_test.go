package natskv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

// An audit notices that an operator has changed how long a bucket keeps values, and lists
// go by that.
func TestAuditFindsANewMaxAge(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := openStore(t, srv.URL(), &Options{AuditEvery: 10 * time.Millisecond, MaxStale: MinMaxStale})
	b := must[*Bucket[string]](t)(Open[string](s, "b", &TableOptions{MaxAge: time.Hour}))
	must[kv.Revision](t)(b.Put(ctx, "k", "v"))
	age := func() (age time.Duration) {
		for e, err := range b.List(ctx, &kv.Query{KeysOnly: true}) {
			if err != nil {
				t.Fatal(err)
			}
			age = e.Expires.Sub(e.Modified)
		}
		return age
	}
	if got := age(); got != time.Hour {
		t.Fatalf("the value is kept for %v; want 1h", got)
	}
	streams := jetStream(t, srv.URL())
	config := must[jetstream.Stream](t)(streams.Stream(ctx, "KV_b")).CachedInfo().Config
	config.MaxAge = 24 * time.Hour
	must[jetstream.Stream](t)(streams.UpdateStream(ctx, config))
	testkit.Eventually(t, "the list goes by the new age", func() bool { return age() == 24*time.Hour })
}

// What is known of a bucket is looked up again when it is used and old.
func TestFactsAreLookedUpAgain(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := openTable(t, srv.URL(), nil)
	old := *b.stream.known.Load()
	old.asked, old.replicas = old.asked.Add(-2*lookAgain), 3
	b.stream.known.Store(&old)
	testkit.Eventually(t, "the facts are new", func() bool {
		if _, err := b.Get(t.Context(), "k"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Fatal(err)
		}
		return b.stream.known.Load().replicas == 1
	})
}

// Calls that find out about a bucket in an outage end when their own contexts do, not one
// after another.
func TestLookupsHeedContexts(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := openStore(t, srv.URL(), &Options{Timeout: time.Hour})
	srv.Stop()
	b := must[*Bucket[string]](t)(Open[string](s, "b", nil))
	patient, end := context.WithCancelCause(t.Context())
	var first, calls sync.WaitGroup
	first.Go(func() { b.Get(patient, "k") })
	testkit.Eventually(t, "a lookup runs", func() bool {
		b.stream.mu.Lock()
		defer b.stream.mu.Unlock()
		return b.stream.last != nil
	})
	why := errors.New("enough")
	for i := range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		calls.Go(func() {
			if _, err := b.Get(ctx, fmt.Sprint("k", i)); !errors.Is(err, why) {
				t.Errorf("a read whose context has ended: %v", err)
			}
			if _, err := b.Put(ctx, "k", "v"); !errors.Is(err, why) {
				t.Errorf("a write whose context has ended: %v", err)
			}
		})
	}
	calls.Wait() // though the first still waits
	end(why)
	first.Wait()
}

// A bucket may have been created, or changed, by a request without an answer. The value that
// was to be written into it was not.
func TestOutcomesOfUnansweredChanges(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	var end atomic.Value // context.CancelFunc of the call that runs
	api := through(t, srv.URL(), func(request string, m *nats.Msg) bool {
		change := strings.HasPrefix(request, "STREAM.CREATE.") || strings.HasPrefix(request, "STREAM.UPDATE.")
		if change {
			end.Load().(context.CancelFunc)()
		}
		return change
	})
	openTable(t, srv.URL(), nil) // the bucket b
	s := openStore(t, srv.URL(), &Options{APIPrefix: api})
	b := must[*Bucket[string]](t)(Open[string](s, "new", nil))
	for _, test := range []struct {
		name string
		call func(ctx context.Context) error
		want mainstem.Outcome
	}{
		{"Ensure", b.Ensure, mainstem.Unknown},
		{"Adopt", func(ctx context.Context) error { return s.Adopt(ctx, "", "b") }, mainstem.Unknown},
		{"Put", func(ctx context.Context) error { _, err := b.Put(ctx, "k", "v"); return err }, mainstem.NotWritten},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		end.Store(cancel)
		var e *mainstem.Error
		if err := test.call(ctx); !errors.As(err, &e) || e.Outcome != test.want || e.Kind != mainstem.KindCanceled {
			t.Errorf("%s: %+v; want %s", test.name, err, test.want)
		}
		cancel()
	}
}

// A bucket that has no leader for a moment is asked again, whatever the call asks first.
func TestCallsWaitForALeader(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	var mu sync.Mutex
	refuse := make(map[string]bool) // by request; each once
	api := through(t, srv.URL(), func(request string, m *nats.Msg) bool {
		mu.Lock()
		defer mu.Unlock()
		request, _, _ = strings.Cut(request, ".KV_")
		refused := refuse[request]
		refuse[request] = false
		if refused {
			m.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`))
		}
		return refused
	})
	for _, test := range []struct {
		name string
		call func(ctx context.Context, b *Bucket[string]) error
	}{
		{"Ensure", func(ctx context.Context, b *Bucket[string]) error { return b.Ensure(ctx) }},
		{"Put", func(ctx context.Context, b *Bucket[string]) error { _, err := b.Put(ctx, "k", "v"); return err }},
		{"Get", func(ctx context.Context, b *Bucket[string]) error { _, err := b.Get(ctx, "k"); return err }},
		{"Count", func(ctx context.Context, b *Bucket[string]) error { _, err := b.Count(ctx, nil); return err }},
		{"Sync", func(ctx context.Context, b *Bucket[string]) error { return b.Sync(ctx) }},
		{"Adopt", func(ctx context.Context, b *Bucket[string]) error { return b.store.Adopt(ctx, "", "b") }},
		{"DropTable", func(ctx context.Context, b *Bucket[string]) error { return b.store.DropTable(ctx, "", "b") }},
	} {
		for _, begun := range []bool{false, true} {
			if begun && test.name == "DropTable" {
				continue // it is dropped
			}
			s := openStore(t, srv.URL(), &Options{APIPrefix: api})
			b := must[*Bucket[string]](t)(Open[string](s, "b", nil))
			if begun {
				must[int64](t)(b.Count(t.Context(), nil))
			}
			mu.Lock()
			for _, request := range []string{"STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE"} {
				refuse[request] = true
			}
			mu.Unlock()
			if err := test.call(t.Context(), b); err != nil {
				t.Errorf("%s, with an index: %v: %v", test.name, begun, err)
			}
		}
	}
}
