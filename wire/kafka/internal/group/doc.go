// Package group is the coordinator of Kafka's consumer groups: who is a member,
// which partitions each member reads, and up to where.
//
// # Words
//
// A [Coordinator] has groups. A classic group (JoinGroup, SyncGroup) goes from
// generation to generation: its members send what they can do, one of them, the
// leader, makes the assignment. In a consumer group (ConsumerGroupHeartbeat,
// KIP-848) the coordinator makes it, with an assignor, [Uniform] or [Range]. A simple
// group has only offsets. A group goes over from one protocol to the other when
// it is empty, and while it works, as members of the other protocol come and go.
//
//	groups, err := group.Open(log, topics, nil)
//	resp := groups.JoinGroup(ctx, coord.Client{ID: "billing", Host: host}, req)
//
// There is one method for each request of Kafka's protocol, and one file with its
// name, which says what each version added.
//
// # In the log
//
// Everything is in the space [partition.GroupSpace]: offsets exactly as package topic
// stores them, so that programs that use that package and Kafka's clients share
// them; one record for each group and one for each member. A change is one batch,
// committed before anybody is told of it.
//
// # Guarantees
//
// When OffsetCommit returns, the offsets are durable, all of a request together.
// Generations and epochs never repeat and never fall, whichever protocol a group
// speaks. A member of the past cannot commit offsets: that is checked where the
// batch is committed, so an offset that a new owner of a partition has read does
// not change behind its back. A partition is never assigned to two members of a
// consumer group: it has to be given up, or its owner has to be silent for a
// session, before somebody else gets it. After a restart or a crash, at any point,
// members go on with their generations, epochs and assignments; their sessions
// begin anew. Heartbeats without news write nothing.
//
// An assignment of a consumer group is repeated in the answers to heartbeats until
// the client reports that it has it, so that a lost answer loses nothing.
//
// # Concurrency and ownership
//
// Methods may be called from many goroutines. JoinGroup and SyncGroup wait for
// other members; they return when their context ends, and the coordinator then
// knows that the client has gone. Nothing keeps memory of a request. Each group has
// a lock, held while its state is committed, but not while offsets are; and one
// timer if it has members. The coordinator owns one goroutine. Close ends it.
//
// One coordinator may be open on a log: it keeps in memory what is in the log. Operators may
// read and change groups without members beside it, see administer.go.
//
// # Limits
//
// [Options] has those that operators change, [MaxMemberID] and its neighbours are
// those of a request. Memory: about 1 KiB and the metadata for each member; groups
// without members are dropped when they have not been used between two sweeps.
//
// What is left out: retention times of single commits (OffsetCommit 2 to 4), rack
// awareness of the assignors, authorized operations.
//
// # Testing
//
// The protocols run against a clock of their own (testing/synctest). Random programs
// of clients that come, leave, vanish and miss answers, with restarts and failing
// commits between any two steps, must never see a partition with two members, and
// must end in balance. The assignors are compared with exhaustive search.
//
//snippet:import "github.com/twmb/franz-go/pkg/kmsg"
//snippet:var topics coord.Topics
//snippet:var host string
//snippet:var req *kmsg.JoinGroupRequest
package group
