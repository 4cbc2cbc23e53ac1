package names_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/names"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type job string

func member(t *testing.T, log mainstem.Log, name string) (*actor.Node, *lease.Keeper) {
	t.Helper()
	node, err := actor.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := lease.Open(t.Context(), log, lease.Member{Name: name, Start: node.Start()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(k.Close(context.Background()), node.Close()) })
	return node, k
}

func worker(t *testing.T, node *actor.Node) actor.Ref[job] {
	t.Helper()
	r, err := actor.Spawn(node, actor.Func[job](func(*actor.Context[job], job) error { return nil }), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// slow is a log whose commits let everything else happen first that can. Of several at the
// same time one does.
type slow struct {
	mainstem.Log
	waiting *atomic.Bool
}

func (l slow) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if l.waiting.CompareAndSwap(false, true) {
		synctest.Wait()
		l.waiting.Store(false)
	}
	return l.Log.Commit(ctx, b)
}

func TestTheNameOfAnActorThatEndsIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		na, ka := member(t, slow{log, new(atomic.Bool)}, "a")
		nb, kb := member(t, log, "b")
		printer := worker(t, na)
		n, err := names.Register(t.Context(), ka, "printer", printer)
		if err != nil {
			t.Fatal(err)
		}
		printer.Kill()
		<-n.Lease().Done()
		if err := n.Release(t.Context()); err != nil { // waits for the release that goes on
			t.Fatal(err)
		}
		if _, err := names.Register(t.Context(), kb, "printer", worker(t, nb)); err != nil {
			t.Errorf("Register after the actor has ended: %v", err)
		}
	})
}

func TestANameHasOneOwnerInTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		na, ka := member(t, log, "a")
		nb, kb := member(t, log, "b")
		if _, err := names.Lookup[job](ka, na, "printer"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("Lookup of nobody: %v, want NotFound", err)
		}
		printer := worker(t, na)
		n, err := names.Register(t.Context(), ka, "printer", printer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := names.Register(t.Context(), kb, "printer", worker(t, nb)); !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("Register of a name that is taken: %v, want Exists", err)
		}
		time.Sleep(time.Second)
		if r, err := names.Lookup[job](ka, na, "printer"); r != printer || err != nil {
			t.Errorf("Lookup at home: %v, %v", r, err)
		}
		far, err := names.Lookup[job](kb, nb, "printer")
		if err != nil || far.Address().Node != "a" || far.Address().Start != na.Start() {
			t.Errorf("Lookup from b: %v, %v", far.Address(), err)
		}
		if all := names.All(kb); len(all) != 1 || all["printer"] != "a" {
			t.Errorf("All: %v", all)
		}
		printer.Kill()
		<-n.Lease().Done()
		time.Sleep(time.Second)
		next, err := names.Register(t.Context(), kb, "printer", worker(t, nb))
		if err != nil || next.Lease().Epoch() <= n.Lease().Epoch() {
			t.Fatalf("Register after the actor has ended: %v", err)
		}
		if err := errors.Join(next.Release(t.Context()), n.Release(t.Context())); err != nil {
			t.Error(err)
		}
		last, err := names.Register(t.Context(), ka, "printer", worker(t, na))
		if err != nil {
			t.Fatal(err)
		}
		if err := ka.Close(t.Context()); err != nil { // the session ends, and the name with it
			t.Error(err)
		}
		<-last.Lease().Done()
		time.Sleep(time.Second)
		if _, err := names.Lookup[job](kb, nb, "printer"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("Lookup after the node has left: %v, want NotFound", err)
		}
		for _, bad := range []string{"", string(make([]byte, names.MaxName+1))} {
			if _, err := names.Register(t.Context(), kb, bad, worker(t, nb)); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("name of %d bytes: %v, want Invalid", len(bad), err)
			}
		}
		if _, err := names.Register(t.Context(), kb, "x", printer); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("an actor of another node: %v, want Invalid", err)
		}
	})
}

func Example() {
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
	ref, err := actor.Spawn(node, actor.Func[job](func(*actor.Context[job], job) error { return nil }), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := names.Register(ctx, k, "printer", ref)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Release(ctx)
	_, err = names.Register(ctx, k, "printer", ref)
	fmt.Println(err)
	// Output: acquire: exists: name/printer: it is held by this node
}
