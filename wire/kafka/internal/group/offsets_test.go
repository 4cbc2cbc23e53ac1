package group

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestCommitAndFetch(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.topics.create("orders", 3)
	wantCode(t, "commit", w.commit(commitRequest("g", "orders", 1, 42)), nil)
	w.reopen()
	req := kmsg.NewPtrOffsetFetchRequest()
	for version := int16(1); version <= 10; version++ {
		req.Version = version
		req.Group, req.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "orders", Partitions: []int32{0, 1}}}
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", TopicID: id, Partitions: []int32{0, 1}}}
		req.Groups = []kmsg.OffsetFetchRequestGroup{g, g}
		resp := w.OffsetFetch(ctx, coord.Client{}, req)
		if version < 8 {
			p := resp.Topics[0].Partitions
			if p[0].Offset != -1 || *p[0].Metadata != "" || p[1].Offset != 42 || p[1].LeaderEpoch != 3 || *p[1].Metadata != "note" {
				t.Errorf("version %d: %+v", version, p)
			}
			continue
		}
		p := resp.Groups[1].Topics[0].Partitions
		if len(resp.Groups) != 2 || resp.Groups[1].Topics[0].TopicID != id || p[0].Offset != -1 || p[1].Offset != 42 || *p[1].Metadata != "note" {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
}

func TestFetchAll(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("a", 1)
	w.topics.create("b", 2)
	w.topics.create("gone", 1)
	for _, c := range []struct {
		name string
		p    int32
	}{{"b", 1}, {"gone", 0}, {"a", 0}, {"b", 0}} {
		wantCode(t, "commit", w.commit(commitRequest("g", c.name, c.p, int64(c.p))), nil)
	}
	w.topics.delete("gone")
	w.topics.create("a", 1) // another topic of the same name
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, "g"
	resp := w.OffsetFetch(ctx, coord.Client{}, req)
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != "b" || len(resp.Topics[0].Partitions) != 2 {
		t.Errorf("%+v", resp)
	}
	req.Version = 1 // here no topics are no topics
	if resp := w.OffsetFetch(ctx, coord.Client{}, req); len(resp.Topics) != 0 {
		t.Errorf("%+v", resp)
	}
	if w.fetch("g", "a", 0) != -1 || w.fetch("other", "b", 0) != -1 || w.fetch("g", "b", 0) != 0 {
		t.Error("offsets of other topics or groups")
	}
}

func TestCommitRefusals(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 1)
	busy := w.member("busy")
	together(t, busy)
	for name, c := range map[string]struct {
		edit func(*kmsg.OffsetCommitRequest)
		want *kerr.Error
	}{
		"good":               {func(r *kmsg.OffsetCommitRequest) {}, nil},
		"no group":           {func(r *kmsg.OffsetCommitRequest) { r.Group = "" }, kerr.InvalidGroupID},
		"unknown topic":      {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Topic = "u" }, kerr.UnknownTopicOrPartition},
		"impossible topic":   {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Topic = "" }, kerr.UnknownTopicOrPartition},
		"unknown id":         {func(r *kmsg.OffsetCommitRequest) { r.Version, r.Topics[0].TopicID = 10, topic.ID{99} }, kerr.UnknownTopicID},
		"unknown partition":  {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = 1 }, kerr.UnknownTopicOrPartition},
		"negative partition": {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = -1 }, kerr.UnknownTopicOrPartition},
		"negative offset":    {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Offset = -2 }, nil},
		"null metadata":      {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = nil }, nil},
		"long metadata": {func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions[0].Metadata = text(string(make([]byte, 4097)))
		}, kerr.OffsetMetadataTooLarge},
		"generation of none": {func(r *kmsg.OffsetCommitRequest) { r.Generation = 1 }, kerr.IllegalGeneration},
		"nobody in a group":  {func(r *kmsg.OffsetCommitRequest) { r.Group = "busy" }, kerr.UnknownMemberID},
		"stranger":           {func(r *kmsg.OffsetCommitRequest) { r.Group, r.MemberID, r.Generation = "busy", "who", 1 }, kerr.UnknownMemberID},
		"member":             {func(r *kmsg.OffsetCommitRequest) { r.Group, r.MemberID, r.Generation = "busy", busy.id, 1 }, nil},
		"member of the past": {func(r *kmsg.OffsetCommitRequest) { r.Group, r.MemberID, r.Generation = "busy", busy.id, 0 }, kerr.IllegalGeneration},
		"stranger's instance": {func(r *kmsg.OffsetCommitRequest) {
			r.Group, r.MemberID, r.Generation, r.InstanceID = "busy", busy.id, 1, text("i")
		}, kerr.UnknownMemberID},
	} {
		req := commitRequest("g "+name, "t", 0, 1)
		c.edit(req)
		wantCode(t, name, w.commit(req), c.want)
	}
	// An error of one partition does not keep the others from being stored.
	req := commitRequest("g", "t", 1, 5)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, commitRequest("g", "t", 0, 6).Topics[0].Partitions...)
	resp := w.OffsetCommit(ctx, coord.Client{}, req)
	if p := resp.Topics[0].Partitions; p[0].ErrorCode == 0 || p[1].ErrorCode != 0 || w.fetch("g", "t", 0) != 6 {
		t.Errorf("%+v", resp)
	}
}

