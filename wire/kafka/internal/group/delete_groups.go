package group

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// DeleteGroups, versions 0 to 2 (KIP-229).

// DeleteGroups removes groups without members and all their offsets. Each group gets its own error
// code: NON_EMPTY_GROUP with members, GROUP_ID_NOT_FOUND if nothing of it is stored. The removal is
// committed when it returns.
func (c *Coordinator) DeleteGroups(ctx context.Context, _ coord.Client, req *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for _, name := range req.Groups {
		d := kmsg.NewDeleteGroupsResponseGroup()
		d.Group, d.ErrorCode = name, c.deleteGroup(ctx, name)
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}

func (c *Coordinator) deleteGroup(ctx context.Context, name string) int16 {
	if !c.enter() {
		return kerr.CoordinatorNotAvailable.Code
	}
	defer c.wg.Done()
	if partition.ValidateGroup(name) != nil {
		return kerr.InvalidGroupID.Code
	}
	g, err := c.acquire(ctx, name, true)
	if err != nil {
		return c.code("delete groups", name, err)
	}
	defer g.unlock()
	if len(g.members) > 0 || len(g.pending) > 0 {
		return kerr.NonEmptyGroup.Code
	}
	found, err := g.erase(ctx)
	switch {
	case err != nil:
		return c.code("delete groups", name, err)
	case !found:
		return kerr.GroupIDNotFound.Code
	}
	return 0
}

// eraseStep is the most offsets that one batch removes.
const eraseStep = 10_000

// erase removes a group without members from the log, and reports whether anything of it was
// stored. The offsets go first: after a failure the group is still listed and can be deleted again.
func (g *group) erase(ctx context.Context) (bool, error) {
	if err := g.seal(); err != nil {
		return false, err
	}
	var all []partition.StoredOffset
	for s, err := range partition.StoredOffsets(ctx, g.c.log, g.name) {
		if err != nil {
			return false, err
		}
		all = append(all, s)
	}
	if len(all) == 0 && g.version == 0 {
		return false, nil
	}
	for part := range slices.Chunk(all, eraseStep) {
		b := mainstem.NewBatch()
		b.Durability = g.c.o.Durability
		for i := range part {
			part[i].ForgetTo(b)
		}
		if _, err := g.c.log.Commit(ctx, b); err != nil {
			return false, err
		}
	}
	return true, g.finalize(ctx)
}

// seal stores the header of a group without members again, with a new version. Commits of offsets
// that have passed fence, and are not in the log yet, fail from then on, and wait for the lock of
// the group before they try again. So an offset that is not in the log after seal is not stored
// before the group is unlocked.
func (g *group) seal() error {
	g.changed.header = g.version > 0
	return g.save()
}

// finalize removes the header of a group without members from the log, and the group from memory.
// The caller has called seal, and there was no offset in the log after that: an offset without a
// header would never expire.
func (g *group) finalize(ctx context.Context) error {
	if g.version == 0 {
		return nil
	}
	b := mainstem.NewBatch()
	b.Durability = g.c.o.Durability
	b.IfVersion(partition.GroupSpace, groupKey(g.name), g.version)
	b.Delete(partition.GroupSpace, groupKey(g.name))
	_, err := g.c.log.Commit(ctx, b)
	g.discard()
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	return err
}
