package group

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestJoinRefusals(t *testing.T) {
	w := newWorld(t, Options{})
	for name, c := range map[string]struct {
		edit func(*kmsg.JoinGroupRequest)
		want *kerr.Error
	}{
		"no group":        {func(r *kmsg.JoinGroupRequest) { r.Group = "" }, kerr.InvalidGroupID},
		"long group":      {func(r *kmsg.JoinGroupRequest) { r.Group = string(make([]byte, 1025)) }, kerr.InvalidGroupID},
		"short session":   {func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 5999 }, kerr.InvalidSessionTimeout},
		"long session":    {func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1800001 }, kerr.InvalidSessionTimeout},
		"unknown member":  {func(r *kmsg.JoinGroupRequest) { r.MemberID = "who" }, kerr.UnknownMemberID},
		"no protocols":    {func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }, kerr.InconsistentGroupProtocol},
		"no type":         {func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }, kerr.InconsistentGroupProtocol},
		"empty instance":  {func(r *kmsg.JoinGroupRequest) { r.InstanceID = text("") }, kerr.InvalidRequest},
		"many protocols":  {func(r *kmsg.JoinGroupRequest) { r.Protocols = make([]kmsg.JoinGroupRequestProtocol, MaxProtocols+1) }, kerr.InvalidRequest},
		"long member id":  {func(r *kmsg.JoinGroupRequest) { r.MemberID = string(make([]byte, MaxMemberID+1)) }, kerr.InvalidRequest},
		"id is required":  {func(r *kmsg.JoinGroupRequest) {}, kerr.MemberIDRequired},
		"id not required": {func(r *kmsg.JoinGroupRequest) { r.Version = 3 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.member("g " + name)
			req := m.joinRequest()
			c.edit(req)
			resp := w.JoinGroup(ctx, coord.Client{}, req)
			wantCode(t, "join", resp.ErrorCode, c.want)
			if c.want != nil && resp.Generation != -1 {
				t.Errorf("generation %d with an error", resp.Generation)
			}
		})
	}
}

// All members get the same generation. The leader gets the metadata of all, the others none.
func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b, c := w.member("g"), w.member("g"), w.member("g")
		together(t, a)
		if a.gen != 1 || !a.leader {
			t.Fatalf("the first member has generation %d", a.gen)
		}
		var wg sync.WaitGroup
		wg.Go(func() { b.join() })
		wg.Go(func() { c.join() })
		synctest.Wait()
		wantCode(t, "heartbeat while others join", a.beat(), kerr.RebalanceInProgress)
		resp := a.join()
		wg.Wait()
		if a.gen != 2 || b.gen != 2 || c.gen != 2 || len(resp.Members) != 3 || b.leader || c.leader {
			t.Fatalf("generations %d %d %d, %d members", a.gen, b.gen, c.gen, len(resp.Members))
		}
		if string(resp.Members[1].ProtocolMetadata) != "meta of range" {
			t.Fatalf("the leader got %q", resp.Members[1].ProtocolMetadata)
		}
		wantCode(t, "heartbeat before the assignment", a.beat(), nil)
		complete(t, a, b, c)
		wantCode(t, "heartbeat", b.beat(), nil)
		if d := w.describe("g"); d.State != "Stable" || len(d.Members) != 3 || d.Protocol != "range" || d.Members[0].ClientHost != "host" || string(d.Members[0].MemberAssignment) != a.got {
			t.Errorf("described as %+v", d)
		}
	})
}

// A member that does not join before joinBy is removed.
func TestBarrierTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a)
		start := time.Now()
		beats := make(chan struct{})
		go func() { // a lives and does not join
			defer close(beats)
			synctest.Wait() // b waits in the barrier
			for time.Since(start) < testRebalance-time.Second {
				wantCode(t, "heartbeat", a.beat(), kerr.RebalanceInProgress)
				time.Sleep(3 * time.Second)
			}
		}()
		b.join()
		if took := time.Since(start); took != testRebalance {
			t.Errorf("the barrier was open for %v", took)
		}
		<-beats
		if !b.leader {
			t.Error("nobody leads")
		}
		complete(t, b)
		wantCode(t, "heartbeat of the one left behind", a.beat(), kerr.UnknownMemberID)
	})
}

// The barrier does not wait for a member whose session has ended.
func TestSessionEndsInBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a)
		start := time.Now()
		b.join()
		if took := time.Since(start); took != testSession {
			t.Errorf("waited for %v", took)
		}
		complete(t, b)
	})
}

func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a, b)
		for range 5 {
			time.Sleep(testSession / 2)
			a.beat()
		}
		synctest.Wait()
		wantCode(t, "the silent member", b.beat(), kerr.UnknownMemberID)
		wantCode(t, "the other", a.beat(), kerr.RebalanceInProgress)
		time.Sleep(2 * testSession)
		synctest.Wait()
		if d := w.describe("g"); d.State != "Empty" || len(d.Members) != 0 {
			t.Errorf("without members: %+v", d)
		}
	})
}

// The barrier waits for a pending ID at most one session.
func TestPendingMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		lost := w.member("g")
		resp := w.JoinGroup(ctx, coord.Client{ID: "client"}, lost.joinRequest())
		wantCode(t, "join", resp.ErrorCode, kerr.MemberIDRequired)
		start := time.Now()
		a := w.member("g")
		a.join()
		if took := time.Since(start); took != testSession {
			t.Errorf("waited for %v", took)
		}
		lost.id = resp.MemberID
		wantCode(t, "late use of the ID", lost.join().ErrorCode, kerr.UnknownMemberID)
	})
}

