package group

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// DescribeGroups, versions 0 to 6. Consumer groups are described by
// ConsumerGroupDescribe; here they do not exist, as in Kafka.
//
//	v3  authorized operations, which are not given: there is no authorization yet
//	v4  instances
//	v6  GROUP_ID_NOT_FOUND with a message; before, the state Dead (KIP-1043)

// noOperations is Kafka's value for authorized operations that are not given.
const noOperations = math.MinInt32

// stateDead is the state of a group that does not exist.
const stateDead = "Dead"

// stateNames are Kafka's names.
var stateNames = map[state]string{empty: "Empty", preparing: "PreparingRebalance", completing: "CompletingRebalance", stable: "Stable"}

// DescribeGroups describes classic and simple groups, also those that have only offsets. Any other
// group is Dead.
func (c *Coordinator) DescribeGroups(ctx context.Context, _ coord.Client, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range req.Groups {
		d := kmsg.NewDescribeGroupsResponseGroup()
		d.Group, d.AuthorizedOperations = name, noOperations
		if found := c.describeClassic(ctx, &d); !found {
			d.State = stateDead
			if req.Version >= 6 {
				d.ErrorCode = kerr.GroupIDNotFound.Code
				d.ErrorMessage = text(fmt.Sprintf("Group %s not found, or not a classic group.", name))
			}
		}
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}

func text(s string) *string { return &s }

// describeClassic fills in d; false if there is no such group, or it is a consumer group.
func (c *Coordinator) describeClassic(ctx context.Context, d *kmsg.DescribeGroupsResponseGroup) bool {
	if !c.enter() {
		d.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return true
	}
	defer c.wg.Done()
	if partition.ValidateGroup(d.Group) != nil {
		d.ErrorCode = kerr.InvalidGroupID.Code
		return true
	}
	g, err := c.acquire(ctx, d.Group, false)
	if err != nil {
		d.ErrorCode = c.code("describe groups", d.Group, err)
		return true
	}
	if g == nil {
		ok, err := c.hasOffsets(ctx, d.Group)
		if err != nil {
			d.ErrorCode = c.code("describe groups", d.Group, err)
		}
		d.State = stateNames[empty]
		return ok || err != nil
	}
	defer g.unlock()
	if g.kind == consumer {
		return false
	}
	d.State, d.ProtocolType = stateNames[g.state], g.protocolType
	if g.state == stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.inOrder() {
		d.Members = append(d.Members, m.describe(g))
	}
	return true
}

// describe returns the description of a member. Metadata and assignment are empty unless the group
// is stable.
func (m *member) describe(g *group) kmsg.DescribeGroupsResponseGroupMember {
	d := kmsg.NewDescribeGroupsResponseGroupMember()
	d.MemberID, d.InstanceID, d.ClientID, d.ClientHost = m.id, m.instance, m.client, m.host
	d.ProtocolMetadata, d.MemberAssignment = []byte{}, []byte{}
	if g.state == stable {
		d.ProtocolMetadata = append(d.ProtocolMetadata, m.metadata(g.protocol)...)
		d.MemberAssignment = append(d.MemberAssignment, m.assignment...)
	}
	return d
}