// kafkajs resets the offsets of a group by committing -1 or -2: after that the group
// has none, and other partitions keep theirs.
func TestNegativeOffsetMeansNone(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 2)
	for _, offset := range []int64{-1, -2, math.MinInt64} {
		for partition := range int32(2) {
			wantCode(t, "commit", w.commit(commitRequest("g", "t", partition, 7)), nil)
		}
		wantCode(t, fmt.Sprint("commit ", offset), w.commit(commitRequest("g", "t", 0, offset)), nil)
		if got, other := w.fetch("g", "t", 0), w.fetch("g", "t", 1); got != -1 || other != 7 {
			t.Errorf("after %d the offsets are %d and %d, want -1 and 7", offset, got, other)
		}
		wantCode(t, "again", w.commit(commitRequest("g", "t", 0, offset)), nil)
	}
	w.reopen()
	if got := w.fetch("g", "t", 0); got != -1 {
		t.Errorf("after a restart the offset is %d, want -1", got)
	}
}

func TestCommitDuringRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.topics.create("t", 1)
		a, b := w.member("g"), w.member("g")
		together(t, a, b)
		commit := func() int16 {
			req := commitRequest("g", "t", 0, 1)
			req.MemberID, req.Generation = a.id, a.gen
			return w.commit(req)
		}
		wantCode(t, "leave", b.leave(), nil)
		wantCode(t, "preparing", commit(), nil)
		joinAll(t, a)
		wantCode(t, "completing", commit(), kerr.RebalanceInProgress)
		wantCode(t, "of a transaction", w.CheckTxnCommit("g", a.id, nil, a.gen), nil)
		complete(t, a)
		wantCode(t, "stable", commit(), nil)
	})
}

// A commit that is on its way when the next generation begins is not stored.
func TestCommitLosesRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.topics.create("t", 1)
		a, b := w.member("g"), w.member("g")
		together(t, a, b)
		req := commitRequest("g", "t", 0, 7)
		req.MemberID, req.Generation = a.id, a.gen
		w.log.mu.Lock()
		w.log.before = func() { // between the check of the member and the commit of the offsets
			wantCode(t, "leave", a.leave(), nil)
			together(t, b)
		}
		w.log.mu.Unlock()
		wantCode(t, "commit", w.commit(req), kerr.UnknownMemberID)
		if got := w.fetch("g", "t", 0); got != -1 {
			t.Errorf("stored %d behind the back of the new owner", got)
		}
		// One that conflicts with the next generation of the same member is checked again, and
		// refused.
		joinAll(t, b)
		req.MemberID, req.Generation = b.id, b.gen
		complete(t, b)
		w.log.mu.Lock()
		w.log.before = func() { b.protocol["range"] = "new"; together(t, b); req.Generation = b.gen }
		w.log.mu.Unlock()
		wantCode(t, "commit", w.commit(req), kerr.IllegalGeneration)
		wantCode(t, "commit", w.commit(req), nil)
	})
}