// A client that disconnects while it waits, and has not got its ID, is removed.
func TestClientGoesWhileJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a)
		short, cancel := context.WithCancel(ctx)
		done := make(chan int16)
		b.version = 3
		go func() { done <- w.JoinGroup(short, coord.Client{}, b.joinRequest()).ErrorCode }()
		synctest.Wait()
		cancel()
		wantCode(t, "join", <-done, kerr.CoordinatorNotAvailable)
		start := time.Now()
		together(t, a)
		if time.Since(start) != 0 || a.gen != 2 {
			t.Errorf("generation %d after %v", a.gen, time.Since(start))
		}
	})
}

func TestRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a)
		go func() { time.Sleep(time.Second); a.join() }()
		b.join()
		synctest.Wait()
		// Without a change a follower gets the same generation again, before and after the assignment.
		before := w.log.count()
		if resp := b.join(); resp.Generation != 2 || len(resp.Members) != 0 {
			t.Errorf("rejoin before the assignment: %+v", resp)
		}
		complete(t, a, b)
		if resp := b.join(); resp.Generation != 2 || resp.LeaderID != a.id {
			t.Errorf("rejoin of a follower: %+v", resp)
		}
		if n := w.log.count() - before; n != 1 {
			t.Errorf("%d commits for one assignment", n)
		}
		if b.sync(nil); b.got != "part of "+b.id {
			t.Errorf("a follower that comes back gets %q", b.got)
		}
		// The leader begins the next generation.
		go a.join()
		synctest.Wait()
		wantCode(t, "heartbeat", b.beat(), kerr.RebalanceInProgress)
		b.join()
		synctest.Wait()
		complete(t, a, b)
		// So does a follower with other protocols.
		b.protocol["range"] = "else"
		go b.join()
		synctest.Wait()
		wantCode(t, "heartbeat", a.beat(), kerr.RebalanceInProgress)
		if resp := a.join(); resp.Generation != 4 || string(resp.Members[1].ProtocolMetadata) != "else" {
			t.Errorf("new generation: %+v", resp)
		}
		synctest.Wait()
	})
}

func TestVote(t *testing.T) {
	for name, c := range map[string]struct {
		protocols [][]string
		want      string
	}{
		"intersection": {[][]string{{"a", "b"}, {"c", "b"}}, "b"},
		"most votes":   {[][]string{{"a", "b"}, {"b", "a"}, {"b", "a"}}, "b"},
		"tie":          {[][]string{{"a", "b"}, {"b", "a"}}, "a"},
		"first choice": {[][]string{{"x", "b", "a"}, {"a", "b"}, {"y", "a", "b"}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(&Coordinator{}, "g")
			for i, list := range c.protocols {
				m := &member{id: string(rune('a' + i))}
				for _, p := range list {
					m.protocols = append(m.protocols, protocol{name: p})
				}
				g.enlist(m)
			}
			if got := g.vote(); got != c.want {
				t.Errorf("chose %q, want %q", got, c.want)
			}
		})
	}
}

func TestInconsistentProtocols(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.member("g", "range")
	together(t, a)
	wantCode(t, "no common protocol", w.member("g", "sticky").join().ErrorCode, kerr.InconsistentGroupProtocol)
	req := w.member("g", "range").joinRequest()
	req.ProtocolType = "connect"
	wantCode(t, "another type", w.JoinGroup(ctx, coord.Client{}, req).ErrorCode, kerr.InconsistentGroupProtocol)
}

func TestMaxSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{MaxSize: 2})
		a, b, c := w.member("g"), w.member("g"), w.member("g")
		together(t, a, b)
		wantCode(t, "a third member", c.join().ErrorCode, kerr.GroupMaxSizeReached)
		wantCode(t, "leave", b.leave(), nil)
		go func() { time.Sleep(time.Second); a.join() }()
		wantCode(t, "after one has left", c.join().ErrorCode, nil)
		synctest.Wait()
	})
}

func TestInitialDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{InitialDelay: 3 * time.Second})
		a, b := w.member("g"), w.member("g")
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { a.join() })
		wg.Go(func() { time.Sleep(2 * time.Second); b.join() })
		wg.Wait()
		if took := time.Since(start); took != 5*time.Second || a.gen != 1 || b.gen != 1 {
			t.Errorf("generations %d and %d after %v", a.gen, b.gen, took)
		}
	})
}

// A member that does not send SyncGroup is removed.
func TestPendingSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		joinAll(t, a, b)
		if b.leader {
			a, b = b, a
		}
		if resp := a.sync(map[string]string{a.id: "all"}); resp.ErrorCode != 0 || a.got != "all" {
			t.Fatalf("%+v", resp)
		}
		for start := time.Now(); time.Since(start) < testRebalance-time.Second; time.Sleep(time.Second) {
			wantCode(t, "the leader", a.beat(), nil)
			wantCode(t, "the other", b.beat(), nil)
		}
		time.Sleep(2 * time.Second)
		wantCode(t, "the other", b.beat(), kerr.UnknownMemberID)
		wantCode(t, "the leader", a.beat(), kerr.RebalanceInProgress)
	})
}

// If the leader sends no assignment, the members that wait get REBALANCE_IN_PROGRESS.
func TestLeaderVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		joinAll(t, a, b)
		if b.leader {
			a, b = b, a
		}
		resp := b.sync(nil)
		wantCode(t, "sync", resp.ErrorCode, kerr.RebalanceInProgress)
		together(t, b)
		wantCode(t, "the leader that was", a.beat(), kerr.UnknownMemberID)
	})
}
