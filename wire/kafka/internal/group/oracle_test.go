package group

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// side is a broker that a script runs on, with the values that the script has got from it.
type side struct {
	ask    func(kmsg.Request) kmsg.Response
	topic  topic.ID
	member string
	gen    int32
}

// line is one request of a script, and a function that takes values out of the answer.
type line struct {
	what string
	req  func(*side) kmsg.Request
	note func(*side, kmsg.Response)
}

// differs has the lines with another answer of the other implementation, and the reason for ours.
var differs = map[string]string{
	"heartbeat to no group":                     "Kafka answers UNKNOWN_MEMBER_ID: the client joins anew",
	"sync to no group":                          "Kafka answers UNKNOWN_MEMBER_ID: the client joins anew",
	"leave no group":                            "Kafka answers for each member",
	"fetch of no group":                         "Kafka knows no group that has no offsets: there are none",
	"join with an unknown ID":                   "Kafka repeats the member ID",
	"no timeout":                                "Kafka demands it when a member joins",
	"no subscription":                           "Kafka demands it when a member joins",
	"bad expression":                            "KIP-848 has an error of its own for it",
	"describe the member":                       "ours names the assignor",
	"describe while it waits":                   "ours names the assignor",
	"describe when stable":                      "ours names the assignor",
	"described as classic":                      "Kafka does not show consumer groups here",
	"the first is busy":                         "ours repeats the assignment until the client has it",
	"describe when empty":                       "the target of nobody is made at once",
	"the one that was":                          "Kafka fences the instance first",
	"commit of a generation to the empty group": "Kafka looks for the member first",
}

// An independent implementation answers scripts as this one does.
func TestOracle(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "t", "u"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := newWorld(t, Options{})
	<-w.restored // until then ListGroups is refused
	ours := &side{topic: w.topics.create("t", 4), ask: func(req kmsg.Request) kmsg.Response {
		req.SetVersion(groupKeys[req.Key()])
		resp, _ := w.answer(ctx, coord.Client{ID: "kgo"}, req)
		return resp
	}}
	w.topics.create("u", 4)
	theirs := &side{topic: fake.TopicInfo("t").TopicID, ask: func(req kmsg.Request) kmsg.Response {
		resp, err := cl.Request(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}}
	for name, script := range map[string][]line{"classic": classicScript(), "consumer": consumerScript()} {
		t.Run(name, func(t *testing.T) {
			for _, l := range script {
				got, want := ours.ask(l.req(ours)), theirs.ask(l.req(theirs))
				why := differs[l.what]
				if g, w := summary(got), summary(want); (g != w) != (why != "") {
					t.Errorf("%s: got %s, want %s; a difference that is known: %q", l.what, g, w, why)
				}
				if l.note != nil {
					l.note(ours, got)
					l.note(theirs, want)
				}
			}
		})
	}
}

// summary returns the fields of an answer that matter and do not depend on random values.
func summary(resp kmsg.Response) string {
	var s []string
	add := func(code int16, args ...any) {
		name := "ok"
		if err := kerr.ErrorForCode(code); err != nil {
			name = err.(*kerr.Error).Message
		}
		s = append(s, strings.TrimSpace(fmt.Sprintln(append([]any{name}, args...)...)))
	}
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		if add(r.ErrorCode, r.Generation, len(r.Members), r.LeaderID == r.MemberID, r.SkipAssignment); r.Protocol != nil {
			add(0, *r.Protocol)
		}
	case *kmsg.SyncGroupResponse:
		add(r.ErrorCode, string(r.MemberAssignment))
	case *kmsg.HeartbeatResponse:
		add(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		add(r.ErrorCode)
		for _, m := range r.Members {
			add(m.ErrorCode)
		}
	case *kmsg.OffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(p.ErrorCode, p.Partition)
			}
		}
	case *kmsg.OffsetFetchResponse:
		for _, g := range r.Groups {
			add(g.ErrorCode)
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					add(p.ErrorCode, p.Partition, p.Offset, p.Metadata != nil && *p.Metadata != "")
				}
			}
		}
	case *kmsg.DescribeGroupsResponse:
		for _, g := range r.Groups {
			add(g.ErrorCode, g.State, g.ProtocolType, g.Protocol, len(g.Members))
		}
	case *kmsg.ListGroupsResponse:
		for _, g := range r.Groups {
			add(0, g.Group, g.ProtocolType, g.GroupState, strings.ToLower(g.GroupType))
		}
	case *kmsg.DeleteGroupsResponse:
		for _, g := range r.Groups {
			add(g.ErrorCode)
		}
	case *kmsg.OffsetDeleteResponse:
		add(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(p.ErrorCode)
			}
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		n := -1
		if r.Assignment != nil {
			n = 0
			for _, t := range r.Assignment.Topics {
				n += len(t.Partitions)
			}
		}
		add(r.ErrorCode, r.MemberEpoch, n)
	case *kmsg.ConsumerGroupDescribeResponse:
		for _, g := range r.Groups {
			add(g.ErrorCode, g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName, len(g.Members))
		}
	}
	return strings.Join(s, "; ")
}

