package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Offsets are committed without the group's lock, so that all that is committed
// at once shares one fsync. A condition in the batch keeps a former member from
// committing: the record that names the generation or the member's epoch must still
// be the one that was read. A rebalance stores that record before it assigns a
// partition to another member, which therefore never reads an offset that is changed
// afterwards.

// committer is a client that commits offsets.
type committer struct {
	member     string
	instance   *string
	generation int32
	version    int16 // of OffsetCommit
	txn        bool  // through TxnOffsetCommit
}

// fence is a condition that holds as long as a committer may commit.
type fence struct {
	key     []byte
	version mainstem.Version
}

func (f fence) put(b *mainstem.Batch) {
	if f.version > 0 {
		b.IfVersion(partition.GroupSpace, f.key, f.version)
	} else {
		b.IfAbsent(partition.GroupSpace, f.key)
	}
}

// fence checks who commits to a group, which comes to exist if that is needed.
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
		g.changed.header = true // from now on its offsets expire
		if err := g.save(); err != nil {
			return fence{}, c.code("offset commit", name, err)
		}
	}
	return fence{groupKey(name), g.version}, 0
}

// checkClassic returns why a commit is refused by a group that is classic or empty, or 0.
func (g *group) checkClassic(by committer) int16 {
	if by.generation < 0 && len(g.members) == 0 {
		return 0
	}
	if by.generation < 0 && by.member == "" && by.instance == nil {
		if by.txn {
			return 0 // the client does not say who it is: old ones cannot
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

// fenceConsumer checks who commits to a consumer group.
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
	old := !m.classicInConsumer() && !by.txn && by.version < 9 // it cannot know the error for a stale epoch
	switch {
	case old:
		return fence{}, kerr.UnsupportedVersion.Code
	case by.generation == m.epoch,
		by.generation > joining && by.generation < m.epoch && by.generation >= m.lostAt && !m.classicInConsumer():
		return f, 0 // what it had in that epoch, it still has
	case m.classicInConsumer(), by.txn:
		return fence{}, kerr.IllegalGeneration.Code
	}
	return fence{}, kerr.StaleMemberEpoch.Code
}

// CheckTxnCommit returns the error for offsets that a transaction is to commit
// for a group, or 0: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
// INVALID_GROUP_ID or COORDINATOR_NOT_AVAILABLE. A client that names neither a
// member nor a generation (-1) is believed, as clients before TxnOffsetCommit 3 do not.
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
