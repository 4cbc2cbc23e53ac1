package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestGenerationChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a := w.member("g")
		together(t, a)
		for name, c := range map[string]struct {
			edit func(*classicMember)
			want *kerr.Error
		}{
			"good":             {func(*classicMember) {}, nil},
			"old generation":   {func(m *classicMember) { m.gen-- }, kerr.IllegalGeneration},
			"new generation":   {func(m *classicMember) { m.gen++ }, kerr.IllegalGeneration},
			"unknown member":   {func(m *classicMember) { m.id = "who" }, kerr.UnknownMemberID},
			"unknown group":    {func(m *classicMember) { m.group = "other" }, kerr.UnknownMemberID},
			"unknown instance": {func(m *classicMember) { m.instance = text("i") }, kerr.UnknownMemberID},
			"no group":         {func(m *classicMember) { m.group = "" }, kerr.InvalidGroupID},
		} {
			m := *a
			c.edit(&m)
			wantCode(t, name+": heartbeat", m.beat(), c.want)
			wantCode(t, name+": sync", m.sync(nil).ErrorCode, c.want)
		}
	})
}

func TestSyncChecksProtocol(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.member("g")
	together(t, a)
	for _, c := range []struct {
		typ, protocol string
		want          *kerr.Error
	}{{"consumer", "range", nil}, {"connect", "range", kerr.InconsistentGroupProtocol}, {"consumer", "sticky", kerr.InconsistentGroupProtocol}} {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.Group, req.MemberID, req.Generation = 5, "g", a.id, a.gen
		req.ProtocolType, req.Protocol = &c.typ, &c.protocol
		resp := w.SyncGroup(ctx, coord.Client{}, req)
		wantCode(t, c.typ+" "+c.protocol, resp.ErrorCode, c.want)
		if c.want == nil && (*resp.ProtocolType != c.typ || *resp.Protocol != c.protocol) {
			t.Errorf("%+v", resp)
		}
	}
}

// Members that wait in SyncGroup when a rebalance begins get REBALANCE_IN_PROGRESS.
func TestRebalanceWhileSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		joinAll(t, a, b)
		if b.leader {
			a, b = b, a
		}
		code := make(chan int16)
		go func() { code <- b.sync(nil).ErrorCode }()
		synctest.Wait()
		wantCode(t, "leave", a.leave(), nil)
		wantCode(t, "sync", <-code, kerr.RebalanceInProgress)
		together(t, b)
		if !b.leader || b.gen != 2 {
			t.Errorf("generation %d", b.gen)
		}
	})
}

func TestLeaveBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b, c := w.member("g"), w.member("g"), w.member("g")
		together(t, a, b, c)
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = 4, "g"
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: a.id}, {MemberID: "who"}, {MemberID: b.id}}
		before := w.log.count()
		resp := w.LeaveGroup(ctx, coord.Client{}, req)
		if resp.ErrorCode != 0 || resp.Members[0].ErrorCode != 0 || resp.Members[1].ErrorCode != kerr.UnknownMemberID.Code || resp.Members[2].ErrorCode != 0 {
			t.Errorf("%+v", resp)
		}
		if n := w.log.count() - before; n != 1 {
			t.Errorf("%d commits", n)
		}
		wantCode(t, "the one left", c.beat(), kerr.RebalanceInProgress)
		old := kmsg.NewPtrLeaveGroupRequest()
		old.Version, old.Group, old.MemberID = 2, "g", c.id
		wantCode(t, "version 2", w.LeaveGroup(ctx, coord.Client{}, old).ErrorCode, nil)
		wantCode(t, "version 2 again", w.LeaveGroup(ctx, coord.Client{}, old).ErrorCode, kerr.UnknownMemberID)
		old.Group = "unknown"
		wantCode(t, "unknown group", w.LeaveGroup(ctx, coord.Client{}, old).ErrorCode, kerr.UnknownMemberID)
		if w.state("g") != "Empty" {
			t.Errorf("state %s", w.state("g"))
		}
	})
}

