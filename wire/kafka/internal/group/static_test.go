package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func (w *world) static(group, instance string) *classicMember {
	m := w.member(group)
	m.instance = &instance
	return m
}

// two returns a stable group of two static members, of which the first leads.
func two(t *testing.T, w *world) (a, b *classicMember) {
	t.Helper()
	a, b = w.static("g", "one"), w.static("g", "two")
	together(t, a)
	go b.join()
	synctest.Wait()
	a.join()
	synctest.Wait()
	complete(t, a, b)
	return a, b
}

// A static member that comes back without its ID gets the place of the former one without a
// rebalance. A client that still uses the former ID is fenced.
func TestStaticReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := two(t, w)
		old := *b
		b.id = ""
		resp := b.join()
		if resp.ErrorCode != 0 || b.gen != 2 || b.id == old.id || b.leader || resp.SkipAssignment {
			t.Fatalf("rejoined as %+v", resp)
		}
		wantCode(t, "the other", a.beat(), nil)
		wantCode(t, "sync", b.sync(nil).ErrorCode, nil)
		if b.got != old.got {
			t.Errorf("got %q, had %q", b.got, old.got)
		}
		wantCode(t, "heartbeat of the old ID", old.beat(), kerr.FencedInstanceID)
		wantCode(t, "join of the old ID", old.join().ErrorCode, kerr.FencedInstanceID)
		wantCode(t, "sync of the old ID", old.sync(nil).ErrorCode, kerr.FencedInstanceID)
		wantCode(t, "leave of the old ID", old.leave(), kerr.FencedInstanceID)
		stranger := w.static("g", "three")
		stranger.id, stranger.gen = a.id, 2
		wantCode(t, "heartbeat of another instance", stranger.beat(), kerr.UnknownMemberID)
	})
}

// A commit of the former client that is under way when the static member comes back is not stored.
func TestCommitOfReplacedStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.topics.create("t", 1)
		a, b := two(t, w)
		for name, m := range map[string]*classicMember{"leader": a, "other": b} {
			req := commitRequest("g", "t", 0, 7)
			req.MemberID, req.InstanceID, req.Generation = m.id, m.instance, m.gen
			w.beforeNext(func() {
				m.id = ""
				wantCode(t, name, m.join().ErrorCode, nil)
			})
			wantCode(t, name, w.commit(req), kerr.FencedInstanceID)
			if got := w.fetch("g", "t", 0); got != -1 {
				t.Errorf("%s: stored %d after the new client has read the offset", name, got)
			}
		}
		wantCode(t, "the leader", a.beat(), nil)
		wantCode(t, "the other", b.beat(), nil)
	})
}

func TestStaticLeaderReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := two(t, w)
		a.id = ""
		resp := a.join() // version 9
		if !resp.SkipAssignment || resp.LeaderID != a.id || len(resp.Members) != 2 || resp.Generation != 2 {
			t.Errorf("version 9: %+v", resp)
		}
		wantCode(t, "the other", b.beat(), nil)
		before := a.id
		a.id, a.version = "", 8
		resp = a.join()
		if resp.LeaderID != before || resp.LeaderID == a.id || len(resp.Members) != 0 || resp.Generation != 2 {
			t.Errorf("version 8: %+v", resp)
		}
		wantCode(t, "the other", b.beat(), nil)
	})
}

func TestStaticReplacedWithNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := two(t, w)
		b.id = ""
		b.protocol["range"] = "else"
		go b.join()
		synctest.Wait()
		wantCode(t, "the other", a.beat(), kerr.RebalanceInProgress)
		if resp := a.join(); resp.Generation != 3 || string(resp.Members[1].ProtocolMetadata) != "else" {
			t.Errorf("%+v", resp)
		}
		synctest.Wait()
	})
}

// A static member that does not join stays in the group over rebalances until its session ends.
func TestStaticAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := two(t, w)
		c := w.member("g")
		go c.join()
		synctest.Wait()
		a.protocol["range"] = "new"
		start := time.Now()
		resp := a.join()
		if took := time.Since(start); took != testSession {
			t.Errorf("waited for %v", took)
		}
		if len(resp.Members) != 2 {
			t.Errorf("%d members", len(resp.Members))
		}
		wantCode(t, "the one that was away", b.beat(), kerr.UnknownMemberID)
	})
}

func TestStaticLeftByAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := two(t, w)
		b.id = ""
		wantCode(t, "leave by instance", b.leave(), nil)
		wantCode(t, "again", b.leave(), kerr.UnknownMemberID)
		wantCode(t, "the other", a.beat(), kerr.RebalanceInProgress)
	})
}
