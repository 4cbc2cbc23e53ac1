package group

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestReportRefusals(t *testing.T) {
	w := newWorld(t, Options{MaxSize: 2})
	id := w.topics.create("t", 4)
	a := w.reporter("g", "a", "t").mustBeat(t)
	static := w.reporter("g", "s", "t")
	static.req.InstanceID = text("i")
	static.mustBeat(t)
	together(t, func() *classicMember { m := w.member("classic"); return m }())
	for name, c := range map[string]struct {
		edit func(*kmsg.ConsumerGroupHeartbeatRequest)
		want *kerr.Error
	}{
		"no group":             {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }, kerr.InvalidRequest},
		"no member":            {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, kerr.InvalidRequest},
		"long member":          {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = strings.Repeat("x", 1025) }, kerr.InvalidRequest},
		"epoch":                {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }, kerr.InvalidRequest},
		"empty instance":       {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("") }, kerr.InvalidRequest},
		"empty rack":           {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = text("") }, kerr.InvalidRequest},
		"away, not static":     {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }, kerr.InvalidRequest},
		"no rebalance timeout": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, kerr.InvalidRequest},
		"joins with topics": {func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: id, Partitions: []int32{0}}}
		}, kerr.InvalidRequest},
		"no subscription":   {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }, kerr.InvalidRequest},
		"assignor":          {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = text("best") }, kerr.UnsupportedAssignor},
		"regex":             {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = text("(") }, kerr.InvalidRegularExpression},
		"regex that closes": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = text("a)(b") }, kerr.InvalidRegularExpression},
		"long regex": {func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicRegex = text(strings.Repeat("x", MaxRegex+1))
		}, kerr.InvalidRegularExpression},
		"large regex":           {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &largeRegex }, kerr.InvalidRegularExpression},
		"unknown member":        {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 1 }, kerr.UnknownMemberID},
		"unknown group":         {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group, r.MemberEpoch = "none", 1 }, kerr.UnknownMemberID},
		"unknown leaver":        {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 }, kerr.UnknownMemberID},
		"full":                  {func(*kmsg.ConsumerGroupHeartbeatRequest) {}, kerr.GroupMaxSizeReached},
		"epoch of tomorrow":     {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "a", 99 }, kerr.FencedMemberEpoch},
		"instance in use":       {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("i") }, kerr.UnreleasedInstanceID},
		"instance of other":     {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID, r.MemberEpoch = text("i"), 1 }, kerr.FencedInstanceID},
		"leaves as other":       {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID, r.MemberEpoch = text("i"), -2 }, kerr.FencedInstanceID},
		"unknown instance":      {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID, r.MemberEpoch = text("j"), 1 }, kerr.UnknownMemberID},
		"changed instance":      {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.InstanceID = "a", text("j") }, kerr.InvalidRequest},
		"classic, no consumers": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "classic" }, kerr.GroupIDNotFound},
	} {
		req := w.reporter("g", "new", "t").request()
		c.edit(req)
		resp := w.ConsumerGroupHeartbeat(ctx, coord.Client{}, req)
		wantCode(t, name, resp.ErrorCode, c.want)
		if resp.ErrorMessage == nil {
			t.Errorf("%s: no message", name)
		}
	}
	a.mustBeat(t)
	old := w.reporter("v0", "", "t").request()
	old.Version = 0
	resp := w.ConsumerGroupHeartbeat(ctx, coord.Client{ID: "c"}, old)
	if resp.ErrorCode != 0 || !strings.HasPrefix(*resp.MemberID, "c-") || resp.HeartbeatIntervalMillis != 5000 {
		t.Errorf("version 0: %+v", resp)
	}
}

// largeRegex is a short expression with a program of 23 MB.
var largeRegex = strings.Repeat(".{1000}", 585)

// A member that an older version has stored with too large an expression is loaded without much
// memory, and its expression matches nothing.
func TestStoredLargeRegex(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 2)
	a := w.reporter("g", "a", "t").mustBeat(t)
	b := mainstem.NewBatch()
	b.Put(partition.GroupSpace, memberKey("g", "b"), (&identity{consumer: true, rebalance: time.Minute, regex: largeRegex}).encode())
	if _, err := w.log.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.reopen()
	a.mustBeat(t)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 10<<20 {
		t.Errorf("loading took %d bytes", n)
	}
	if d := w.describeConsumer("g"); len(d.Members) != 2 || len(d.Members[1].TargetAssignment.TopicPartitions) != 0 {
		t.Errorf("%+v", d)
	}
}