func classicScript() []line {
	join := func(edit func(*side, *kmsg.JoinGroupRequest)) func(*side) kmsg.Request {
		return func(s *side) kmsg.Request {
			req := (&world{}).member("classic", "range", "sticky").joinRequest()
			sub := kmsg.NewConsumerMemberMetadata()
			sub.Topics = []string{"t"}
			for i := range req.Protocols {
				req.Protocols[i].Metadata = sub.AppendTo(nil)
			}
			if req.MemberID = s.member; edit != nil {
				edit(s, req)
			}
			return req
		}
	}
	remember := func(s *side, resp kmsg.Response) {
		r := resp.(*kmsg.JoinGroupResponse)
		s.member, s.gen = r.MemberID, max(r.Generation, 0)
	}
	beat := func(edit func(*side, *kmsg.HeartbeatRequest)) func(*side) kmsg.Request {
		return func(s *side) kmsg.Request {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = "classic", s.member, s.gen
			if edit != nil {
				edit(s, req)
			}
			return req
		}
	}
	sync := func(edit func(*side, *kmsg.SyncGroupRequest)) func(*side) kmsg.Request {
		return func(s *side) kmsg.Request {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.MemberID, req.Generation = "classic", s.member, s.gen
			req.ProtocolType, req.Protocol = text("consumer"), text("range")
			req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: s.member, MemberAssignment: []byte("all")}}
			if edit != nil {
				edit(s, req)
			}
			return req
		}
	}
	leave := func(edit func(*kmsg.LeaveGroupRequestMember)) func(*side) kmsg.Request {
		return func(s *side) kmsg.Request {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group = "classic"
			m := kmsg.NewLeaveGroupRequestMember()
			if m.MemberID = s.member; edit != nil {
				edit(&m)
			}
			req.Members = append(req.Members, m)
			return req
		}
	}
	commit := scriptCommit("classic")
	return []line{
		{"heartbeat to no group", beat(nil), nil},
		{"sync to no group", sync(nil), nil},
		{"leave no group", leave(nil), nil},
		{"describe no group", scriptDescribe("classic"), nil},
		{"delete no group", scriptDelete("classic"), nil},
		{"fetch of no group", scriptFetch("classic", 0), nil},
		{"commit of a generation to no group", commit(func(s *side, r *kmsg.OffsetCommitRequest) { r.Generation = 3 }), nil},
		{"join with an unknown ID", join(func(_ *side, r *kmsg.JoinGroupRequest) { r.MemberID = "who" }), nil},
		{"join with a short session", join(func(_ *side, r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 }), nil},
		{"join without protocols", join(func(_ *side, r *kmsg.JoinGroupRequest) { r.Protocols = nil }), nil},
		{"join", join(nil), remember},
		{"join with the ID", join(nil), remember},
		{"describe before the assignment", scriptDescribe("classic"), nil},
		{"commit before the assignment", commit(func(s *side, r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = s.gen, s.member }), nil},
		{"heartbeat before the assignment", beat(nil), nil},
		{"join again before the assignment", join(nil), nil},
		{"sync of another generation", sync(func(_ *side, r *kmsg.SyncGroupRequest) { r.Generation++ }), nil},
		{"sync of another protocol", sync(func(_ *side, r *kmsg.SyncGroupRequest) { r.Protocol = text("sticky") }), nil},
		{"sync of a stranger", sync(func(_ *side, r *kmsg.SyncGroupRequest) { r.MemberID = "who" }), nil},
		{"sync", sync(nil), nil},
		{"sync again", sync(nil), nil},
		{"heartbeat", beat(nil), nil},
		{"heartbeat of the past", beat(func(_ *side, r *kmsg.HeartbeatRequest) { r.Generation-- }), nil},
		{"heartbeat of a stranger", beat(func(_ *side, r *kmsg.HeartbeatRequest) { r.MemberID = "who" }), nil},
		{"heartbeat of an instance", beat(func(_ *side, r *kmsg.HeartbeatRequest) { r.InstanceID = text("i") }), nil},
		{"join without a common protocol", join(func(_ *side, r *kmsg.JoinGroupRequest) {
			r.MemberID, r.Protocols[0].Name, r.Protocols = "", "x", r.Protocols[:1]
		}), nil},
		{"join with another type", join(func(_ *side, r *kmsg.JoinGroupRequest) { r.MemberID, r.ProtocolType = "", "connect" }), nil},
		{"commit", commit(func(s *side, r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = s.gen, s.member }), nil},
		{"commit of the past", commit(func(s *side, r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = s.gen-1, s.member }), nil},
		{"commit of a stranger", commit(func(s *side, r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = s.gen, "who" }), nil},
		{"commit of nobody", commit(nil), nil},
		{"describe", scriptDescribe("classic"), nil},
		{"fetch", scriptFetch("classic", 0), nil},
		{"fetch of another", scriptFetch("classic", 1), nil},
		{"delete the group", scriptDelete("classic"), nil},
		{"delete an offset that is read", scriptOffsetDelete("t"), nil},
		{"delete an offset that is not", scriptOffsetDelete("u"), nil},
		{"rejoin of the leader", join(nil), remember},
		{"sync of the new generation", sync(nil), nil},
		{"leave as a stranger", leave(func(m *kmsg.LeaveGroupRequestMember) { m.MemberID = "who" }), nil},
		{"leave as an instance", leave(func(m *kmsg.LeaveGroupRequestMember) { m.InstanceID = text("i") }), nil},
		{"list", func(*side) kmsg.Request { return kmsg.NewPtrListGroupsRequest() }, nil},
		{"leave", leave(nil), nil},
		{"leave again", leave(nil), nil},
		{"describe the empty group", scriptDescribe("classic"), nil},
		{"heartbeat to the empty group", beat(nil), nil},
		{"commit of a generation to the empty group", commit(func(s *side, r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = s.gen, s.member }), nil},
		{"commit of nobody to the empty group", commit(nil), nil},
		{"static join", join(func(_ *side, r *kmsg.JoinGroupRequest) { r.MemberID, r.InstanceID = "", text("i") }), remember},
		{"static sync", sync(func(_ *side, r *kmsg.SyncGroupRequest) { r.InstanceID = text("i") }), nil},
		{"static rejoin", join(func(_ *side, r *kmsg.JoinGroupRequest) { r.MemberID, r.InstanceID = "", text("i") }), nil},
		{"heartbeat of the old ID", beat(func(_ *side, r *kmsg.HeartbeatRequest) { r.InstanceID = text("i") }), nil},
		{"leave by instance", leave(func(m *kmsg.LeaveGroupRequestMember) { m.MemberID, m.InstanceID = "", text("i") }), nil},
		{"delete an offset of the empty group", scriptOffsetDelete("t"), nil},
		{"delete the empty group", scriptDelete("classic"), func(s *side, _ kmsg.Response) { s.member = "" }},
		{"delete it again", scriptDelete("classic"), nil},
	}
}

