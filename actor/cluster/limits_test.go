package cluster_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// With the smallest MaxMessage types are announced in parts, notices are cut, and what cannot be sent
// fails.
func TestTheSmallestMaxMessage(t *testing.T) {
	o := &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, MaxMessage: cluster.SmallestMessage, Logger: logger(t)}
	a, b := two(t, o)
	large, long := [300]int{}, [301]int{}
	for _, m := range []*member{a, b} {
		for i := range 200 {
			// Each name takes a tenth of a message, each problem too.
			if err := m.Register(fmt.Sprintf("%s%d", strings.Repeat("x", 100), i), reflect.New(reflect.ArrayOf(i+1, reflect.TypeFor[int]())).Elem().Interface()); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(m.Register("large", large), m.Register(strings.Repeat("y", 2000), long)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.RegisterError(strings.Repeat("z", 900), errors.New("only a has it")); err != nil {
		t.Fatal(err)
	}
	ctx := short(t, time.Minute)
	spawn(t, b, func(*actor.Context[any], any) error { return nil }, &actor.Options{Name: "any"})
	to := named[any](t, a, "b", "any")
	testkit.Eventually(t, "the last type to be taken", func() bool { return to.Send(ctx, large) == nil })
	if err := to.Send(ctx, [200]int{}); err != nil {
		t.Errorf("Send of a type that was announced: %v", err)
	}
	if err := to.Send(ctx, long); !errors.Is(err, cluster.ErrUnregistered) || !strings.Contains(err.Error(), "MaxMessage") {
		t.Errorf("Send of a type whose name does not fit: %v, want ErrUnregistered", err)
	}

	spawn(t, b, func(_ *actor.Context[Errand], m Errand) error {
		if err := m.Reply.Send(strings.Repeat("long", 500)); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("an answer that does not fit: %v, want Invalid", err)
		}
		return nil
	}, &actor.Options{Name: "answers"})
	_, err := actor.Ask(ctx, named[Errand](t, a, "b", "answers"), func(p actor.Reply[string]) Errand { return Errand{Reply: p} })
	if !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a question whose answer does not fit: %v, want Invalid", err)
	}

	here := worker(t, b, &actor.Options{Name: "ends"})
	_, reported := watching(t, a, named[job](t, a, "b", "ends"))
	testkit.Eventually(t, "a monitor", func() bool { i, err := b.node.Inspect(here.Address()); return err == nil && i.Monitors == 1 })
	do(t, here, func(*actor.Context[job]) error {
		return fmt.Errorf("%s: %w", strings.Repeat("long", 2000), errRefused)
	})
	only(t, reported, errRefused)

	for range 1000 {
		g, err := actor.GroupOf[job](b.node, "many")
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Join(worker(t, b, nil)); err != nil {
			t.Fatal(err)
		}
	}
	g, err := cluster.GroupOf[job](a.Cluster, "many")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Members(ctx); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Members of more than a message can name: %v, want Invalid", err)
	}
}

func TestATooSmallMaxMessageIsRefused(t *testing.T) {
	node, err := actor.Open("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	_, err = cluster.Join(node, &cluster.Options{Secret: secret, Plain: true, MaxMessage: cluster.SmallestMessage - 1})
	if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "MaxMessage is 1023") {
		t.Errorf("Join: %v, want Invalid", err)
	}
}

// A type of the peer that cannot be read is considered again after each Register. That does not use
// up the room for types that are not registered yet.
func TestIncompatibleTypesAreKeptOnce(t *testing.T) {
	a, b := two(t, nil)
	const types, rounds = 16, 300 // together more than 16 MiB of names
	for i := range types {
		name := fmt.Sprintf("%04000d", i)
		if err := a.RegisterError(name, fmt.Errorf("error %d", i)); err != nil {
			t.Fatal(err)
		}
		if err := b.Register(name, reflect.New(reflect.ArrayOf(i+1, reflect.TypeFor[int]())).Elem().Interface()); err != nil {
			t.Fatal(err)
		}
	}
	spawn(t, a, func(*actor.Context[any], any) error { return nil }, &actor.Options{Name: "any"})
	to, ctx := named[any](t, b, "a", "any"), short(t, time.Minute)
	if err := to.Send(ctx, [types]int{}); !errors.Is(err, cluster.ErrUnregistered) {
		t.Fatalf("Send of an incompatible type: %v, want ErrUnregistered", err)
	}
	for i := range rounds {
		if err := a.RegisterError(fmt.Sprint("round ", i), fmt.Errorf("round %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	late := [types + 1]int{}
	if err := b.Register("late", late); err != nil {
		t.Fatal(err)
	}
	if err := to.Send(ctx, late); !errors.Is(err, cluster.ErrUnregistered) {
		t.Fatalf("Send of a type that is not registered there: %v, want ErrUnregistered", err)
	}
	if err := a.Register("late", late); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the type to be taken", func() bool { return to.Send(ctx, late) == nil })
}