// Heartbeats write nothing.
func TestHeartbeatIsFree(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.member("g")
	together(t, a)
	before := w.log.count()
	for range 100 {
		wantCode(t, "heartbeat", a.beat(), nil)
	}
	if n := w.log.count() - before; n != 0 {
		t.Errorf("%d commits", n)
	}
}

// A stable group continues after a restart without a rebalance. Members that do not come back are
// removed when their sessions end.
func TestClassicSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := two(t, w)
		time.Sleep(testSession - time.Second)
		wantCode(t, "heartbeat", a.beat(), nil)
		wantCode(t, "heartbeat", b.beat(), nil)
		before := w.describe("g")
		w.reopen()
		time.Sleep(testSession - time.Second)
		wantCode(t, "heartbeat after the restart", a.beat(), nil)
		a.sync(nil)
		if a.got != "part of "+a.id {
			t.Errorf("got %q", a.got)
		}
		after := w.describe("g")
		if len(after.Members) != 2 || after.State != before.State || after.Protocol != before.Protocol {
			t.Errorf("before %+v, after %+v", before, after)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantCode(t, "heartbeat of the one that did not come back", b.beat(), kerr.UnknownMemberID)
		wantCode(t, "the other", a.beat(), kerr.RebalanceInProgress)
		joinAll(t, a)
		if a.gen != 3 {
			t.Errorf("generation %d", a.gen)
		}
	})
}

// A restart between the barrier and the assignment keeps the generation.
func TestRestartBeforeAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		joinAll(t, a, b)
		w.reopen()
		complete(t, a, b)
		wantCode(t, "heartbeat", b.beat(), nil)
	})
}

// A member that has left before a restart in the barrier is not in the group afterwards.
func TestRestartInBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a, b)
		b.leave()
		w.reopen()
		wantCode(t, "who has left", b.beat(), kerr.UnknownMemberID)
		wantCode(t, "who is there", a.beat(), kerr.RebalanceInProgress)
		together(t, a)
		if a.gen != 2 {
			t.Errorf("generation %d", a.gen)
		}
	})
}

// If a commit fails, no answer has the new generation. The group continues from the log, whether
// the commit was written or not.
func TestCommitFails(t *testing.T) {
	for _, written := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			a, b := w.member("g"), w.member("g")
			together(t, a, b)
			w.log.set(errBroken, written)
			if a.protocol["range"] = "else"; !a.leader {
				a, b = b, a
			}
			codes := make(chan int16, 2)
			go func() { codes <- a.join().ErrorCode }()
			synctest.Wait()
			go func() { codes <- b.join().ErrorCode }()
			wantCode(t, "join", <-codes, kerr.CoordinatorNotAvailable)
			wantCode(t, "join", <-codes, kerr.CoordinatorNotAvailable)
			w.log.set(nil, false)
			go a.join()
			synctest.Wait()
			b.join()
			synctest.Wait()
			complete(t, a, b)
			if a.gen != 2 || b.gen != 2 { // the failed one was written and is completed, or is made again
				t.Errorf("written %v: generations %d and %d", written, a.gen, b.gen)
			}
		})
	}
}

func TestCloseAnswersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.member("g"), w.member("g")
		together(t, a)
		code := make(chan int16)
		go func() { code <- b.join().ErrorCode }()
		synctest.Wait()
		if err := w.Coordinator.Close(); err != nil {
			t.Fatal(err)
		}
		wantCode(t, "join", <-code, kerr.CoordinatorNotAvailable)
		wantCode(t, "after Close", a.beat(), kerr.CoordinatorNotAvailable)
		wantCode(t, "after Close", a.join().ErrorCode, kerr.CoordinatorNotAvailable)
		wantCode(t, "after Close", w.CheckTxnCommit("g", "", nil, -1), kerr.CoordinatorNotAvailable)
	})
}
