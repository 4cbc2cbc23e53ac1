package group

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// speaker is a consumer that speaks the classic protocol and says what it reads and owns.
type speaker struct {
	*classicMember
	reads       []string
	owned       map[string][]int32
	cooperative bool // it keeps what it has while it joins
}

func (w *world) speaker(group string, topics ...string) *speaker {
	return &speaker{classicMember: w.member(group), reads: topics, owned: map[string][]int32{}}
}

func (s *speaker) join() *kmsg.JoinGroupResponse {
	s.protocol["range"] = s.subscription()
	return s.classicMember.join()
}

// subscription returns the metadata of its JoinGroup requests.
func (s *speaker) subscription() string {
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Version, sub.Topics = 1, s.reads
	if !s.cooperative {
		clear(s.owned)
	}
	for name, nums := range s.owned {
		sub.OwnedPartitions = append(sub.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: name, Partitions: nums})
	}
	return string(sub.AppendTo(nil))
}

// sync sends SyncGroup, and records the assignment. The leader of a classic group assigns all to
// itself.
func (s *speaker) sync(t *testing.T, all map[string][]int32) {
	t.Helper()
	parts := map[string]string{}
	if s.leader {
		out := kmsg.NewConsumerMemberAssignment()
		for name, nums := range all {
			out.Topics = append(out.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: nums})
		}
		parts[s.id] = string(out.AppendTo(nil))
	}
	resp := s.classicMember.sync(parts)
	wantCode(t, "sync", resp.ErrorCode, nil)
	s.owned = assigned(t, resp.MemberAssignment)
}

func assigned(t *testing.T, b []byte) map[string][]int32 {
	t.Helper()
	out := map[string][]int32{}
	if len(b) == 0 {
		return out
	}
	var in kmsg.ConsumerMemberAssignment
	if err := in.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	for _, p := range in.Topics {
		out[p.Topic] = p.Partitions
	}
	return out
}

// follow sends a heartbeat and joins again if it is asked to.
func (s *speaker) follow(t *testing.T) {
	t.Helper()
	code := s.beat()
	if code == kerr.RebalanceInProgress.Code || code == kerr.IllegalGeneration.Code {
		wantCode(t, "join", s.join().ErrorCode, nil)
		s.sync(t, nil)
		return
	}
	wantCode(t, "heartbeat", code, nil)
}

func TestUpgrade(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			id := w.topics.create("t", 4)
			old := w.speaker("g", "t")
			old.cooperative = cooperative
			wantCode(t, "join", old.join().ErrorCode, nil)
			old.sync(t, map[string][]int32{"t": {0, 1, 2, 3}})
			together(t, func() *classicMember { m := w.member("other"); return m }())

			a := w.reporter("g", "a", "t")
			a.mustBeat(t)
			if a.epoch != 2 || a.has.len() != 0 {
				t.Fatalf("the first of the new protocol has %v in epoch %d", a.has, a.epoch)
			}
			if d := w.describeConsumer("g"); d.State != "Reconciling" || len(d.Members) != 2 || d.Members[0].MemberType != 0 {
				t.Errorf("%+v", d)
			}
			for range 4 {
				old.follow(t)
				a.mustBeat(t)
				w.reopen()
				if n := len(slices.DeleteFunc(slices.Clone(old.owned["t"]), func(n int32) bool { return !a.has.has(slot{id, n}) })); n > 0 {
					t.Fatalf("both have %d partitions: %v and %v", n, old.owned, a.has)
				}
			}
			if len(old.owned["t"]) != 2 || a.has.len() != 2 || old.gen != a.epoch || w.state("g") != "Stable" {
				t.Errorf("%v and %v in epochs %d and %d, state %s", old.owned, a.has, old.gen, a.epoch, w.state("g"))
			}
			req := commitRequest("g", "t", old.owned["t"][0], 5)
			req.MemberID, req.Generation, req.Version = old.id, old.gen, 7
			wantCode(t, "commit", w.commit(req), nil)
			req.Generation--
			wantCode(t, "commit of the past", w.commit(req), kerr.IllegalGeneration)

			// Another member with the classic protocol joins, and the group becomes classic again.
			second := w.speaker("g", "t")
			second.cooperative = cooperative
			wantCode(t, "join", second.join().ErrorCode, nil)
			second.sync(t, nil)
			for range 4 {
				old.follow(t)
				a.mustBeat(t)
				second.follow(t)
			}
			if n := len(old.owned["t"]) + len(second.owned["t"]) + a.has.len(); n != 4 || len(second.owned["t"]) == 0 {
				t.Errorf("%v, %v and %v", old.owned, second.owned, a.has)
			}
			epoch := a.epoch
			wantCode(t, "leave", a.leave(leaving), nil)
			wantCode(t, "heartbeat in the last epoch", old.beat(), kerr.RebalanceInProgress)
			req.Generation = old.gen
			wantCode(t, "commit in the last epoch", w.commit(req), nil)
			if d := w.describe("g"); d.State != "PreparingRebalance" || len(d.Members) != 2 {
				t.Fatalf("%+v", d)
			}
			w.reopen()
			code := old.beat()
			if code != kerr.RebalanceInProgress.Code && code != kerr.IllegalGeneration.Code {
				t.Errorf("heartbeat: %v", kerr.ErrorForCode(code))
			}
			go second.join()
			synctest.Wait()
			wantCode(t, "join", old.join().ErrorCode, nil)
			synctest.Wait()
			if old.gen <= epoch || old.gen != second.gen || !old.leader {
				t.Errorf("generations %d and %d after epoch %d", old.gen, second.gen, epoch)
			}
		})
	}
}

