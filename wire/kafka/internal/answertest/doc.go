// Package answertest checks answers of the Kafka server for nulls that Apache Kafka
// never sends.
//
// The schema of Kafka's protocol calls many fields nullable that brokers always fill, and
// clients rely on brokers: Java's Admin.describeTopics throws if the eligible leader replicas
// of a partition are null. So the schema is not enough. [Rules] lists every nullable
// field of every answer that is served, by API and first version, and whether Kafka's
// brokers send null in it. The rules of DescribeTopicPartitions were compared with the message
// schema of Apache Kafka; the others follow the schema of the protocol library and the answers
// that clients were seen to accept.
//
//	err := answertest.Check(resp) // names the fields that must not be null
//
// The test of this package compares the table with the fields that the protocol library can
// write as null in each version, and fails for a nullable field without a rule. Tests of
// the server, of groups and of transactions pass their answers to [Check].
//
//snippet:import "github.com/twmb/franz-go/pkg/kmsg"
//snippet:var resp kmsg.Response
package answertest
