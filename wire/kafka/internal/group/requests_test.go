package group

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// answer passes a request to the coordinator; false if the coordinator does not serve it.
func (c *Coordinator) answer(ctx context.Context, cl coord.Client, req kmsg.Request) (kmsg.Response, bool) {
	switch r := req.(type) {
	case *kmsg.OffsetCommitRequest:
		return c.OffsetCommit(ctx, cl, r), true
	case *kmsg.OffsetFetchRequest:
		return c.OffsetFetch(ctx, cl, r), true
	case *kmsg.JoinGroupRequest:
		return c.JoinGroup(ctx, cl, r), true
	case *kmsg.HeartbeatRequest:
		return c.Heartbeat(ctx, cl, r), true
	case *kmsg.LeaveGroupRequest:
		return c.LeaveGroup(ctx, cl, r), true
	case *kmsg.SyncGroupRequest:
		return c.SyncGroup(ctx, cl, r), true
	case *kmsg.DescribeGroupsRequest:
		return c.DescribeGroups(ctx, cl, r), true
	case *kmsg.ListGroupsRequest:
		return c.ListGroups(ctx, cl, r), true
	case *kmsg.DeleteGroupsRequest:
		return c.DeleteGroups(ctx, cl, r), true
	case *kmsg.OffsetDeleteRequest:
		return c.OffsetDelete(ctx, cl, r), true
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return c.ConsumerGroupHeartbeat(ctx, cl, r), true
	case *kmsg.ConsumerGroupDescribeRequest:
		return c.ConsumerGroupDescribe(ctx, cl, r), true
	}
	return nil, false
}

var groupKeys = map[int16]int16{8: 10, 9: 10, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 42: 2, 47: 0, 68: 1, 69: 1}

// Every version of every request, with nothing in it, gets an answer of that version.
func TestEmptyRequests(t *testing.T) {
	w := newWorld(t, Options{})
	for key, newest := range groupKeys {
		for version := range newest + 1 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			resp, ok := w.answer(ctx, coord.Client{}, req)
			if !ok || resp.GetVersion() != version || resp.Key() != key {
				t.Errorf("key %d version %d: %+v", key, version, resp)
				continue
			}
			again := req.ResponseKind()
			if err := again.ReadFrom(resp.AppendTo(nil)); err != nil {
				t.Errorf("key %d version %d: the answer cannot be read: %v", key, version, err)
			}
		}
	}
}

// No request makes the coordinator panic or hang, whatever is in it, and every
// answer can be read.
func FuzzRequests(f *testing.F) {
	w := newWorld(f, Options{MinSession: time.Millisecond})
	id := w.topics.create("t", 3)
	w.reporter("g", "m", "t").beat()
	old := w.speaker("c", "t")
	old.version = 3
	old.join()
	for key, newest := range groupKeys {
		req := kmsg.RequestForKey(key)
		req.SetVersion(newest)
		f.Add(key, newest, req.AppendTo(nil))
	}
	full := w.reporter("c", "m", "t").request()
	full.MemberEpoch, full.Topics = 1, []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: id, Partitions: []int32{-1, 5, 1}}}
	for _, req := range []kmsg.Request{commitRequest("g", "t", 0, 1), old.joinRequest(), w.reporter("c", "m", "t").request(), full} {
		f.Add(req.Key(), req.GetVersion(), req.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		newest, ok := groupKeys[key]
		if !ok || version < 0 || version > newest {
			return
		}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if req.ReadFrom(body) != nil {
			return
		}
		short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		resp, _ := w.answer(short, coord.Client{ID: "c", Host: "h"}, req)
		if err := req.ResponseKind().ReadFrom(resp.AppendTo(nil)); err != nil {
			t.Errorf("the answer to %+v cannot be read: %v", req, err)
		}
	})
}
