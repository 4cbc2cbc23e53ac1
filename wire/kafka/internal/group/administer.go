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

// Operators read and change groups in the log, whether a coordinator runs in another process or
// not. That is safe since a change is a batch on condition that the header of the group is as it
// was read, and that it had no members: a coordinator stores the header before it gives a first
// member anything. A coordinator that finds that its header was removed reads the group anew.

// Stored is a group as it is in the log: all that its members were told.
type Stored struct {
	Info
	Protocol string // that all classic members use, or the assignor of a consumer group
	Roster   []StoredMember

	log     mainstem.Log
	version mainstem.Version // of its header; 0: it has none
}

// StoredMember is a member of a group.
type StoredMember struct {
	ID, Instance, Client, Host string
	Epoch                      int32                // 0 in a classic group
	Partitions                 map[topic.ID][]int32 // that it has, in a consumer group
	Names                      map[string][]int32   // those in a classic group, by the names of topics
}

// Read returns the group called name; NotFound if nothing is stored of it.
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

// Look is [Read] that returns an empty group if nothing is stored of it.
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

// List returns all groups of log, by name.
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
			return s // the leader of the group may send anything
		}
		s.Names = map[string][]int32{}
		for _, t := range a.Topics {
			s.Names[t.Topic] = append(s.Names[t.Topic], t.Partitions...)
		}
	}
	return s
}

// ActiveError is why a group cannot be changed: it has members. Its kind is Conflict.
type ActiveError struct {
	Group   string
	State   string
	Members int
}

// Error names the group and its members.
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

// UnchangedTo puts into b the condition that the group is as it was read.
func (s *Stored) UnchangedTo(b *mainstem.Batch) {
	if s.version > 0 {
		b.IfVersion(partition.GroupSpace, groupKey(s.Name), s.version)
		return
	}
	partition.EnsureGroupSpace(b)
	b.IfAbsent(partition.GroupSpace, groupKey(s.Name))
}

// New reports whether the group itself is not stored; offsets of it may be.
func (s *Stored) New() bool { return s.version == 0 }

// CreateTo puts into b that the group, of which nothing was stored, exists: only the offsets of
// groups that exist expire.
func (s *Stored) CreateTo(b *mainstem.Batch, now time.Time) {
	h := header{kind: simple, state: empty, since: now}
	b.Put(partition.GroupSpace, groupKey(s.Name), h.encode())
}

// Delete removes the group with its offsets, unless it has members. Offsets go first, in steps: if it
// fails between two of them, the group is still there, without some of them.
func (s *Stored) Delete(ctx context.Context) error {
	if err := s.Inactive(); err != nil {
		return err
	}
	var all []partition.StoredOffset
	for o, err := range partition.StoredOffsets(ctx, s.log, s.Name) {
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	for len(all) > eraseStep {
		if err := s.deleteStep(ctx, all[:eraseStep], false); err != nil {
			return err
		}
		all = all[eraseStep:]
	}
	return s.deleteStep(ctx, all, true)
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

// Changed returns the error of a commit on the condition of [Stored.UnchangedTo], so that a
// conflict says what it means.
func (s *Stored) Changed(err error) error {
	if !errors.Is(err, mainstem.ErrConflict) {
		return err
	}
	return fmt.Errorf("the group %s was changed meanwhile, perhaps a consumer has joined it: %w", s.Name, err)
}

// refresh drops a group from memory that is not the one in the log: an operator has removed or
// created it there.
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
		g.discard()
		c.missing()
	}
	return nil
}
