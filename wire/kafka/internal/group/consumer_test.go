package group

import (
	"context"
	"iter"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// deleting calls then after the second topic was looked up.
type deleting struct {
	coord.Topics
	asked int
	then  func()
}

func (d *deleting) Topic(ctx context.Context, name string) (coord.Topic, error) {
	t, err := d.Topics.Topic(ctx, name)
	if d.asked++; d.asked == 2 {
		d.then()
	}
	return t, err
}

func topicOffsets(c *topic.Catalog, name, group string) (map[int32]topic.Offset, error) {
	t, err := c.Topic(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.Offsets(group).Load(ctx)
}

func keys(w *world, group string) iter.Seq[partition.StoredOffset] {
	return func(yield func(partition.StoredOffset) bool) {
		for s, err := range partition.StoredOffsets(ctx, w.log, group) {
			if err != nil || !yield(s) {
				return
			}
		}
	}
}

// reporter is a client of the consumer protocol.
type reporter struct {
	w          *world
	group      string
	id         string
	epoch      int32
	req        kmsg.ConsumerGroupHeartbeatRequest // of the first heartbeat
	has        partitions                         // the partitions that it reads
	is         partitions                         // the last assignment in an answer
	subscribed bool                               // its subscription
	slow       bool                               // it does not give up partitions
}

func (w *world) reporter(group, id string, topics ...string) *reporter {
	r := &reporter{w: w, group: group, id: id, has: partitions{}, is: partitions{}, req: kmsg.NewConsumerGroupHeartbeatRequest()}
	r.req.RebalanceTimeoutMillis = int32(testRebalance.Milliseconds())
	r.req.SubscribedTopicNames = topics
	if topics == nil {
		r.req.SubscribedTopicNames = []string{}
	}
	return r
}

func (r *reporter) request() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version = 1
	if r.epoch == joining || !r.subscribed {
		*req = r.req
		req.Version = 1
	}
	req.Group, req.MemberID, req.MemberEpoch = r.group, r.id, r.epoch
	if r.req.InstanceID != nil {
		req.InstanceID = r.req.InstanceID
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if r.epoch != joining {
		for _, id := range r.has.ids() {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: r.has[id]})
		}
	}
	return req
}

// beat sends a heartbeat with all that the client owns, and applies the assignment in the answer.
func (r *reporter) beat() *kmsg.ConsumerGroupHeartbeatResponse {
	r.comply()
	resp := r.w.ConsumerGroupHeartbeat(ctx, coord.Client{ID: "client", Host: "host"}, r.request())
	switch kerr.ErrorForCode(resp.ErrorCode) {
	case nil:
		r.epoch, r.subscribed = resp.MemberEpoch, true
		if resp.Assignment != nil {
			now := partitions{}
			for _, t := range resp.Assignment.Topics {
				makePartitions(t.TopicID, t.Partitions, now)
			}
			r.is = now
			r.comply()
		}
	case kerr.UnknownMemberID, kerr.FencedMemberEpoch:
		r.fresh()
	}
	return resp
}

// comply gives up partitions that are not in the assignment, unless the client is slow.
func (r *reporter) comply() {
	if r.slow {
		r.has = r.is.or(r.has)
	} else {
		r.has = r.is
	}
}

// fresh makes the client forget that it was a member.
func (r *reporter) fresh() *reporter {
	r.epoch, r.has, r.is, r.subscribed = joining, partitions{}, partitions{}, false
	return r
}

func (r *reporter) mustBeat(t testing.TB) *reporter {
	t.Helper()
	if resp := r.beat(); resp.ErrorCode != 0 {
		t.Fatalf("heartbeat of %s: %v %s", r.id, kerr.ErrorForCode(resp.ErrorCode), *resp.ErrorMessage)
	}
	return r
}

func (r *reporter) leave(epoch int32) int16 {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version = 1
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = r.group, r.id, epoch, r.req.InstanceID
	code := r.w.ConsumerGroupHeartbeat(ctx, coord.Client{}, req).ErrorCode
	if code == 0 {
		r.fresh()
	}
	return code
}

// converge sends heartbeats until the group is stable.
func converge(t testing.TB, members ...*reporter) {
	t.Helper()
	for range 20 {
		for _, r := range members {
			r.mustBeat(t)
		}
		if members[0].w.state(members[0].group) == "Stable" {
			return
		}
	}
	t.Fatalf("the group is %s after 20 rounds", members[0].w.state(members[0].group))
}
