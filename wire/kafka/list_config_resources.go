package kafka

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources, versions 0 and 1 (KIP-1000).
//
//	v1  kinds of resources (KIP-1142); v0 lists only metrics subscriptions of clients

// listConfigResources answers with the topics, the broker, and the groups that have
// configurations of their own, as far as the request asks for their kind. There are no metrics
// subscriptions of clients, so the answer to version 0 is empty.
func (s *Server) listConfigResources(ctx context.Context, c *conn, req *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if req.Version == 0 {
		return resp
	}
	wanted := map[kmsg.ConfigResourceType]bool{}
	for _, t := range req.ResourceTypes {
		wanted[kmsg.ConfigResourceType(t)] = true
	}
	for t := range wanted {
		if !slices.Contains(configKinds, t) {
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp
		}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		one := kmsg.NewListConfigResourcesResponseConfigResource()
		one.Type, one.Name = int8(kind), name
		resp.ConfigResources = append(resp.ConfigResources, one)
	}
	if len(wanted) == 0 || wanted[kmsg.ConfigResourceTypeTopic] {
		all, err := s.sources(ctx)
		resp.ErrorCode = s.outcomeOf(c, "ListConfigResources", err)
		for _, t := range all {
			add(kmsg.ConfigResourceTypeTopic, t.Name())
		}
	}
	if len(wanted) == 0 || wanted[kmsg.ConfigResourceTypeBroker] {
		add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(s.o.NodeID)))
	}
	if len(wanted) == 0 || wanted[kmsg.ConfigResourceTypeGroupConfig] {
		names, err := s.groups.Configured(ctx)
		if err != nil {
			resp.ErrorCode = s.outcomeOf(c, "ListConfigResources", err)
		}
		for _, name := range names {
			add(kmsg.ConfigResourceTypeGroupConfig, name)
		}
	}
	return resp
}

// configKinds are the kinds of resources that a request may ask for.
var configKinds = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}
