package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// api is one row of the table of APIs that are served.
type api struct {
	key      kmsg.Key
	min, max int16 // the versions served, which ApiVersions advertises
	// serve handles a decoded request of one of these versions. nil means that the client
	// expects no answer.
	serve func(*conn, kmsg.Request) kmsg.Response
}

// table returns the APIs that are served, in the order of their keys.
func table() []api {
	return []api{
		{kmsg.Produce, 0, 13, plain((*Server).produce)},
		{kmsg.Fetch, 4, 18, plain((*Server).fetchRecords)},
		{kmsg.ListOffsets, 1, 11, plain((*Server).listOffsets)},
		{kmsg.Metadata, 0, 13, plain((*Server).metadata)},
		{kmsg.OffsetCommit, 1, 10, byGroups((*group.Coordinator).OffsetCommit)},
		{kmsg.OffsetFetch, 1, 10, byGroups((*group.Coordinator).OffsetFetch)},
		{kmsg.FindCoordinator, 0, 6, plain((*Server).findCoordinator)},
		{kmsg.JoinGroup, 0, 9, joining((*group.Coordinator).JoinGroup)},
		{kmsg.Heartbeat, 0, 4, byGroups((*group.Coordinator).Heartbeat)},
		{kmsg.LeaveGroup, 0, 5, byGroups((*group.Coordinator).LeaveGroup)},
		{kmsg.SyncGroup, 0, 5, joining((*group.Coordinator).SyncGroup)},
		{kmsg.DescribeGroups, 0, 6, byGroups((*group.Coordinator).DescribeGroups)},
		{kmsg.ListGroups, 0, 5, byGroups((*group.Coordinator).ListGroups)},
		{kmsg.SASLHandshake, 0, 1, plain((*Server).saslHandshake)},
		{kmsg.ApiVersions, 0, 4, plain((*Server).apiVersions)},
		{kmsg.CreateTopics, 2, 7, plain((*Server).createTopics)},
		{kmsg.DeleteTopics, 1, 6, plain((*Server).deleteTopics)},
		{kmsg.DeleteRecords, 0, 2, plain((*Server).deleteRecords)},
		{kmsg.InitProducerID, 0, 5, byProducers((*producer.Manager).InitProducerID)},
		{kmsg.OffsetForLeaderEpoch, 2, 4, plain((*Server).offsetForLeaderEpoch)},
		{kmsg.AddPartitionsToTxn, 0, 5, byProducers((*producer.Manager).AddPartitionsToTxn)},
		{kmsg.AddOffsetsToTxn, 0, 4, byProducers((*producer.Manager).AddOffsetsToTxn)},
		{kmsg.EndTxn, 0, 5, byProducers((*producer.Manager).EndTxn)},
		{kmsg.TxnOffsetCommit, 0, 5, byProducers((*producer.Manager).TxnOffsetCommit)},
		{kmsg.DescribeACLs, 1, 3, plain((*Server).describeACLs)},
		{kmsg.CreateACLs, 1, 3, plain((*Server).createACLs)},
		{kmsg.DeleteACLs, 1, 3, plain((*Server).deleteACLs)},
		{kmsg.DescribeConfigs, 1, 4, plain((*Server).describeConfigs)},
		{kmsg.AlterConfigs, 0, 2, plain((*Server).alterConfigs)},
		{kmsg.DescribeLogDirs, 1, 4, plain((*Server).describeLogDirs)},
		{kmsg.SASLAuthenticate, 0, 2, plain((*Server).saslAuthenticate)},
		{kmsg.CreatePartitions, 0, 3, plain((*Server).createPartitions)},
		{kmsg.DeleteGroups, 0, 2, byGroups((*group.Coordinator).DeleteGroups)},
		{kmsg.ElectLeaders, 0, 2, plain((*Server).electLeaders)},
		{kmsg.IncrementalAlterConfigs, 0, 1, plain((*Server).incrementalAlterConfigs)},
		{kmsg.AlterPartitionAssignments, 0, 1, plain((*Server).alterPartitionAssignments)},
		{kmsg.ListPartitionReassignments, 0, 0, plain((*Server).listPartitionReassignments)},
		{kmsg.OffsetDelete, 0, 0, byGroups((*group.Coordinator).OffsetDelete)},
		{kmsg.DescribeClientQuotas, 0, 1, plain((*Server).describeClientQuotas)},
		{kmsg.AlterClientQuotas, 0, 1, plain((*Server).alterClientQuotas)},
		{kmsg.DescribeUserSCRAMCredentials, 0, 0, plain((*Server).describeUserScramCredentials)},
		{kmsg.AlterUserSCRAMCredentials, 0, 0, plain((*Server).alterUserScramCredentials)},
		{kmsg.UpdateFeatures, 0, 2, plain((*Server).updateFeatures)},
		{kmsg.DescribeCluster, 0, 2, plain((*Server).describeCluster)},
		{kmsg.DescribeProducers, 0, 0, byProducers((*producer.Manager).DescribeProducers)},
		{kmsg.DescribeTransactions, 0, 0, byProducers((*producer.Manager).DescribeTransactions)},
		{kmsg.ListTransactions, 0, 2, byProducers((*producer.Manager).ListTransactions)},
		{kmsg.ConsumerGroupHeartbeat, 0, 1, byGroups((*group.Coordinator).ConsumerGroupHeartbeat)},
		{kmsg.ConsumerGroupDescribe, 0, 1, byGroups((*group.Coordinator).ConsumerGroupDescribe)},
		{kmsg.ListConfigResources, 0, 1, plain((*Server).listConfigResources)},
		{kmsg.DescribeTopicPartitions, 0, 0, plain((*Server).describeTopicPartitions)},
	}
}

// apis is the table by key, nil where a key is not served. It does not change after init.
var apis [kmsg.MaxKey + 1]*api

func init() {
	for _, a := range table() {
		apis[a.key] = &a
	}
}

// lookup returns the row of a key, nil if the key is not served.
func lookup(key int16) *api {
	if key < 0 || int(key) >= len(apis) {
		return nil
	}
	return apis[key]
}

// flexibleHeader returns whether the header of a request is of version 2, which ends with
// tags: that of the flexible versions of an API (KIP-482).
func flexibleHeader(key, version int16) bool {
	a := lookup(key)
	if a == nil {
		return false
	}
	req := a.key.Request()
	req.SetVersion(version)
	return req.IsFlexible()
}

// plain makes a handler of the server an entry of the table. The handler's context is that of
// the connection.
func plain[Q kmsg.Request, R kmsg.Response](f func(*Server, context.Context, *conn, Q) R) func(*conn, kmsg.Request) kmsg.Response {
	return func(c *conn, req kmsg.Request) kmsg.Response {
		return answered(f(c.s, c.ctx, c, req.(Q)))
	}
}

// answered returns resp, or an untyped nil if it is a nil pointer.
func answered[R kmsg.Response](resp R) kmsg.Response {
	if any(resp) == any(*new(R)) {
		return nil
	}
	return resp
}