// If a topic is deleted while offsets are committed, only its offsets fail.
func TestCommitToDeletedTopic(t *testing.T) {
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	for _, name := range []string{"a", "b"} {
		if _, err := topics.Create(ctx, name, topic.Spec{}); err != nil {
			t.Fatal(err)
		}
	}
	view := &deleting{Topics: coord.Catalog(topics)}
	c, err := Open(log, view, &Options{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	view.then = func() { topics.Delete(ctx, "a") }
	req := commitRequest("g", "a", 0, 1)
	req.Topics = append(req.Topics, commitRequest("g", "b", 0, 2).Topics...)
	resp := c.OffsetCommit(ctx, coord.Client{}, req)
	wantCode(t, "the deleted topic", resp.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "the other", resp.Topics[1].Partitions[0].ErrorCode, nil)
	stored, err := topicOffsets(topics, "b", "g")
	if err != nil || stored[0].Next != 2 {
		t.Errorf("stored %v, %v", stored, err)
	}
}

type pendingSet map[slot]bool

func (p pendingSet) Pending(group string, id topic.ID, partition int32) bool {
	return group == "g" && p[slot{id, partition}]
}

func TestRequireStable(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.topics.create("t", 2)
	w.commit(commitRequest("g", "t", 0, 5))
	w.SetPending(pendingSet{{id, 0}: true})
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.RequireStable = 7, "g", true
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
	p := w.OffsetFetch(ctx, coord.Client{}, req).Topics[0].Partitions
	if p[0].ErrorCode != kerr.UnstableOffsetCommit.Code || p[0].Offset != -1 || p[1].ErrorCode != 0 {
		t.Errorf("stable: %+v", p)
	}
	req.RequireStable = false
	if p = w.OffsetFetch(ctx, coord.Client{}, req).Topics[0].Partitions; p[0].ErrorCode != 0 || p[0].Offset != 5 {
		t.Errorf("not stable: %+v", p)
	}
}

func TestCheckTxnCommit(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.member("g")
	together(t, a)
	for name, c := range map[string]struct {
		group, member string
		instance      *string
		generation    int32
		want          *kerr.Error
	}{
		"member":            {"g", a.id, nil, 1, nil},
		"nobody":            {"g", "", nil, -1, nil},
		"old generation":    {"g", a.id, nil, 0, kerr.IllegalGeneration},
		"stranger":          {"g", "who", nil, 1, kerr.UnknownMemberID},
		"stranger with -1":  {"g", "who", nil, -1, kerr.UnknownMemberID},
		"instance":          {"g", a.id, text("i"), 1, kerr.UnknownMemberID},
		"no group yet":      {"new", "", nil, -1, nil},
		"generation of new": {"newer", "x", nil, 3, kerr.IllegalGeneration},
		"no name":           {"", "", nil, -1, kerr.InvalidGroupID},
	} {
		wantCode(t, name, w.CheckTxnCommit(c.group, c.member, c.instance, c.generation), c.want)
	}
}

// deleteOffset sends OffsetDelete, and returns the error codes of the group and of the partition.
func (w *world) deleteOffset(group, name string, p int32) (code, part int16) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: p}}}}
	resp := w.OffsetDelete(ctx, coord.Client{}, req)
	if resp.ErrorCode != 0 {
		return resp.ErrorCode, 0
	}
	return 0, resp.Topics[0].Partitions[0].ErrorCode
}

func TestOffsetDelete(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 2)
	w.topics.create("u", 1)
	remove := w.deleteOffset
	code, _ := remove("none", "t", 0)
	wantCode(t, "unknown group", code, kerr.GroupIDNotFound)
	w.commit(commitRequest("g", "t", 0, 1))
	w.commit(commitRequest("g", "u", 0, 1))
	_, part := remove("g", "t", 2)
	wantCode(t, "unknown partition", part, kerr.UnknownTopicOrPartition)
	m := w.member("g")
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Topics = []string{"t"}
	m.protocol["range"] = string(sub.AppendTo(nil))
	together(t, m)
	_, part = remove("g", "t", 0)
	wantCode(t, "subscribed", part, kerr.GroupSubscribedToTopic)
	_, part = remove("g", "u", 0)
	wantCode(t, "not subscribed", part, nil)
	if w.fetch("g", "u", 0) != -1 || w.fetch("g", "t", 0) != 1 {
		t.Error("removed the wrong one")
	}
	odd := w.member("odd")
	together(t, odd) // its metadata is no subscription
	code, _ = remove("odd", "t", 0)
	wantCode(t, "unknown subscription", code, kerr.NonEmptyGroup)
	m.leave()
	_, part = remove("g", "t", 0)
	wantCode(t, "empty group", part, nil)
}

