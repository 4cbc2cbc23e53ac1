package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// Operators read and change groups in the log directly, also while a coordinator is open on it in
// another process. Only groups without members are changed, in a batch with the condition that the
// header has the version that was read. This is safe in both directions:
//
//   - The coordinator commits a new header before the first member gets its generation or epoch. So
//     the batch of the operator fails if a member has joined since the read.
//   - An OffsetCommit without members has the version of the header as a condition. If an operator
//     has changed the header it fails with Conflict, and refresh loads the group again.

// Stored is a copy of a group as it was in the log when it was read. The caller owns it.
type Stored struct {
	Info
	Protocol string         // classic: the elected protocol; consumer: the assignor
	Roster   []StoredMember // by ID

	log     mainstem.Log
	version mainstem.Version // of its header; 0: none is stored
}

// StoredMember is a member of a [Stored] group.
type StoredMember struct {
	ID, Instance, Client, Host string               // Instance is "" without one
	Epoch                      int32                // 0 in a classic group
	Partitions                 map[topic.ID][]int32 // consumer group: those assigned to it
	Names                      map[string][]int32   // classic group of consumers: those assigned to it, by topic name
}

// Read returns the group called name. It fails with Invalid for a name that no group can have,
// NotFound if neither the group nor an offset of it is stored, and Corrupt if it is damaged.
func Read(ctx context.Context, log mainstem.Log, topics coord.Topics, name string) (*Stored, error) {
	s, err := Look(ctx, log, topics, name)
	if err != nil || s.version > 0 {
		return s, err
	}
	for _, err := range partition.StoredOffsets(ctx, log, name) {
		return s, err
	}
	return nil, mainstem.Refusef(mainstem.KindNotFound, "group", "there is no group %q", name)
}

// Look is [Read], but returns an empty group where Read fails with NotFound.
func Look(ctx context.Context, log mainstem.Log, topics coord.Topics, name string) (*Stored, error) {
	if err := partition.ValidateGroup(name); err != nil {
		return nil, err
	}
	g := newGroup(&Coordinator{log: log, topics: topics}, name)
	if err := g.read(ctx); err != nil {
		return nil, err
	}
	s := &Stored{Info: g.info(), Protocol: g.protocol, log: log, version: g.version}
	for _, m := range g.inOrder() {
		s.Roster = append(s.Roster, m.stored(g))
	}
	slices.SortFunc(s.Roster, func(a, b StoredMember) int { return strings.Compare(a.ID, b.ID) })
	return s, nil
}

// List returns all groups of log, by name, without their offsets. It fails with Corrupt if one of
// them is damaged.
func List(ctx context.Context, log mainstem.Log, topics coord.Topics) ([]Info, error) {
	c := &Coordinator{log: log, topics: topics, ctx: ctx}
	found := map[string]Info{}
	for in, err := range c.offsetGroups(ctx) {
		if err != nil {
			return nil, err
		}
		found[in.Name] = in
	}
	for in, err := range c.storedGroups(ctx) {
		if err != nil {
			return nil, err
		}
		found[in.Name] = in
	}
	inhabited, err := c.inhabited()
	if err != nil {
		return nil, err
	}
	for _, name := range inhabited {
		s, err := Look(ctx, log, topics, name)
		if err != nil {
			return nil, err
		}
		found[name] = s.Info
	}
	out := make([]Info, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name])
	}
	return out, nil
}

func (m *member) stored(g *group) StoredMember {
	s := StoredMember{ID: m.id, Client: m.client, Host: m.host}
	if m.instance != nil {
		s.Instance = *m.instance
	}
	if g.kind == consumer {
		s.Epoch, s.Partitions = m.epoch, m.assigned
		return s
	}
	if g.protocolType == consumerProtocol && len(m.assignment) > 0 {
		var a kmsg.ConsumerMemberAssignment
		if a.ReadFrom(m.assignment) != nil {
			return s // the leader may send assignments in any form
		}
		s.Names = map[string][]int32{}
		for _, t := range a.Topics {
			s.Names[t.Topic] = append(s.Names[t.Topic], t.Partitions...)
		}
	}
	return s
}

// ActiveError reports that a group cannot be changed because it has members. Its kind is Conflict.
type ActiveError struct {
	Group   string
	State   string
	Members int
}

// Error returns a message with the name of the group, its state and the number of its members.
func (e *ActiveError) Error() string {
	plural := "s"
	if e.Members == 1 {
		plural = ""
	}
	return fmt.Sprintf("the group %s is %s with %d member%s: stop its consumers first; a server removes those that are silent after their session timeout",
		e.Group, e.State, e.Members, plural)
}