// Members with the same expression share the compiled one, also after a restart.
func TestSharedRegex(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range []string{"a", "b"} {
		m := w.reporter("g", id)
		m.req.SubscribedTopicNames, m.req.SubscribedTopicRegex = nil, text("t.*")
		m.mustBeat(t)
	}
	for _, when := range []string{"joined", "loaded"} {
		g, err := w.acquire(ctx, "g", false)
		if err != nil || g == nil {
			t.Fatal(g, err)
		}
		if a, b := g.members["a"].re, g.members["b"].re; a == nil || a != b {
			t.Errorf("%s: %p and %p", when, a, b)
		}
		g.unlock()
		w.reopen()
	}
}

// A second member gets partitions only after the first has given them up.
func TestRevokeBeforeAssign(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.topics.create("t", 4)
	a, b := w.reporter("g", "a", "t"), w.reporter("g", "b", "t")
	if resp := a.beat(); resp.MemberEpoch != 1 || len(a.has[id]) != 4 || *resp.MemberID != "a" {
		t.Fatalf("%+v", resp)
	}
	before := w.log.count()
	for range 10 {
		if resp := a.beat(); resp.Assignment != nil && resp.MemberEpoch != 1 {
			t.Fatalf("%+v", resp)
		}
	}
	if n := w.log.count() - before; n != 0 {
		t.Errorf("%d commits by heartbeats without news", n)
	}
	if resp := b.beat(); resp.MemberEpoch != 2 || len(b.has) != 0 || resp.Assignment == nil {
		t.Fatalf("the second member: %+v", resp)
	}
	if s := w.state("g"); s != "Reconciling" {
		t.Errorf("state %s", s)
	}
	a.slow = true
	if resp := a.beat(); resp.MemberEpoch != 1 || len(resp.Assignment.Topics[0].Partitions) != 2 {
		t.Fatalf("the first member is to give up two: %+v", resp)
	}
	a.beat()
	if b.beat(); len(b.has) != 0 || a.epoch != 1 {
		t.Fatalf("b has %v before a has given up anything", b.has)
	}
	a.slow = false
	a.beat()
	b.beat()
	if a.epoch != 2 || len(a.has[id]) != 2 || len(b.has[id]) != 2 || a.has.overlaps(b.has) {
		t.Errorf("a has %v in epoch %d, b has %v", a.has, a.epoch, b.has)
	}
	d := w.describeConsumer("g")
	if d.State != "Stable" || d.Epoch != 2 || d.AssignmentEpoch != 2 || d.AssignorName != Uniform || len(d.Members) != 2 || d.Members[1].MemberType != 1 || d.Members[0].Assignment.TopicPartitions[0].Topic != "t" {
		t.Errorf("%+v", d)
	}
}

func (w *world) describeConsumer(group string) kmsg.ConsumerGroupDescribeResponseGroup {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Version, req.Groups = 1, []string{group}
	return w.ConsumerGroupDescribe(ctx, coord.Client{}, req).Groups[0]
}

func TestKeepalive(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 2)
	a, b := w.reporter("g", "a", "t").mustBeat(t), w.reporter("g", "b", "t")
	keepalive := a.request()
	keepalive.Topics = nil
	resp := w.ConsumerGroupHeartbeat(ctx, coord.Client{ID: "client", Host: "host"}, keepalive)
	if resp.ErrorCode != 0 || resp.Assignment == nil {
		t.Errorf("a client that may have missed the answer: %+v", resp)
	}
	a.mustBeat(t)
	resp = w.ConsumerGroupHeartbeat(ctx, coord.Client{ID: "client", Host: "host"}, keepalive)
	if resp.ErrorCode != 0 || resp.Assignment != nil {
		t.Errorf("a client that has said what it has: %+v", resp)
	}
	b.mustBeat(t)
	for range 3 { // it does not say what it owns, so it owns all
		resp = w.ConsumerGroupHeartbeat(ctx, coord.Client{ID: "client", Host: "host"}, keepalive)
		if b.mustBeat(t); resp.MemberEpoch != 1 || len(b.has) > 0 {
			t.Errorf("%+v, b has %v", resp, b.has)
		}
	}
}

