package registrar_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/registrar"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDNSFindsNodes(t *testing.T) {
	var z zone
	client := z.serve(t)
	z.srv("_mainstem._tcp.a.c.example.", 20, 0, 1, "backup.example.")
	z.srv("_mainstem._tcp.a.c.example.", 10, 0, 4370, "host1.example.")
	z.srv("_mainstem._tcp.off.c.example.", 0, 0, 0, ".")
	z.a("b.c.example.", "192.0.2.7")
	z.aaaa("six.c.example.", "2001:db8::7")
	z.srv("_mainstem._tcp.c.example.", 0, 0, 4370, "pod-1.c.example.")
	z.srv("_mainstem._tcp.c.example.", 0, 0, 4371, "pod-0.c.example.")
	z.srv("_mainstem._tcp.c.example.", 0, 0, 4371, "pod-0.d.example.")

	services := &registrar.DNS{Domain: "c.example", Service: "mainstem", Client: client}
	addresses := &registrar.DNS{Domain: "c.example.", Port: 99, Client: client}
	both := &registrar.DNS{Domain: "c.example", Service: "mainstem", Port: 99, Client: client}
	whole := &registrar.DNS{Port: 7, Client: client}
	for _, c := range []struct {
		d          *registrar.DNS
		node, want string
	}{
		{services, "a", "host1.example:4370"},
		{addresses, "b", "192.0.2.7:99"},
		{addresses, "six", "[2001:db8::7]:99"},
		{both, "a", "host1.example:4370"},
		{both, "b", "192.0.2.7:99"},
		{whole, "b.c.example", "192.0.2.7:7"},
		{services, "b", ""}, {services, "off", ""}, {both, "nobody", ""},
		{both, "a node", ""}, {both, "", ""}, {&registrar.DNS{Client: client}, "b", ""},
	} {
		addr, err := c.d.Resolve(t.Context(), c.node)
		if addr != c.want || (c.want == "") != errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("%q: %q, %v; want %q", c.node, addr, err, c.want)
		}
	}
	peers, err := services.Peers(t.Context())
	if want := (registrar.Static{"pod-0": "pod-0.c.example:4371", "pod-1": "pod-1.c.example:4370"}); err != nil || !maps.Equal(peers, want) {
		t.Errorf("peers %v, %v; want %v", peers, err, want)
	}
}

func TestDNSThatDoesNotAnswerIsNotTakenForNo(t *testing.T) {
	z := zone{broken: true}
	d := &registrar.DNS{Domain: "c.example", Port: 1, Client: z.serve(t)}
	if _, err := d.Resolve(t.Context(), "a"); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a server that fails: %v, want Unavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Resolve(ctx, "a"); !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("a context that has ended: %v, want Canceled", err)
	}
	list := registrar.Static{"b": "b:1"}
	if addr, err := registrar.First(d, list).Resolve(t.Context(), "b"); addr != "b:1" || err != nil {
		t.Errorf("First: %q, %v", addr, err)
	}
	if _, err := registrar.First(list, d).Resolve(t.Context(), "c"); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("First of which one is uncertain: %v, want Unavailable", err)
	}
	if _, err := registrar.First(list).Resolve(t.Context(), "c"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("First of which none knows: %v, want NotFound", err)
	}
}

func TestNodesFindEachOtherOnALog(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		a, b := registrar.New(log, &lease.Options{TTL: time.Minute}), registrar.New(log, nil)
		if _, err := a.Resolve(t.Context(), "a"); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("Resolve before Announce: %v, want Unavailable", err)
		}
		first := registrar.First(registrar.Static{"x": "x:1"}, b).(interface {
			registrar.Resolver
			Announce(ctx context.Context, node string, start uint64, addr string) error
		})
		err := errors.Join(a.Announce(t.Context(), "a", 1, "10.0.0.1:1"), first.Announce(t.Context(), "b", 2, "10.0.0.2:1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Announce(t.Context(), "c", 2, ""); !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("Announce of two nodes: %v, want Exists", err)
		}
		if addr, err := first.Resolve(t.Context(), "a"); addr != "10.0.0.1:1" || err != nil {
			t.Errorf("b finds a at %q, %v", addr, err)
		}
		if _, err := b.Resolve(t.Context(), "c"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("a node that is not there: %v, want NotFound", err)
		}
		if err := a.Withdraw(t.Context(), "a", 7); err != nil || a.Keeper() == nil {
			t.Errorf("Withdraw of another life: %v", err)
		}
		if err := a.Withdraw(t.Context(), "a", 1); err != nil {
			t.Error(err)
		}
		for changed := b.Keeper().Changed(); ; changed = b.Keeper().Changed() {
			if _, err := b.Resolve(t.Context(), "a"); errors.Is(err, mainstem.ErrNotFound) {
				break
			}
			<-changed
		}
		if err := errors.Join(a.Withdraw(t.Context(), "a", 1), b.Withdraw(t.Context(), "b", 2)); err != nil {
			t.Error(err)
		}
	})
}

// After a crash Announce waits for the end of the earlier life's session. Meanwhile
// the other methods return at once, or when their context ends.
func TestNothingHangsWhileAnnounceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		past, r := registrar.New(log, &lease.Options{TTL: time.Minute}), registrar.New(log, nil)
		if err := past.Announce(t.Context(), "a", 1, "10.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Announce(ctx, "a", 2, "10.0.0.1:2") }()
		synctest.Wait()
		if _, err := r.Resolve(t.Context(), "b"); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("Resolve during Announce: %v, want Unavailable", err)
		}
		if k := r.Keeper(); k != nil {
			t.Errorf("Keeper during Announce: %v, want none", k.Self())
		}
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := r.Withdraw(short, "a", 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Withdraw during Announce: %v, want the end of its context", err)
		}
		cancel()
		if err := <-done; !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("Announce: %v, want Canceled", err)
		}
		if err := past.Withdraw(t.Context(), "a", 1); err != nil {
			t.Error(err)
		}
	})
}

func ExampleFirst() {
	r := registrar.First(
		registrar.Static{"gateway": "10.0.0.1:4370"},
		&registrar.DNS{Domain: "cluster.internal", Service: "mainstem", Port: 4370},
	)
	addr, err := r.Resolve(context.Background(), "gateway")
	fmt.Println(addr, err)
	// Output: 10.0.0.1:4370 <nil>
}