// Unwrap returns an error of kind Conflict.
func (e *ActiveError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindConflict, Outcome: mainstem.NotWritten}
}

// Inactive returns a [*ActiveError] if the group has members.
func (s *Stored) Inactive() error {
	if s.Members == 0 {
		return nil
	}
	return &ActiveError{s.Name, s.State, s.Members}
}

// UnchangedTo adds to b the condition that the header of the group has the version that was read,
// or still does not exist. If it has changed, the commit of b fails with Conflict; see
// [Stored.Changed].
func (s *Stored) UnchangedTo(b *mainstem.Batch) {
	if s.version > 0 {
		b.IfVersion(partition.GroupSpace, groupKey(s.Name), s.version)
		return
	}
	partition.EnsureGroupSpace(b)
	b.IfAbsent(partition.GroupSpace, groupKey(s.Name))
}

// New reports whether the header of the group is not stored. Offsets of it may be.
func (s *Stored) New() bool { return s.version == 0 }

// CreateTo adds to b the header of a simple group that has no members since now, for a group that
// is [Stored.New]. Only the offsets of groups with a header expire.
func (s *Stored) CreateTo(b *mainstem.Batch, now time.Time) {
	h := header{kind: simple, state: empty, since: now}
	b.Put(partition.GroupSpace, groupKey(s.Name), h.encode())
}

// Delete removes the group and its offsets. It fails with an [*ActiveError] if the group has
// members, and with Conflict if it was changed since it was read. Many offsets are removed in
// several commits, the header in the last: after an error the group may exist without some of its
// offsets.
func (s *Stored) Delete(ctx context.Context) error {
	if err := s.Inactive(); err != nil {
		return err
	}
	all, err := s.offsets(ctx)
	if err != nil {
		return err
	}
	for len(all) > eraseStep {
		if err := s.deleteStep(ctx, all[:eraseStep], false); err != nil {
			return err
		}
		all = all[eraseStep:]
	}
	if err := s.deleteStep(ctx, all, true); err != nil {
		return err
	}
	return s.deleteRest(ctx)
}

// deleteRest removes the offsets that clients have committed after they were listed and before the
// header was removed. They would never expire. None is committed any more without a new header.
func (s *Stored) deleteRest(ctx context.Context) error {
	if s.version == 0 {
		return nil // such offsets are of programs
	}
	rest, err := s.offsets(ctx)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(rest, eraseStep) {
		b := mainstem.NewBatch()
		b.IfAbsent(partition.GroupSpace, groupKey(s.Name))
		for i := range part {
			part[i].ForgetTo(b)
		}
		_, err := s.log.Commit(ctx, b)
		if errors.Is(err, mainstem.ErrConflict) {
			return nil // a client has created the group again: the offsets are of the new one
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Stored) offsets(ctx context.Context) ([]partition.StoredOffset, error) {
	var all []partition.StoredOffset
	for o, err := range partition.StoredOffsets(ctx, s.log, s.Name) {
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (s *Stored) deleteStep(ctx context.Context, offsets []partition.StoredOffset, last bool) error {
	b := mainstem.NewBatch()
	s.UnchangedTo(b)
	for i := range offsets {
		offsets[i].ForgetTo(b)
	}
	if last && s.version > 0 {
		b.Delete(partition.GroupSpace, groupKey(s.Name))
	}
	_, err := s.log.Commit(ctx, b)
	return s.Changed(err)
}

// Changed wraps the error of a commit with the condition of [Stored.UnchangedTo]: a Conflict gets a
// message that names the group. It returns other errors, and nil, unchanged.
func (s *Stored) Changed(err error) error {
	if !errors.Is(err, mainstem.ErrConflict) {
		return err
	}
	return fmt.Errorf("the group %s was changed meanwhile, perhaps a consumer has joined it: %w", s.Name, err)
}

// refresh drops a group from memory if its header in the log has another version: an operator has
// removed or created it there. The next request loads it again.
func (c *Coordinator) refresh(ctx context.Context, name string) error {
	g, err := c.acquire(ctx, name, false)
	if g == nil || err != nil {
		return err
	}
	defer g.unlock()
	rec, err := c.log.Get(ctx, partition.GroupSpace, groupKey(name))
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		rec.Version = 0
	case err != nil:
		return err
	}
	if rec.Version != g.version {
		g.lose()
	}
	return nil
}
