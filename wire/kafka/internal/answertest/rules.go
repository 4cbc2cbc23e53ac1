package answertest

import "github.com/twmb/franz-go/pkg/kmsg"

// When is the condition on which an answer may have null in a field.
type When uint8

const (
	// Never: brokers always send a value, which may be empty.
	Never When = iota
	// Failed: only if the structure that has the field has an error code other than 0.
	Failed
	// Maybe: also without an error. Clients expect it.
	Maybe
)

// Rule says when Kafka's brokers send null in one nullable field of an answer.
type Rule struct {
	Key   kmsg.Key
	Path  string // Go names of the fields, from the answer to the field, separated by dots
	Since int16  // the first version in which the field can be null
	Null  When
}

// Rules has one rule for each nullable field of the answers that are served.
var Rules = []Rule{
	{kmsg.Produce, "Topics.Partitions.ErrorRecords.ErrorMessage", 8, Maybe},
	{kmsg.Produce, "Topics.Partitions.ErrorMessage", 8, Maybe},
	{kmsg.Produce, "Brokers.Rack", 9, Maybe},
	{kmsg.Fetch, "Topics.Partitions.RecordBatches", 0, Never},
	{kmsg.Fetch, "Topics.Partitions.AbortedTransactions", 4, Maybe}, // of a reader that is not read_committed
	{kmsg.Fetch, "Brokers.Rack", 12, Maybe},
	{kmsg.Metadata, "Brokers.Rack", 1, Maybe},
	{kmsg.Metadata, "ClusterID", 2, Failed},
	{kmsg.Metadata, "Topics.Topic", 12, Failed}, // asked for by an ID that is not known
	{kmsg.OffsetFetch, "Topics.Partitions.Metadata", 0, Never},
	{kmsg.OffsetFetch, "Groups.Topics.Partitions.Metadata", 8, Never},
	{kmsg.FindCoordinator, "ErrorMessage", 1, Never},
	{kmsg.FindCoordinator, "Coordinators.ErrorMessage", 4, Never},
	{kmsg.JoinGroup, "Members.InstanceID", 5, Maybe},
	{kmsg.JoinGroup, "ProtocolType", 7, Failed},
	{kmsg.JoinGroup, "Protocol", 7, Failed},
	{kmsg.LeaveGroup, "Members.InstanceID", 3, Maybe},
	{kmsg.SyncGroup, "ProtocolType", 5, Failed},
	{kmsg.SyncGroup, "Protocol", 5, Failed},
	{kmsg.DescribeGroups, "Groups.Members.InstanceID", 4, Maybe},
	{kmsg.DescribeGroups, "Groups.ErrorMessage", 6, Maybe},
	{kmsg.CreateTopics, "Topics.ErrorMessage", 1, Maybe},
	{kmsg.CreateTopics, "Topics.Configs", 5, Never},
	{kmsg.CreateTopics, "Topics.Configs.Value", 5, Maybe},
	{kmsg.DeleteTopics, "Topics.ErrorMessage", 5, Maybe},
	{kmsg.DeleteTopics, "Topics.Topic", 6, Failed}, // asked for by an ID that is not known
	{kmsg.DescribeACLs, "ErrorMessage", 0, Maybe},
	{kmsg.CreateACLs, "Results.ErrorMessage", 0, Maybe},
	{kmsg.DeleteACLs, "Results.ErrorMessage", 0, Maybe},
	{kmsg.DeleteACLs, "Results.MatchingACLs.ErrorMessage", 0, Maybe},
	{kmsg.DescribeConfigs, "Resources.ErrorMessage", 0, Maybe},
	{kmsg.DescribeConfigs, "Resources.Configs.Value", 0, Maybe},
	{kmsg.DescribeConfigs, "Resources.Configs.ConfigSynonyms.Value", 1, Maybe},
	{kmsg.DescribeConfigs, "Resources.Configs.Documentation", 3, Maybe}, // unless asked for
	{kmsg.AlterConfigs, "Resources.ErrorMessage", 0, Maybe},
	{kmsg.SASLAuthenticate, "ErrorMessage", 0, Maybe},
	{kmsg.CreatePartitions, "Topics.ErrorMessage", 0, Maybe},
	{kmsg.ElectLeaders, "Topics.Partitions.ErrorMessage", 0, Maybe},
	{kmsg.IncrementalAlterConfigs, "Resources.ErrorMessage", 0, Maybe},
	{kmsg.AlterPartitionAssignments, "ErrorMessage", 0, Maybe},
	{kmsg.AlterPartitionAssignments, "Topics.Partitions.ErrorMessage", 0, Maybe},
	{kmsg.ListPartitionReassignments, "ErrorMessage", 0, Maybe},
	{kmsg.DescribeClientQuotas, "ErrorMessage", 0, Maybe},
	{kmsg.DescribeClientQuotas, "Entries", 0, Failed},
	{kmsg.DescribeClientQuotas, "Entries.Entity.Name", 0, Maybe}, // the default of all of a kind
	{kmsg.AlterClientQuotas, "Entries.ErrorMessage", 0, Maybe},
	{kmsg.AlterClientQuotas, "Entries.Entity.Name", 0, Maybe},
	{kmsg.DescribeUserSCRAMCredentials, "ErrorMessage", 0, Maybe},
	{kmsg.DescribeUserSCRAMCredentials, "Results.ErrorMessage", 0, Maybe},
	{kmsg.AlterUserSCRAMCredentials, "Results.ErrorMessage", 0, Maybe},
	{kmsg.UpdateFeatures, "ErrorMessage", 0, Maybe},
	{kmsg.UpdateFeatures, "Results.ErrorMessage", 0, Maybe},
	{kmsg.DescribeCluster, "ErrorMessage", 0, Maybe},
	{kmsg.DescribeCluster, "Brokers.Rack", 0, Maybe},
	{kmsg.DescribeProducers, "Topics.Partitions.ErrorMessage", 0, Maybe},
	{kmsg.ConsumerGroupHeartbeat, "ErrorMessage", 0, Maybe},
	{kmsg.ConsumerGroupHeartbeat, "MemberID", 0, Failed},
	{kmsg.ConsumerGroupHeartbeat, "Assignment", 0, Maybe}, // if it did not change
	{kmsg.ConsumerGroupDescribe, "Groups.ErrorMessage", 0, Maybe},
	{kmsg.ConsumerGroupDescribe, "Groups.Members.InstanceID", 0, Maybe},
	{kmsg.ConsumerGroupDescribe, "Groups.Members.RackID", 0, Maybe},
	{kmsg.ConsumerGroupDescribe, "Groups.Members.SubscribedTopicRegex", 0, Maybe},
	{kmsg.DescribeTopicPartitions, "Topics.Topic", 0, Never},
	{kmsg.DescribeTopicPartitions, "Topics.Partitions.EligibleLeaderReplicas", 0, Never},
	{kmsg.DescribeTopicPartitions, "Topics.Partitions.LastKnownELR", 0, Never},
	{kmsg.DescribeTopicPartitions, "NextCursor", 0, Maybe}, // after the last page
}
