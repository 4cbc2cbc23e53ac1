package lease_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/lease"
)

func virtual(t *testing.T, f func(t *testing.T, log mainstem.Log)) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		t.Cleanup(func() { _ = log.Close() })
		f(t, log)
	})
}

func TestMembersSeeEachOtherAndWhoLeaves(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		a := joinForGood(t, log, "a", 1)
		b := joinForGood(t, log, "b", 2)
		await(t, a, "b to be seen", func() bool { m, ok := a.Member("b"); return ok && m.Address == "b:2" && m.Start == 2 })
		if all := b.Members(); len(all) != 2 || all[0].Name != "a" || all[1] != b.Self() {
			t.Errorf("b sees %v", all)
		}
		watcher, err := lease.Open(t.Context(), log, lease.Member{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer leave(t, watcher)
		if n := len(watcher.Members()); n != 2 {
			t.Errorf("who only watches sees %d members, want 2", n)
		}
		if _, err := watcher.Acquire(t.Context(), "x", ""); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Acquire by one who only watches: %v, want ErrLost", err)
		}
		leave(t, b)
		await(t, a, "b to be gone", func() bool { _, ok := a.Member("b"); return !ok })
		if _, err := b.Session(t.Context()); !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("Session after Close: %v, want Closed", err)
		}
	})
}

func TestALeaseHasOneOwnerAndGoesOnWhenItIsReleased(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		a, b := joinForGood(t, log, "a", 1), joinForGood(t, log, "b", 1)
		first, err := a.Acquire(t.Context(), "printer", "on a")
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []*lease.Keeper{a, b} {
			if _, err := k.Acquire(t.Context(), "printer", ""); !errors.Is(err, lease.ErrHeld) || !errors.Is(err, mainstem.ErrExists) {
				t.Errorf("Acquire of what is held: %v, want ErrHeld", err)
			}
		}
		await(t, b, "the owner to be seen", func() bool {
			h, ok := b.Holder("printer")
			return ok && h.Node == "a" && h.Value == "on a" && h.Epoch == first.Epoch() && h.Session == first.Session()
		})
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if first.Valid() {
			t.Error("a lease that was released is valid")
		}
		second, err := b.Acquire(t.Context(), "printer", "on b")
		if err != nil {
			t.Fatal(err)
		}
		if second.Epoch() <= first.Epoch() {
			t.Errorf("the next owner has epoch %d, not above %d", second.Epoch(), first.Epoch())
		}
		if err := first.Release(t.Context()); err != nil || !second.Valid() {
			t.Errorf("releasing twice: %v", err)
		}
		leave(t, b)
		await(t, a, "the lease to be free", func() bool { _, ok := a.Holder("printer"); return !ok })
		if _, err := a.Acquire(t.Context(), "printer", ""); err != nil {
			t.Errorf("Acquire after the owner has left: %v", err)
		}
	})
}

// A fenced batch is committed only as long as its lease has the key, even if the former owner does
// not know that it has lost it.
func TestFencedWritesOfAFormerOwnerAreRefused(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		a, b := joinForGood(t, log, "a", 1), joinForGood(t, log, "b", 1)
		write := func(l *lease.Lease, value string) error {
			batch := mainstem.NewBatch()
			batch.Ensure("results", mainstem.Policy{})
			batch.Put("results", []byte("r"), []byte(value))
			l.Fence(batch)
			_, err := log.Commit(t.Context(), batch)
			return err
		}
		old, err := a.Acquire(t.Context(), "k", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := write(old, "a"); err != nil {
			t.Fatal(err)
		}
		if err := old.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := write(old, "too late"); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("a write after the release: %v, want Conflict", err)
		}
		new, err := b.Acquire(t.Context(), "k", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := write(new, "b"); err != nil {
			t.Fatal(err)
		}
		if err := write(old, "much too late"); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("a write of the former owner: %v, want Conflict", err)
		}
		r, err := log.Get(t.Context(), "results", []byte("r"))
		if err != nil || string(r.Value) != "b" {
			t.Errorf("the log has %q, %v", r.Value, err)
		}
	})
}

func TestAMemberThatIsCutOffStopsBeforeItsLeasesAreTaken(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		net := newNetwork(log)
		a, b := join(t, net, "a", 1), join(t, log, "b", 1)
		l, err := a.Acquire(t.Context(), "k", "")
		if err != nil {
			t.Fatal(err)
		}
		pass(5 * ttl) // renewed again and again
		if !l.Valid() {
			t.Fatal("a lease whose session is renewed has ended")
		}
		net.cut()
		cut := time.Now()
		<-l.Done()
		stopped := time.Since(cut)
		if l.Valid() || stopped > ttl {
			t.Errorf("the lease ended after %v, want at most %v", stopped, ttl)
		}
		if _, err := a.Acquire(t.Context(), "x", ""); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Acquire without a session: %v, want ErrLost", err)
		}
		if _, err := b.Acquire(t.Context(), "k", ""); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("Acquire at once: %v, want ErrHeld", err)
		}
		await(t, b, "the lease to be free", func() bool { _, ok := b.Holder("k"); return !ok })
		if free := time.Since(cut); free < stopped+ttl/10 || free > 2*ttl {
			t.Errorf("stopped after %v, free after %v", stopped, free)
		}
		next, err := b.Acquire(t.Context(), "k", "")
		if err != nil || next.Epoch() <= l.Epoch() {
			t.Fatalf("the next owner: %v, epochs %d and %d", err, l.Epoch(), next.Epoch())
		}
		net.heal()
		s, err := a.Session(t.Context())
		if err != nil || s.Epoch() <= l.Session() {
			t.Errorf("after healing: %v", err)
		}
		if _, err := a.Acquire(t.Context(), "other", ""); err != nil {
			t.Errorf("Acquire in the next session: %v", err)
		}
	})
}