// A member with the classic protocol that does not join again is removed after its rebalance
// timeout.
func TestUpgradeWithoutFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.topics.create("t", 2)
		old := w.speaker("g", "t")
		old.join()
		old.sync(t, map[string][]int32{"t": {0, 1}})
		a := w.reporter("g", "a", "t").mustBeat(t)
		for start := time.Now(); time.Since(start) < testRebalance; time.Sleep(time.Second) {
			wantCode(t, "heartbeat", old.beat(), kerr.RebalanceInProgress)
		}
		time.Sleep(time.Second)
		wantCode(t, "heartbeat", old.beat(), kerr.UnknownMemberID)
		if a.mustBeat(t); a.has.len() != 2 {
			t.Errorf("a has %v", a.has)
		}
		wantCode(t, "who tries a protocol of others", w.member("g", "sticky").join().ErrorCode, kerr.InconsistentGroupProtocol)
	})
}

// A refused heartbeat does not interrupt the rebalance of a classic group.
func TestRefusedUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{MaxSize: 2})
		w.topics.create("t", 2)
		a, b := w.speaker("g", "t"), w.speaker("g", "t")
		a.invite()
		b.invite()
		join := func() { go a.join(); synctest.Wait() }
		join()
		wantCode(t, "join", b.join().ErrorCode, nil)
		synctest.Wait()
		a.reads = []string{"t", "u"}
		join() // waits for b
		commits := w.log.count()
		wantCode(t, "a third member", w.reporter("g", "c", "t").beat().ErrorCode, kerr.GroupMaxSizeReached)
		static := w.reporter("g", a.id, "t")
		static.req.InstanceID = text("i")
		wantCode(t, "another instance", static.beat().ErrorCode, kerr.InvalidRequest)
		if n := w.log.count() - commits; n != 0 || w.state("g") != "PreparingRebalance" {
			t.Errorf("%d commits and state %s, want none and PreparingRebalance", n, w.state("g"))
		}
		wantCode(t, "join", b.join().ErrorCode, nil)
		synctest.Wait()
		if a.gen != 2 || b.gen != 2 {
			t.Errorf("generations %d and %d, want 2", a.gen, b.gen)
		}
	})
}

// A member that waits in JoinGroup when the group becomes a consumer group, and is silent from then
// on, is removed after its session timeout.
func TestUpgradeOfWaitingMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{InitialDelay: 2 * testSession})
		w.topics.create("t", 2)
		waiting := w.speaker("g", "t")
		go waiting.join()
		synctest.Wait()
		w.reporter("g", "a", "t").mustBeat(t)
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{testSession - time.Second, 2}, {2 * time.Second, 1}} {
			time.Sleep(step.after)
			synctest.Wait()
			if n := w.members("g"); n != step.want {
				t.Errorf("%d members, want %d", n, step.want)
			}
		}
	})
}

// If the names of topics cannot be read when the last member of the consumer protocol leaves, the
// group becomes classic at the next JoinGroup, even if that is refused.
func TestLateDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.topics.create("t", 2)
		a := w.reporter("g", "a", "t").mustBeat(t)
		old := w.speaker("g", "t")
		wantCode(t, "join", old.join().ErrorCode, nil)
		w.topics.fail(errBroken)
		wantCode(t, "leave", a.leave(leaving), nil)
		w.topics.fail(nil)
		wantCode(t, "join with a protocol of others", w.member("g", "sticky").join().ErrorCode, kerr.InconsistentGroupProtocol)
		w.reopen()
		if d := w.describe("g"); d.ErrorCode != 0 || d.State != "PreparingRebalance" {
			t.Errorf("%+v", d)
		}
	})
}

// A classic group without members becomes a consumer group and the other way around. The epoch
// continues to count.
func TestSwitchWhenEmpty(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 2)
	old := w.speaker("g", "t")
	old.join()
	old.sync(t, nil)
	wantCode(t, "commit", w.commit(func() *kmsg.OffsetCommitRequest {
		r := commitRequest("g", "t", 0, 9)
		r.MemberID, r.Generation = old.id, old.gen
		return r
	}()), nil)
	old.leave() // generation 2, empty
	a := w.reporter("g", "a", "t")
	if converge(t, a); a.epoch != 3 || a.has.len() != 2 || w.fetch("g", "t", 0) != 9 {
		t.Errorf("epoch %d, %v", a.epoch, a.has)
	}
	a.leave(leaving)
	w.reopen()
	old.id = ""
	if resp := old.join(); resp.Generation != 5 || !old.leader {
		t.Errorf("%+v", resp)
	}
	if d := w.describe("g"); d.State != "CompletingRebalance" {
		t.Errorf("%+v", d)
	}
}
