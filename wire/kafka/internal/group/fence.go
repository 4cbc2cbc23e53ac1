package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// How offsets are committed:
//
//  1. fence checks the member and its generation or epoch with the lock of the group, and returns
//     the key and the version of the record that shows them: the header of a classic or empty
//     group, the member's own record in a consumer group.
//  2. Without the lock, the offsets are committed in a batch with the condition that the record
//     still has this version. So commits of several members share one fsync.
//  3. After a conflict both steps are repeated.
//
// Invariant: an offset does not change after a new owner of the partition has read it. A rebalance
// stores a new version of the record before it assigns the partition to another member, and so does
// a static member that takes the place of its predecessor without a rebalance; after that the
// condition of the former owner fails.
//
// Invariant: an offset that a client has committed has a header beside it, so that it can expire.
// The header is removed only after all commits with an earlier condition have failed or are in the
// log (seal).
//
// Offsets in transactions are checked by the first step alone (CheckTxnCommit), as in Kafka: a
// producer that is fenced cannot end the transaction. The commit that stores them has a condition
// for the invariant alone (ExistsTo).

// committer is the client of a commit of offsets, as the request names it.
type committer struct {
	member     string  // its ID; "" with a negative generation for a client outside of the protocols
	instance   *string // of a static member
	generation int32   // or epoch; negative for a client outside of the protocols
	version    int16   // of OffsetCommit
	txn        bool    // through TxnOffsetCommit
}

// fence is the condition that the record at key has version, or does not exist if version is 0. A
// batch with it is committed only while the committer may commit.
type fence struct {
	key     []byte
	version mainstem.Version
}

// put adds the condition to b.
func (f fence) put(b *mainstem.Batch) {
	if f.version > 0 {
		b.IfVersion(partition.GroupSpace, f.key, f.version)
	} else {
		b.IfAbsent(partition.GroupSpace, f.key)
	}
}

// fence does step 1. It returns the condition, or the error code for the client. A client outside
// of the protocols creates the group if it does not exist.
func (c *Coordinator) fence(ctx context.Context, name string, by committer) (fence, int16) {
	g, err := c.acquire(ctx, name, by.generation < 0)
	if err != nil {
		return fence{}, c.code("offset commit", name, err)
	}
	if g == nil {
		return fence{}, kerr.IllegalGeneration.Code
	}
	defer g.unlock()
	if g.kind == consumer && len(g.members) > 0 {
		return g.fenceConsumer(by)
	}
	if code := g.checkClassic(by); code != 0 {
		return fence{}, code
	}
	if g.version == 0 {
		g.changed.header = true // the offsets of a stored group expire
		if err := g.save(); err != nil {
			return fence{}, c.code("offset commit", name, err)
		}
	}
	return fence{groupKey(name), g.version}, 0
}

// checkClassic checks a committer of a group that is classic or has no members. It returns 0 or the
// error code.
func (g *group) checkClassic(by committer) int16 {
	if by.generation < 0 && len(g.members) == 0 {
		return 0
	}
	if by.generation < 0 && by.member == "" && by.instance == nil {
		if by.txn {
			return 0 // before TxnOffsetCommit 3 a request has neither member nor generation
		}
		return kerr.UnknownMemberID.Code
	}
	if code := g.checkMember(by.member, by.instance); code != 0 {
		return code
	}
	m := g.members[by.member]
	if !g.inGeneration(m, by.generation) {
		return kerr.IllegalGeneration.Code
	}
	g.heard(m)
	if g.state == completing && !by.txn {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// fenceConsumer is step 1 for a consumer group with members. The epoch may be older than that of
// the member if the member has not given up a partition since (lostAt): all that it had in that
// epoch is still its own.
func (g *group) fenceConsumer(by committer) (fence, int16) {
	if by.txn && by.generation < 0 && by.member == "" && by.instance == nil {
		return fence{groupKey(g.name), g.version}, 0
	}
	m := g.members[by.member]
	if m == nil {
		return fence{}, kerr.UnknownMemberID.Code
	}
	if by.instance != nil && g.instances[*by.instance] != m.id {
		return fence{}, kerr.FencedInstanceID.Code
	}
	f := fence{memberKey(g.name, m.id), m.version}
	old := !m.classicInConsumer() && !by.txn && by.version < 9 // STALE_MEMBER_EPOCH came with version 9
	switch {
	case old:
		return fence{}, kerr.UnsupportedVersion.Code
	case by.generation == m.epoch,
		by.generation > joining && by.generation < m.epoch && by.generation >= m.lostAt && !m.classicInConsumer():
		return f, 0
	case m.classicInConsumer(), by.txn:
		return fence{}, kerr.IllegalGeneration.Code
	}
	return fence{}, kerr.StaleMemberEpoch.Code
}

// CheckTxnCommit returns 0 if a transaction may store offsets for the group, else the error code:
// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INVALID_GROUP_ID,
// COORDINATOR_NOT_AVAILABLE, or UNKNOWN_SERVER_ERROR if the stored group is damaged. A request with
// neither a member nor a generation (-1) is accepted, because TxnOffsetCommit has neither before
// version 3. It may commit the header of a group that does not exist yet.
func (c *Coordinator) CheckTxnCommit(group, member string, instance *string, generation int32) (code int16) {
	if !c.enter() {
		return kerr.CoordinatorNotAvailable.Code
	}
	defer c.wg.Done()
	if partition.ValidateGroup(group) != nil {
		return kerr.InvalidGroupID.Code
	}
	_, code = c.fence(c.ctx, group, committer{member: member, instance: instance, generation: generation, txn: true})
	return code
}

// ExistsTo adds to b, which stores offsets of a group, the condition that the group is still
// stored. It commits the header first if there is none, because only the offsets of groups with a
// header expire. With again, after a Conflict of b, it reads the header again, which an operator
// may have removed. It fails with Closed after Close, and with the errors of the log.
func (c *Coordinator) ExistsTo(ctx context.Context, b *mainstem.Batch, group string, again bool) error {
	if !c.enter() {
		return errClosed
	}
	defer c.wg.Done()
	if again {
		if err := c.refresh(ctx, group); err != nil {
			return err
		}
	}
	g, err := c.acquire(ctx, group, true)
	if err != nil {
		return err
	}
	defer g.unlock()
	// The header stays while a member is stored. Its version changes with every rebalance, so that
	// it is the condition only without members.
	for _, m := range g.members {
		if m.version > 0 {
			b.IfExists(partition.GroupSpace, memberKey(group, m.id))
			return nil
		}
	}
	if g.version == 0 {
		g.changed.header = true
		if err := g.save(); err != nil {
			return err
		}
	}
	fence{groupKey(group), g.version}.put(b)
	return nil
}