// The offset of a member that joins while OffsetDelete is on its way stays.
func TestOffsetDeleteLosesRace(t *testing.T) {
	for name, first := range map[string]bool{"new group": true, "stored group": false} {
		w := newWorld(t, Options{})
		id := w.topics.create("t", 1)
		if first { // an offset of a program
			if err := partition.NewOffsets(w.log, "g", "t", id).CommitOffset(ctx, 0, topic.Offset{Next: 1}); err != nil {
				t.Fatal(err)
			}
		} else {
			wantCode(t, "commit", w.commit(commitRequest("g", "t", 0, 1)), nil)
		}
		w.beforeNext(func() {
			m := w.speaker("g", "t")
			wantCode(t, "join", m.join().ErrorCode, nil)
			m.sync(t, map[string][]int32{"t": {0}})
			req := commitRequest("g", "t", 0, 5)
			req.MemberID, req.Generation = m.id, m.gen
			wantCode(t, "commit of the member", w.commit(req), nil)
		})
		code, part := w.deleteOffset("g", "t", 0)
		wantCode(t, name, code, nil)
		wantCode(t, name, part, kerr.GroupSubscribedToTopic)
		if got := w.fetch("g", "t", 0); got != 5 {
			t.Errorf("%s: the offset is %d, want 5", name, got)
		}
	}
}

func TestDeleteGroups(t *testing.T) {
	w := newWorld(t, Options{})
	id := w.topics.create("t", 1)
	w.commit(commitRequest("g", "t", 0, 1))
	m := w.member("busy")
	together(t, m)
	b := mainstem.NewBatch()
	partition.NewOffsets(w.log, "go only", "t", id).CommitOffsetTo(b, 0, topic.Offset{Next: 9, LeaderEpoch: -1})
	if _, err := w.log.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version = 2
	req.Groups = []string{"g", "busy", "none", "", "go only"}
	want := []*kerr.Error{nil, kerr.NonEmptyGroup, kerr.GroupIDNotFound, kerr.InvalidGroupID, nil}
	for i, g := range w.DeleteGroups(ctx, coord.Client{}, req).Groups {
		wantCode(t, g.Group, g.ErrorCode, want[i])
	}
	w.reopen()
	if w.fetch("g", "t", 0) != -1 || w.fetch("go only", "t", 0) != -1 || w.state("g") != "" || w.state("busy") != "Stable" {
		t.Error("not deleted, or too much")
	}
	wantCode(t, "a new group of that name", w.commit(commitRequest("g", "t", 0, 3)), nil)
	if w.fetch("g", "t", 0) != 3 {
		t.Error("not stored anew")
	}
}

func TestListAndDescribe(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 1)
	w.commit(commitRequest("simple", "t", 0, 1))
	together(t, w.member("classic"))
	w.reporter("modern", "m", "t").mustBeat(t)
	<-w.restored // until then a list is refused
	list := func(states, types []string) []string {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version, req.StatesFilter, req.TypesFilter = 5, states, types
		var out []string
		for _, g := range w.ListGroups(ctx, coord.Client{}, req).Groups {
			out = append(out, g.Group+" "+g.GroupType+" "+g.GroupState+" "+g.ProtocolType)
		}
		return out
	}
	c, m, s := "classic classic Stable consumer", "modern consumer Stable consumer", "simple classic Empty "
	for name, x := range map[string]struct {
		states, types, want []string
	}{
		"all":      {nil, nil, []string{c, m, s}},
		"stable":   {[]string{"stable"}, nil, []string{c, m}},
		"consumer": {nil, []string{"Consumer"}, []string{m}},
		"both":     {[]string{"Empty", "Dead"}, []string{"classic"}, []string{s}},
		"nonsense": {[]string{"x"}, nil, nil},
	} {
		if got := list(x.states, x.types); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if d := w.describe("simple"); d.State != "Empty" || d.ErrorCode != 0 || d.AuthorizedOperations != -2147483648 {
		t.Errorf("%+v", d)
	}
	for _, name := range []string{"none", "modern"} {
		d := w.describe(name)
		wantCode(t, name, d.ErrorCode, kerr.GroupIDNotFound)
		if d.State != "Dead" || d.ErrorMessage == nil {
			t.Errorf("%+v", d)
		}
	}
	old := kmsg.NewPtrDescribeGroupsRequest()
	old.Version, old.Groups = 5, []string{"none"}
	if d := w.DescribeGroups(ctx, coord.Client{}, old).Groups[0]; d.ErrorCode != 0 || d.State != "Dead" {
		t.Errorf("version 5: %+v", d)
	}
	groups, err := w.Groups(ctx)
	if err != nil || len(groups) != 3 || groups[0].Members != 1 || len(groups[2].Offsets) != 1 || groups[2].Offsets[0].Offset != 1 {
		t.Errorf("%+v, %v", groups, err)
	}
}

func TestOffsetsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		w := newWorld(t, Options{OffsetRetention: 7 * day})
		for _, name := range []string{"t", "u"} {
			w.topics.create(name, 1)
		}
		id := w.topics.create("gone", 1)
		sweep := func() {
			t.Helper()
			if err := w.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		b := mainstem.NewBatch()
		partition.NewOffsets(w.log, "go only", "t", w.topics.topics["t"].ID).CommitOffsetTo(b, 0, topic.Offset{Next: 9, LeaderEpoch: -1})
		w.log.Commit(ctx, b)
		w.commit(commitRequest("simple", "t", 0, 1))
		w.commit(commitRequest("group", "t", 0, 1))
		w.commit(commitRequest("group", "u", 0, 1))
		w.commit(commitRequest("group", "gone", 0, 1))
		m := w.member("group")
		sub := kmsg.NewConsumerMemberMetadata()
		sub.Topics = []string{"t"}
		m.protocol["range"] = string(sub.AppendTo(nil))
		together(t, m)
		alive := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(testSession / 2) {
				m.beat()
			}
		}
		w.topics.delete("gone")
		alive(time.Minute)
		sweep()
		if n := len(slices.Collect(keys(w, "group"))); n != 2 {
			t.Errorf("%d offsets: those of a deleted topic should be gone (%v)", n, id)
		}
		for range 8 { // it comes back every day
			time.Sleep(day)
			m.id = ""
			together(t, m)
		}
		w.commit(commitRequest("late", "t", 0, 1))
		sweep()
		if w.fetch("group", "t", 0) != 1 || w.fetch("group", "u", 0) != -1 {
			t.Error("of a group with members, offsets of topics not subscribed to expire, and only those")
		}
		if w.fetch("simple", "t", 0) != -1 || w.state("simple") != "" || w.fetch("late", "t", 0) != 1 {
			t.Error("of a group that never had members, offsets expire by their own age")
		}
		m.leave()
		time.Sleep(6 * day)
		sweep()
		if w.fetch("group", "t", 0) != 1 || w.state("group") != "Empty" {
			t.Error("expired before the group was empty for long enough")
		}
		time.Sleep(2 * day)
		sweep()
		if w.fetch("group", "t", 0) != -1 || w.state("group") != "" {
			t.Error("did not expire, or the group did not vanish")
		}
		if w.fetch("go only", "t", 0) != 9 {
			t.Error("what no client's group has stored must stay")
		}
		if n := len(w.all()); n != 1 { // late was used since the last sweep, or not
			sweep()
			if n = len(w.all()); n != 0 {
				t.Errorf("%d groups without members are still in memory", n)
			}
		}
	})
}

// Offsets of many consumers are committed together, without waiting for each other's groups.
func TestConcurrentCommits(t *testing.T) {
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	topics := newCatalog(log)
	topics.create("t", 100)
	c, err := Open(log, topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var wg sync.WaitGroup
	for i := range int32(32) {
		wg.Go(func() {
			for n := range int64(20) {
				req := commitRequest([]string{"g", "h"}[i%2], "t", i, n)
				if code := c.OffsetCommit(ctx, coord.Client{}, req).Topics[0].Partitions[0].ErrorCode; code != 0 {
					t.Errorf("commit: %v", kerr.ErrorForCode(code))
				}
			}
		})
	}
	wg.Wait()
	groups, err := c.Groups(ctx)
	if err != nil || len(groups) != 2 || len(groups[0].Offsets) != 16 || groups[0].Offsets[3].Offset != 19 {
		t.Errorf("%+v, %v", groups, err)
	}
}
