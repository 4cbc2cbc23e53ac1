package group

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// group is one group in memory. Its lock is held while a change of its state is
// committed to the log, but not while offsets are.
//
// Invariant: whatever a client was told about epochs, members and assignments is
// in the log. A group whose commit failed is therefore discarded and read anew.
type group struct {
	c    *Coordinator
	name string

	mu sync.Mutex // guards everything below

	loaded bool
	gone   bool // it is no longer the coordinator's: ask again
	used   bool // since the last sweep

	config Config // as it is stored

	header
	version   mainstem.Version // of the stored header, 0 if it is not stored
	members   map[string]*member
	instances map[string]string    // member of each static instance
	pending   map[string]time.Time // IDs given to members that have not joined yet, and when they lapse
	order     int64                // of the next member

	// changed is what has to be stored: header or not, members, and those to delete.
	changed struct {
		header  bool
		members map[string]*member // nil: delete it
	}

	// Of a classic group.
	joinBy    time.Time // preparing: when members that have not joined are left behind
	notBefore time.Time // preparing: when the first rebalance may end at the earliest
	syncBy    time.Time // when members that have not asked for their assignment are removed

	// Of a consumer group.
	owners  owners                 // the member that has a partition, or has to give it up
	topics  map[string]coord.Topic // those subscribed to
	looked  time.Time              // when topics was made; zero if it must be made anew
	changes uint64                 // of the coordinator, when topics was made

	timer  *time.Timer // calls tick
	wakeAt time.Time   // when timer fires, zero if it does not
}

// member is a member in memory.
type member struct {
	identity
	id      string
	version mainstem.Version // of what is stored, 0 if nothing is
	order   int64            // of joining

	deadline time.Time // when its session ends
	giveUpBy time.Time // in a consumer group: when it is removed unless it has done what it was asked to

	// Of the classic protocol.
	join    chan joined // JoinGroup waits for it
	sync    chan synced // SyncGroup waits for it
	synced  bool        // it has asked for its assignment in this generation
	knowsID bool        // an answer has given the client its ID

	// Of the consumer protocol.
	re      *regexp.Regexp // of regex
	revised bool           // by the report that is being handled
	has     bool           // the client has said that it has what it is assigned
	lostAt  int32          // the first epoch since it had to give up a partition
}

func newGroup(c *Coordinator, name string) *group {
	g := &group{c: c, name: name, members: map[string]*member{}, instances: map[string]string{}, pending: map[string]time.Time{}}
	g.changed.members = map[string]*member{}
	g.owners = owners{}
	return g
}

// exists reports whether the group is known to anybody.
func (g *group) exists() bool {
	return g.version > 0 || len(g.members) > 0 || len(g.pending) > 0
}

// unlock ends what acquire began.
func (g *group) unlock() {
	g.used = true
	g.letGo()
}

// letGo is unlock for what does not count as use of the group.
func (g *group) letGo() {
	if !g.gone && !g.exists() {
		g.discard()
	}
	g.mu.Unlock()
}

// discard ends the life of the group in memory. Requests that wait are answered
// that the client has to find the coordinator again.
func (g *group) discard() {
	g.gone = true
	if g.timer != nil {
		g.timer.Stop()
	}
	for _, m := range g.members {
		m.answerJoin(joined{code: kerr.CoordinatorNotAvailable.Code})
		m.answerSync(synced{code: kerr.CoordinatorNotAvailable.Code})
	}
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	if g.c.mu.groups[g.name] == g {
		delete(g.c.mu.groups, g.name)
	}
}

// load reads the group from the log. Members get a new session.
func (g *group) load(ctx context.Context) error {
	if err := g.loadConfig(ctx); err != nil {
		return err
	}
	if err := g.read(ctx); err != nil {
		return err
	}
	if g.version > 0 {
		g.resume()
	}
	g.loaded = true
	return nil
}

// read reads the group and its members from the log, in this order: with the version of its
// header as a condition, a batch is committed only if no member has joined since.
func (g *group) read(ctx context.Context) error {
	rec, err := g.c.log.Get(ctx, partition.GroupSpace, groupKey(g.name))
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if g.header, err = decodeHeader(rec.Value); err != nil {
		return mainstem.Errorf(mainstem.KindCorrupt, "load group", "%w", err).At(partition.GroupSpace, rec.Key)
	}
	g.version = rec.Version
	prefix := memberPrefix(g.name)
	for rec, err := range g.c.log.Scan(ctx, partition.GroupSpace, mainstem.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		if err := g.loadMember(rec, len(prefix)); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "load group", "%w", err).At(partition.GroupSpace, slices.Clone(rec.Key))
		}
	}
	return nil
}