func scriptCommit(group string) func(func(*side, *kmsg.OffsetCommitRequest)) func(*side) kmsg.Request {
	return func(edit func(*side, *kmsg.OffsetCommitRequest)) func(*side) kmsg.Request {
		return func(s *side) kmsg.Request {
			req := commitRequest(group, "t", 0, 42)
			req.Topics[0].TopicID = s.topic
			if edit != nil {
				edit(s, req)
			}
			return req
		}
	}
}

func scriptFetch(group string, partition int32) func(*side) kmsg.Request {
	return func(s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberEpoch = group, -1
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: s.topic, Partitions: []int32{partition}}}
		req.Groups = append(req.Groups, g)
		return req
	}
}

func scriptDescribe(group string) func(*side) kmsg.Request {
	return func(*side) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		return req
	}
}

func scriptDelete(group string) func(*side) kmsg.Request {
	return func(*side) kmsg.Request {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group}
		return req
	}
}

func scriptOffsetDelete(name string) func(*side) kmsg.Request {
	return func(*side) kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = "classic"
		req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		return req
	}
}

func consumerScript() []line {
	type request = kmsg.ConsumerGroupHeartbeatRequest
	first := func(edit func(*side, *request)) func(*side) kmsg.Request {
		return func(s *side) kmsg.Request {
			req := (&world{}).reporter("modern", "a", "t").request()
			if edit != nil {
				edit(s, req)
			}
			return req
		}
	}
	beat := func(member string, epoch int32, owned ...int32) func(*side) kmsg.Request {
		return first(func(s *side, r *request) {
			r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis, r.SubscribedTopicNames = member, epoch, -1, nil
			if r.Topics = nil; owned != nil {
				r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: s.topic, Partitions: owned}}
			}
		})
	}
	describe := func(*side) kmsg.Request {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups = []string{"modern"}
		return req
	}
	commit := scriptCommit("modern")
	as := func(member string, epoch int32) func(*side) kmsg.Request {
		return commit(func(_ *side, r *kmsg.OffsetCommitRequest) { r.MemberID, r.Generation = member, epoch })
	}
	instance := func(member string, epoch int32) func(*side) kmsg.Request {
		return first(func(_ *side, r *request) {
			if r.MemberID, r.MemberEpoch, r.InstanceID = member, epoch, text("i"); epoch < 0 {
				r.Topics, r.SubscribedTopicNames, r.RebalanceTimeoutMillis = nil, nil, -1
			}
		})
	}
	return []line{
		{"describe no group", describe, nil},
		{"no timeout", first(func(_ *side, r *request) { r.RebalanceTimeoutMillis = -1 }), nil},
		{"no subscription", first(func(_ *side, r *request) { r.SubscribedTopicNames = nil }), nil},
		{"unknown assignor", first(func(_ *side, r *request) { r.ServerAssignor = text("x") }), nil},
		{"bad expression", first(func(_ *side, r *request) { r.SubscribedTopicRegex = text("(") }), nil},
		{"join", first(nil), nil},
		{"heartbeat", beat("a", 1, 0, 1, 2, 3), nil},
		{"keepalive", beat("a", 1), nil},
		{"epoch of tomorrow", beat("a", 2), nil},
		{"stranger", beat("who", 1), nil},
		{"describe the member", describe, nil},
		{"described as classic", scriptDescribe("modern"), nil},
		{"commit", as("a", 1), nil},
		{"commit of tomorrow", as("a", 2), nil},
		{"commit of a stranger", as("who", 1), nil},
		{"commit of nobody", as("", -1), nil},
		{"fetch", scriptFetch("modern", 0), nil},
		{"delete", scriptDelete("modern"), nil},
		{"a second joins", first(func(_ *side, r *request) { r.MemberID = "b" }), nil},
		{"describe while it waits", describe, nil},
		{"the first hears of it", beat("a", 1), nil},
		{"the first is busy", beat("a", 1), nil},
		{"the first rejoins", first(nil), nil},
		{"the second gets its share", beat("b", 2), nil},
		{"describe when stable", describe, nil},
		{"the first leaves", beat("a", -1), nil},
		{"and leaves again", beat("a", -1), nil},
		{"the second gets all", beat("b", 2), nil},
		{"the second leaves", beat("b", -1), nil},
		{"describe when empty", describe, nil},
		{"a static member", instance("s", 0), nil},
		{"its instance in use", instance("x", 0), nil},
		{"it goes away", instance("s", -2), nil},
		{"it comes back as another", instance("y", 0), nil},
		{"the one that was", instance("s", -2), nil},
		{"it leaves", instance("y", -1), nil},
		{"delete the empty group", scriptDelete("modern"), nil},
	}
}