func TestMemberEpochs(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.topics.create("t", 2)
	a, b := w.reporter("g", "a", "t").mustBeat(t), w.reporter("g", "b", "t").mustBeat(t)
	converge(t, a, b)
	// The answer that brought epoch 2 was lost.
	lost := *a
	lost.epoch, lost.is = 1, partitions{}
	if resp := lost.beat(); resp.ErrorCode != 0 || resp.MemberEpoch != 2 || resp.Assignment == nil {
		t.Errorf("the epoch before: %+v", resp)
	}
	lost.epoch, lost.is = 1, partitions{id: {0, 1}}
	wantCode(t, "the epoch before with partitions of others", lost.beat().ErrorCode, kerr.FencedMemberEpoch)
	if lost.epoch != 0 {
		t.Fatal("not fenced")
	}
	if resp := lost.beat(); resp.ErrorCode != 0 || resp.MemberEpoch != 2 || !lost.has.equal(a.has) {
		t.Errorf("rejoin with the same ID: %+v", resp)
	}
	// A former member cannot commit offsets.
	req := commitRequest("g", "t", 0, 7)
	for _, c := range []struct {
		member  string
		epoch   int32
		version int16
		want    *kerr.Error
	}{
		{"a", 2, 9, nil}, {"a", 1, 9, kerr.StaleMemberEpoch}, {"a", 3, 9, kerr.StaleMemberEpoch},
		{"a", 2, 8, kerr.UnsupportedVersion}, {"who", 2, 9, kerr.UnknownMemberID}, {"", -1, 9, kerr.UnknownMemberID},
	} {
		req.MemberID, req.Generation, req.Version = c.member, c.epoch, c.version
		wantCode(t, fmt.Sprint("commit ", c.member, c.epoch, c.version), w.commit(req), c.want)
	}
	wantCode(t, "transaction", w.CheckTxnCommit("g", "a", nil, 2), nil)
	wantCode(t, "transaction of the past", w.CheckTxnCommit("g", "a", nil, 1), kerr.IllegalGeneration)
	wantCode(t, "transaction of nobody", w.CheckTxnCommit("g", "", nil, -1), nil)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version = 9
	for _, c := range []struct {
		member string
		epoch  int32
		want   *kerr.Error
	}{{"a", 2, nil}, {"a", 1, kerr.StaleMemberEpoch}, {"who", 2, kerr.UnknownMemberID}} {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberID, g.MemberEpoch = "g", &c.member, c.epoch
		fetch.Groups = []kmsg.OffsetFetchRequestGroup{g}
		wantCode(t, fmt.Sprint("fetch ", c.member, c.epoch), w.OffsetFetch(ctx, coord.Client{}, fetch).Groups[0].ErrorCode, c.want)
	}
}

// A member that has not given up a partition since may commit with an older epoch.
func TestCommitOfEpochBefore(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 2)
	w.topics.create("u", 2)
	a, b := w.reporter("g", "a", "t"), w.reporter("g", "b", "u")
	converge(t, a, b)
	commit := func(epoch int32) int16 {
		req := commitRequest("g", "t", 0, 7)
		req.MemberID, req.Generation = "a", epoch
		return w.commit(req)
	}
	wantCode(t, "before it has lost anything", commit(1), nil)
	c := w.reporter("g", "c", "t")
	converge(t, a, b, c)
	wantCode(t, "now", commit(3), nil)
	wantCode(t, "from before it has lost a partition", commit(2), kerr.StaleMemberEpoch)
	w.reopen()
	d := w.reporter("g", "d", "u")
	converge(t, a, b, c, d)
	wantCode(t, "nothing lost since", commit(3), nil)
	wantCode(t, "long ago", commit(1), kerr.StaleMemberEpoch)
	wantCode(t, "epoch 0", commit(0), kerr.StaleMemberEpoch)
}

func TestConsumerSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		id := w.topics.create("t", 4)
		a, b := w.reporter("g", "a", "t"), w.reporter("g", "b", "t")
		converge(t, a, b)
		for start := time.Now(); time.Since(start) < 50*time.Second; time.Sleep(5 * time.Second) {
			a.mustBeat(t)
		}
		synctest.Wait()
		if a.mustBeat(t); len(a.has[id]) != 4 || a.epoch != 3 {
			t.Errorf("a has %v in epoch %d", a.has, a.epoch)
		}
		wantCode(t, "the silent member", b.beat().ErrorCode, kerr.UnknownMemberID)
		converge(t, b, a)
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.state("g") != "Empty" {
			t.Errorf("state %s", w.state("g"))
		}
		converge(t, a.fresh(), b.fresh())
		if a.epoch < 6 {
			t.Errorf("epoch %d after 5", a.epoch)
		}
	})
}

// A member that sends heartbeats but does not give up partitions is removed after its rebalance
// timeout.
func TestRebalanceTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		id := w.topics.create("t", 2)
		a, b := w.reporter("g", "a", "t"), w.reporter("g", "b", "t")
		converge(t, a)
		a.slow = true
		start := time.Now()
		for b.mustBeat(t); len(b.has) == 0; time.Sleep(time.Second) {
			b.mustBeat(t)
			a.beat()
			if time.Since(start) > time.Minute {
				t.Fatal("it never happened")
			}
		}
		if took := time.Since(start); took < testRebalance || took > testRebalance+5*time.Second {
			t.Errorf("after %v b has %v", took, b.has[id])
		}
	})
}

func TestConsumerStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.topics.create("t", 4)
		a, b := w.reporter("g", "a", "t"), w.reporter("g", "b", "t")
		a.req.InstanceID, b.req.InstanceID = text("one"), text("two")
		converge(t, a, b)
		had := b.has
		wantCode(t, "away", b.leave(leftStatic), nil)
		if a.mustBeat(t); a.epoch != 2 {
			t.Errorf("a rebalance for one that is away: epoch %d", a.epoch)
		}
		w.reopen()
		again := w.reporter("g", "c", "t")
		again.req.InstanceID = text("two")
		if resp := again.beat(); resp.ErrorCode != 0 || resp.MemberEpoch != 2 || !again.has.equal(had) {
			t.Fatalf("back as another member: %+v", resp)
		}
		wantCode(t, "the member that was", b.beat().ErrorCode, kerr.UnreleasedInstanceID)
		wantCode(t, "away again", again.leave(leftStatic), nil)
		if resp := again.fresh().beat(); resp.ErrorCode != 0 || resp.MemberEpoch != 2 || !again.has.equal(had) {
			t.Fatalf("back as the same member: %+v", resp)
		}
		again.leave(leftStatic)
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(5 * time.Second) {
			a.mustBeat(t)
		}
		if a.has.len() != 4 {
			t.Errorf("one that is away for longer than a session keeps its partitions: %v", a.has)
		}
		wantCode(t, "for good", a.leave(leaving), nil)
		if w.state("g") != "Empty" {
			t.Errorf("state %s", w.state("g"))
		}
	})
}

func TestTopicsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		a, b := w.reporter("g", "a", "t", "u"), w.reporter("g", "b")
		b.req.SubscribedTopicRegex = text("t|event[.].+")
		converge(t, a, b)
		if a.has.len() != 0 {
			t.Fatalf("a has %v", a.has)
		}
		step := func(what string, wantA, wantB int) {
			t.Helper()
			time.Sleep(2 * time.Second) // Options.TopicsEvery is a second
			converge(t, a, b)
			if a.has.len() != wantA || b.has.len() != wantB || a.has.overlaps(b.has) {
				t.Errorf("%s: a has %v, b has %v", what, a.has, b.has)
			}
		}
		w.topics.create("t", 2)
		w.topics.create("tt", 9)
		step("a topic appears", 1, 1)
		w.topics.grow("t", 6)
		step("it grows", 3, 3)
		w.topics.create("event.orders", 1)
		step("one for the expression", 3, 4)
		w.topics.create("u", 3)
		step("one for the name", 5, 5)
		w.topics.create("t", 2)
		step("one is deleted and made anew", 3, 3)
		w.topics.delete("t")
		step("one is deleted", 3, 1)
		b.req.SubscribedTopicRegex, b.req.SubscribedTopicNames, b.subscribed = text(""), []string{"u"}, false
		step("another subscription", 2, 1)
		epoch := a.epoch
		w.topics.create("unrelated", 5)
		step("one that nobody reads", 2, 1)
		if a.epoch != epoch {
			t.Errorf("epoch %d after %d", a.epoch, epoch)
		}
		w.topics.grow("u", 4)
		w.TopicsChanged()
		a.mustBeat(t)
		b.mustBeat(t)
		a.mustBeat(t)
		b.mustBeat(t)
		if a.has.len()+b.has.len() != 4 {
			t.Errorf("told of a change: a has %v, b has %v", a.has, b.has)
		}
	})
}

func TestAssignorChosen(t *testing.T) {
	w := newWorld(t, Options{})
	t1, t2 := w.topics.create("t", 4), w.topics.create("u", 4)
	a, b := w.reporter("g", "a", "t", "u"), w.reporter("g", "b", "t", "u")
	a.req.ServerAssignor, b.req.ServerAssignor = text(Range), text(Range)
	converge(t, a, b)
	for _, id := range []topic.ID{t1, t2} {
		if fmt.Sprint(a.has[id], b.has[id]) != "[0 1] [2 3]" {
			t.Errorf("a has %v, b has %v", a.has, b.has)
		}
	}
	if d := w.describeConsumer("g"); d.AssignorName != Range {
		t.Errorf("assignor %s", d.AssignorName)
	}
}

// After a restart at any moment members continue with their epochs and partitions.
func TestConsumerSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.topics.create("t", 6)
		a, b := w.reporter("g", "a", "t"), w.reporter("g", "b", "t")
		converge(t, a, b)
		before := w.log.count()
		w.reopen()
		synctest.Wait()
		a.mustBeat(t)
		b.mustBeat(t)
		if a.epoch != 2 || b.epoch != 2 || w.state("g") != "Stable" || w.log.count() != before {
			t.Errorf("epochs %d and %d, state %s", a.epoch, b.epoch, w.state("g"))
		}
		c := w.reporter("g", "c", "t").mustBeat(t)
		w.reopen()
		a.slow = true
		a.mustBeat(t) // is asked to give up partitions, and has not
		w.reopen()
		a.mustBeat(t)
		if c.mustBeat(t); c.has.overlaps(a.has) {
			t.Errorf("c has %v, a has %v", c.has, a.has)
		}
		a.slow = false
		converge(t, a, b, c)
		if a.has.len() != 2 || b.has.len() != 2 || c.has.len() != 2 {
			t.Errorf("%v %v %v", a.has, b.has, c.has)
		}
		w.reopen()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.state("g") != "Empty" {
			t.Errorf("nobody came back, and the group is %s", w.state("g"))
		}
	})
}

// group returns the group in memory.
func (w *world) group(name string) *group {
	g, err := w.acquire(ctx, name, false)
	if err != nil || g == nil {
		w.t.Fatalf("no group %s: %v", name, err)
	}
	g.unlock()
	return g
}

func TestConsumerTroubles(t *testing.T) {
	for _, written := range []bool{false, true} {
		w := newWorld(t, Options{})
		w.topics.create("t", 4)
		a, b := w.reporter("g", "a", "t"), w.reporter("g", "b", "t")
		converge(t, a)
		w.log.set(errBroken, written)
		wantCode(t, "join", b.beat().ErrorCode, kerr.CoordinatorNotAvailable)
		w.log.set(nil, false)
		w.topics.fail(errBroken)
		wantCode(t, "join", b.beat().ErrorCode, kerr.CoordinatorNotAvailable)
		w.topics.fail(nil)
		converge(t, a, b)
		if a.has.len() != 2 || b.has.len() != 2 || a.has.overlaps(b.has) {
			t.Errorf("a has %v, b has %v", a.has, b.has)
		}
	}
}
