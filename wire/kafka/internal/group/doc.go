// Package group is the coordinator of Kafka's consumer groups. It keeps the members of each group,
// the partitions that each member reads, and the offsets that the group has committed.
//
// # Words
//
// A [Coordinator] has groups, and a group has members. A group follows one of two protocols. In a
// classic group (JoinGroup, SyncGroup) the members form a generation, and one of them, the leader,
// computes the assignment of partitions. In a consumer group (ConsumerGroupHeartbeat, KIP-848) the
// coordinator computes it with an assignor, [Uniform] or [Range]; group, assignment and members
// have epochs. A simple group has only offsets. A group changes its protocol when it is empty, and
// also while it has members of both protocols.
//
//	groups, err := group.Open(log, topics, nil)
//	resp := groups.JoinGroup(ctx, coord.Client{ID: "billing", Host: host}, req)
//
// Each request of Kafka's protocol has one method, in a file of the same name. The comment at the
// top of the file lists what each version added. The state machines are drawn at their types in
// stored.go: kind (the protocol of a group), state (of a classic group) and progress (of a member
// of a consumer group). The steps of each are described in barrier.go, consumer.go and migrate.go.
//
// # In the log
//
// Everything is in the space [partition.GroupSpace]: one record for each group, one for each
// member, one for each configuration, and the offsets in the form of package topic, so that
// programs that use that package and Kafka's clients share them. A change of a group is one batch.
// It is committed before any client gets an answer that depends on it.
//
// # Guarantees
//
// The offsets of one OffsetCommit request are stored together or not at all, except those that are
// refused one by one. When it returns without an error they have the durability of [Options].
//
// Generations and epochs of a group never repeat and never fall until the group is deleted,
// whichever protocol it follows.
//
// OffsetCommit from a member of an earlier generation or epoch is refused. A condition in the batch
// checks this when the batch is committed, so an offset does not change after the next owner of the
// partition has read it.
//
// A partition is never assigned to two members of a consumer group. Another member gets it only
// after its owner has given it up, has left, or was removed because a timeout ended.
//
// After a restart or a crash members continue with the generations, epochs and assignments that are
// in the log. Their sessions begin again. Heartbeats that change nothing write nothing.
//
// An assignment of a consumer group is repeated in the answers to heartbeats until the client
// reports that it has it. So a lost answer loses no assignment.
//
// # Concurrency and ownership
//
// Methods may be called from several goroutines. JoinGroup and SyncGroup wait for other members.
// They return when their context ends; the coordinator then handles the client as disconnected. The
// coordinator keeps no memory of a request after it returns. Each group has a lock, which is held
// while its state is committed but not while offsets are committed, and one timer while it has
// deadlines. The coordinator owns one goroutine, which Close ends.
//
// Only one coordinator may be open on a log, because it caches the groups in memory. Operators may
// read and change groups without members beside it; administer.go says why that is safe.
//
// # Limits
//
// [Options] has the limits that operators change; [MaxMemberID] and its neighbours limit one
// request. Memory: about 1 KiB and the metadata for each member, and a few KiB for each regular
// expression in a group, at most 512: larger ones are refused. A group without members is dropped
// from memory when it was not used between two sweeps.
//
// Not implemented: retention times of single commits (OffsetCommit 2 to 4), rack awareness of the
// assignors, authorized operations.
//
// # Testing
//
// The protocols run against a simulated clock (testing/synctest). Random programs of clients that
// join, leave, disappear and miss answers, with restarts and failing commits between any two steps,
// check that no partition is ever with two members and that the group becomes stable at the end.
// The assignors are compared with exhaustive search.
//
//snippet:import "github.com/twmb/franz-go/pkg/kmsg"
//snippet:var topics coord.Topics
//snippet:var host string
//snippet:var req *kmsg.JoinGroupRequest
package group
