// Package answertest checks answers of the Kafka server for nulls that Apache Kafka
// never sends.
//
// Kafka's schema calls many fields nullable that brokers always fill, and clients
// rely on brokers: Java's Admin.describeTopics throws if the eligible leader replicas
// of a partition are null. So the schema is not enough. [Rules] lists every nullable
// field of every answer that is served, by API and first version, with what Kafka's
// brokers do. The rules of DescribeTopicPartitions were compared with the message
// schema of Apache Kafka; the others follow the protocol library's schema and what
// clients were seen to take.
//
//	err := answertest.Check(resp) // names the first field that must not be null
//
// The test of this package compares the table with what the protocol library can
// write as null in each version: a nullable field without a rule fails it. Tests of
// the server, of groups and of transactions pass their answers to [Check].
//
//snippet:import "github.com/twmb/franz-go/pkg/kmsg"
//snippet:var resp kmsg.Response
package answertest
