package singleton_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/singleton"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Ask is what the singleton is asked.
type Ask struct {
	Fail  bool
	Reply actor.Reply[uint64]
}

// alone is a cluster of one node.
type alone struct{ node *actor.Node }

func (a alone) Node() *actor.Node          { return a.node }
func (a alone) Register(string, any) error { return nil }

type counter struct{ lease *lease.Lease }

var errBroken = errors.New("broken")

func (a *counter) Receive(_ *actor.Context[Ask], m Ask) error {
	if m.Fail {
		return errBroken
	}
	return m.Reply.Send(a.lease.Epoch())
}

func fresh(l *lease.Lease) actor.Actor[Ask] { return &counter{l} }

func TestItIsStartedAnewWhenItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		node, err := actor.Open("a", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		k, err := lease.Open(t.Context(), log, lease.Member{Name: "a", Start: node.Start()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close(t.Context())
		s, err := singleton.Open(alone{node}, k, "one", fresh, nil)
		if err != nil {
			t.Fatal(err)
		}
		ask := func() uint64 {
			e, err := actor.Ask(t.Context(), s.Ref(), func(r actor.Reply[uint64]) Ask { return Ask{Reply: r} })
			if err != nil {
				t.Error(err)
			}
			return e
		}
		first := ask()
		for range 3 {
			if err := s.Ref().Send(t.Context(), Ask{Fail: true}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		if last := ask(); last <= first {
			t.Errorf("epoch %d after failures, %d before", last, first)
		}
		if node, epoch, ok := s.Owner(); node != "a" || !ok || epoch == 0 {
			t.Errorf("Owner: %q, %d, %v", node, epoch, ok)
		}
		if _, err := singleton.Open(alone{node}, k, "one", fresh, nil); !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("opened twice: %v, want Exists", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func ExampleOpen() {
	ctx := context.Background()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	node, err := actor.Open("a", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	k, err := lease.Open(ctx, log, lease.Member{Name: "a", Start: node.Start()}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close(ctx)
	s, err := singleton.Open(alone{node}, k, "invoicing", fresh, nil) // in a program: the *cluster.Cluster
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	epoch, err := actor.Ask(ctx, s.Ref(), func(r actor.Reply[uint64]) Ask { return Ask{Reply: r} })
	fmt.Println(epoch, err)
	// Output: 1 <nil>
}