// A node that has crashed and starts again can join when its earlier session is over, and no
// sooner.
func TestARestartedNodeWaitsForItsEarlierLife(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		net := newNetwork(log)
		old := join(t, net, "a", 1)
		l, err := old.Acquire(t.Context(), "k", "")
		if err != nil {
			t.Fatal(err)
		}
		pass(ttl)
		net.cut() // the same as a crash, for all others
		began := time.Now()
		k := join(t, log, "a", 2)
		if took := time.Since(began); took < ttl || took > 2*ttl {
			t.Errorf("the name was free after %v, want %v to %v", took, ttl, 2*ttl)
		}
		if m, _ := k.Member("a"); m.Start != 2 || m.Epoch != k.Self().Epoch {
			t.Errorf("the member is %+v", m)
		}
		next, err := k.Acquire(t.Context(), "k", "")
		if err != nil || next.Epoch() <= l.Epoch() {
			t.Errorf("what the earlier life had: %v", err)
		}
		net.heal()
		leave(t, old)
		pass(ttl)
		if !next.Valid() {
			t.Error("the earlier life has ended the later")
		}
	})
}

func TestANameIsRefusedWhileItsOwnerLives(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		join(t, log, "a", 1)
		began := time.Now()
		_, err := lease.Open(t.Context(), log, lease.Member{Name: "a", Start: 2}, &lease.Options{TTL: ttl})
		if !errors.Is(err, lease.ErrHeld) || time.Since(began) > ttl {
			t.Errorf("Open after %v: %v, want ErrHeld", time.Since(began), err)
		}
	})
}

// Leases of members that have crashed are deleted from the bucket.
func TestLeasesOfTheDeadAreRemoved(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		net := newNetwork(log)
		a, b := join(t, net, "a", 1), join(t, log, "b", 1)
		if _, err := a.Acquire(t.Context(), "k", ""); err != nil {
			t.Fatal(err)
		}
		net.cut()
		pass(4 * ttl)
		if _, err := log.Get(t.Context(), b.Space(), []byte("lease/k")); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the lease of a dead member: %v, want NotFound", err)
		}
		net.heal()
	})
}

// A keeper that could not watch the bucket for a while drops the entries that were deleted
// meanwhile.
func TestAKeeperThatWasCutOffSeesWhatIsGone(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		net := newNetwork(log)
		watcher, err := lease.Open(t.Context(), net, lease.Member{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer leave(t, watcher)
		a := join(t, log, "a", 1)
		await(t, watcher, "a", func() bool { _, ok := watcher.Member("a"); return ok })
		net.cut()
		leave(t, a)
		pass(time.Second)
		if _, ok := watcher.Member("a"); !ok {
			t.Error("a member that nobody said is gone is not there")
		}
		net.heal()
		await(t, watcher, "a to be gone", func() bool { _, ok := watcher.Member("a"); return !ok })
	})
}

// So does one that was cut off for so long that the log no longer has the deletions.
func TestAKeeperThatWasCutOffForADaySeesWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		net := newNetwork(log)
		watcher, err := lease.Open(t.Context(), net, lease.Member{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer leave(t, watcher)
		a := join(t, log, "a", 1)
		await(t, watcher, "a", func() bool { _, ok := watcher.Member("a"); return ok })
		net.cut()
		leave(t, a)
		pass(mainstem.DefaultTombstoneAge + time.Second)
		if err := log.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		net.heal()
		await(t, watcher, "a to be gone", func() bool { _, ok := watcher.Member("a"); return !ok })
	})
}

func TestMistakesAreInvalid(t *testing.T) {
	virtual(t, func(t *testing.T, log mainstem.Log) {
		for _, o := range []*lease.Options{{TTL: 1}, {TTL: 2 * lease.MaxTTL}, {Bucket: "a/b/c"}} {
			if _, err := lease.Open(t.Context(), log, lease.Member{Name: "a"}, o); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%+v: %v, want Invalid", o, err)
			}
		}
		for _, m := range []lease.Member{{Name: "a/b"}, {Name: "\xff"}, {Name: "a", Address: string(make([]byte, lease.MaxValue+1))}} {
			if _, err := lease.Open(t.Context(), log, m, nil); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%.20q: %v, want Invalid", m.Name, err)
			}
		}
		k := join(t, log, "a", 1)
		for _, key := range []string{"", string(make([]byte, mainstem.MaxKey))} {
			if _, err := k.Acquire(t.Context(), key, ""); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("key of %d bytes: %v, want Invalid", len(key), err)
			}
		}
	})
}