func (g *group) loadMember(rec mainstem.Record, prefix int) error {
	id, rest, err := keyText(rec.Key[prefix:])
	if err != nil || len(rest) > 0 {
		return errors.New("the key of a member is malformed")
	}
	m := &member{id: id, version: rec.Version, knowsID: true}
	if m.identity, err = decodeIdentity(rec.Value); err != nil {
		return err
	}
	if m.regex != "" {
		if m.re, err = compileRegex(m.regex); err != nil {
			return err
		}
	}
	g.enlist(m)
	g.owners.give(m.assigned, m)
	g.owners.give(m.revoking, m)
	return nil
}

// resume gives the group that was loaded its deadlines.
func (g *group) resume() {
	now := g.c.now()
	for _, m := range g.members {
		m.deadline = now.Add(g.session(m))
		m.synced = g.state != completing
		m.lostAt = m.epoch
		if m.progress == unrevoked {
			m.giveUpBy = now.Add(m.rebalance)
		}
	}
	if g.kind == classic {
		switch g.state {
		case preparing:
			g.joinBy = now.Add(g.longestRebalance())
		case completing:
			g.syncBy = now.Add(g.longestRebalance())
		}
	}
	g.arm()
}

// session returns how long a member may be silent.
func (g *group) session(m *member) time.Duration {
	if m.consumer && len(m.protocols) == 0 {
		return cmp.Or(g.config.Session, g.c.o.Session)
	}
	return m.session
}

// enlist makes m a member.
func (g *group) enlist(m *member) {
	g.order++
	m.order = g.order
	g.members[m.id] = m
	if m.instance != nil {
		g.instances[*m.instance] = m.id
	}
}

// strike removes a member, whose requests are answered with code.
func (g *group) strike(m *member, code int16) {
	m.answerJoin(joined{code: code})
	m.answerSync(synced{code: code})
	delete(g.members, m.id)
	if m.instance != nil && g.instances[*m.instance] == m.id {
		delete(g.instances, *m.instance)
	}
	g.owners.release(m.assigned)
	g.owners.release(m.revoking)
	if m.version > 0 {
		g.changed.members[m.id] = nil
	} else {
		delete(g.changed.members, m.id)
	}
}

// touch notes that a member has to be stored.
func (g *group) touch(m *member) { g.changed.members[m.id] = m }

// save commits what has changed: nothing, if nothing has. If that fails the
// group is discarded.
func (g *group) save() error {
	if !g.changed.header && len(g.changed.members) == 0 {
		return nil
	}
	b := mainstem.NewBatch()
	b.Durability = g.c.o.Durability
	partition.EnsureGroupSpace(b)
	// Invariant: members are never stored without a header, which load looks for first.
	header := 0
	if g.changed.header || g.version == 0 {
		header = 1
		b.Put(partition.GroupSpace, groupKey(g.name), g.header.encode())
	}
	ids := slices.Sorted(maps.Keys(g.changed.members))
	for _, id := range ids {
		if m := g.changed.members[id]; m != nil {
			b.Put(partition.GroupSpace, memberKey(g.name, id), m.encode())
		} else {
			b.Delete(partition.GroupSpace, memberKey(g.name, id))
		}
	}
	receipt, err := g.c.log.Commit(g.c.ctx, b)
	if err != nil {
		g.discard()
		g.c.missing()
		return err
	}
	if header > 0 {
		g.version = receipt.Versions[0]
	}
	for i, id := range ids {
		if m := g.changed.members[id]; m != nil {
			m.version = receipt.Versions[header+i]
		}
	}
	clear(g.changed.members)
	g.changed.header = false
	return nil
}

// raise makes the next epoch. Numbers do not run out in practice, and never wrap.
func (g *group) raise() {
	if g.epoch < math.MaxInt32 {
		g.epoch++
	}
	g.changed.header = true
}

// inOrder returns the members in the order in which they have joined.
func (g *group) inOrder() []*member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *member) int { return int(a.order - b.order) })
}

// longestRebalance returns how long members may take to join.
func (g *group) longestRebalance() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

func (m *member) answerJoin(a joined) {
	if m.join != nil {
		m.join <- a
		m.join = nil
	}
}

func (m *member) answerSync(a synced) {
	if m.sync != nil {
		m.sync <- a
		m.sync = nil
	}
}
