package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/answertest"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// checked returns an answer of the coordinator. It fails the test if a field is null that Kafka's
// brokers never send as null.
func checked[R kmsg.Response](w *world, resp R, version int16) R {
	resp.SetVersion(version)
	if err := answertest.Check(resp); err != nil {
		w.t.Error(err)
	}
	return resp
}

func (w *world) JoinGroup(ctx context.Context, by coord.Client, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	return checked(w, w.Coordinator.JoinGroup(ctx, by, req), req.Version)
}

func (w *world) SyncGroup(ctx context.Context, by coord.Client, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	return checked(w, w.Coordinator.SyncGroup(ctx, by, req), req.Version)
}

func (w *world) LeaveGroup(ctx context.Context, by coord.Client, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	return checked(w, w.Coordinator.LeaveGroup(ctx, by, req), req.Version)
}

func (w *world) DescribeGroups(ctx context.Context, by coord.Client, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	return checked(w, w.Coordinator.DescribeGroups(ctx, by, req), req.Version)
}

func (w *world) OffsetFetch(ctx context.Context, by coord.Client, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	return checked(w, w.Coordinator.OffsetFetch(ctx, by, req), req.Version)
}

func (w *world) ConsumerGroupHeartbeat(ctx context.Context, by coord.Client, req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	return checked(w, w.Coordinator.ConsumerGroupHeartbeat(ctx, by, req), req.Version)
}

func (w *world) ConsumerGroupDescribe(ctx context.Context, by coord.Client, req *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	return checked(w, w.Coordinator.ConsumerGroupDescribe(ctx, by, req), req.Version)
}
