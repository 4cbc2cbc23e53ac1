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
	"github.com/mainstemdev/mainstem/internal/regex"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// group is one group in memory: a cache of its header and members in the log, with the state that
// is not stored, such as deadlines and requests that wait.
//
// A request locks the group with acquire, changes the fields and notes the changes in changed (with
// touch, strike and raise), and calls save, which commits them in one batch. Only then it answers
// clients. The lock is held during the commit; offsets are committed without it (fence.go).
//
// Invariant: the epochs, members and assignments in any answer to a client are in the log. A group
// whose commit failed is therefore discarded, whatever the outcome, and the next request loads it
// again.
//
// Invariant: a group with gone set is not in Coordinator.mu.groups, and nothing changes it any
// more. A request that has locked one looks the group up again.
type group struct {
	c    *Coordinator
	name string

	mu sync.Mutex // guards everything below, and the members

	loaded bool // load has succeeded
	gone   bool // discarded: see the invariant
	used   bool // a request has used it since the last sweep

	config Config // as it is stored

	header
	version   mainstem.Version     // of the stored header; 0 if none is stored
	members   map[string]*member   // by ID
	instances map[string]string    // by static instance, the ID of its member
	pending   map[string]time.Time // IDs given to clients that have not joined yet, and when they expire (KIP-394)
	order     int64                // member.order of the newest member

	// changed is the difference to the log, which save commits.
	changed struct {
		header  bool
		members map[string]*member // by ID; nil: its record is to be deleted
	}

	// Of a classic group; see state.
	joinBy    time.Time // preparing: when members that have not joined are removed
	notBefore time.Time // preparing: the earliest end of the first rebalance; zero: no limit
	syncBy    time.Time // when members without SyncGroup in this generation are removed; zero: all have sent it

	// Of a consumer group.
	owners  owners                 // of each partition, the member that has it in assigned or revoking
	topics  map[string]coord.Topic // by name, those that any member is subscribed to
	looked  time.Time              // when topics was made; zero: it must be made again
	changes uint64                 // Coordinator.mu.changes when topics was made

	timer  *time.Timer // calls tick; nil until the first deadline
	wakeAt time.Time   // when timer fires; zero: it does not
}

// member is one member in memory. The lock of its group guards it.
type member struct {
	identity
	id      string
	version mainstem.Version // of its stored record; 0 if none is stored
	order   int64            // its place in the order of joining; 0: it is not in group.members

	deadline time.Time // when its session ends; it does not end while a request of the member waits
	// giveUpBy is the end of the rebalance timeout in a consumer group: the member is removed then,
	// unless it has given up its partitions or, with the classic protocol, has joined again. Zero:
	// nothing is asked of it.
	giveUpBy time.Time

	// Of the classic protocol. At most one of join and sync is set; each has capacity 1.
	join    chan joined // JoinGroup waits for its answer here; nil: none waits
	sync    chan synced // SyncGroup waits for its answer here; nil: none waits
	synced  bool        // it has sent SyncGroup in this generation
	knowsID bool        // the client has its ID, or can join again without it

	// Of the consumer protocol.
	re      *regexp.Regexp // identity.regex, compiled, shared by the members with the same; nil: it matches no topic
	revised bool           // the report that is being handled changed identity, which must be stored
	has     bool           // the client has reported that it has exactly identity.assigned
	lostAt  int32          // the epoch with which it last joined or gave up a partition; see fenceConsumer
}

func newGroup(c *Coordinator, name string) *group {
	g := &group{c: c, name: name, members: map[string]*member{}, instances: map[string]string{}, pending: map[string]time.Time{}}
	g.changed.members = map[string]*member{}
	g.owners = owners{}
	return g
}

// exists reports whether the group is stored, or has members or pending IDs.
func (g *group) exists() bool {
	return g.version > 0 || len(g.members) > 0 || len(g.pending) > 0
}

// unlock releases the group that acquire returned, and marks it as used.
func (g *group) unlock() {
	g.used = true
	g.letGo()
}

// letGo is unlock without the mark. A group that does not exist is dropped from memory.
func (g *group) letGo() {
	if !g.gone && !g.exists() {
		g.discard()
	}
	g.mu.Unlock()
}

// discard removes the group from memory. Requests that wait are answered with
// COORDINATOR_NOT_AVAILABLE, so that their clients look for the coordinator and try again.
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

// lose discards a group that may have members, because its memory may differ from the log. It is
// loaded again after reloadAfter, unless a request loads it before.
func (g *group) lose() {
	g.discard()
	g.c.missing()
}

// load reads the configuration, the group and its members from the log. Members get a new session.
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

// read reads the header from the log, and then the members. The order matters to administer.go: a
// batch with the version of the header as a condition is committed only if no member has joined
// since the header was read.
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
	compiled := map[string]*regexp.Regexp{}
	for rec, err := range g.c.log.Scan(ctx, partition.GroupSpace, mainstem.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		if err := g.loadMember(rec, len(prefix), compiled); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "load group", "%w", err).At(partition.GroupSpace, slices.Clone(rec.Key))
		}
	}
	return nil
}

// loadMember adds the member of a record. compiled has the regular expressions of the members before,
// by their text.
func (g *group) loadMember(rec mainstem.Record, prefix int, compiled map[string]*regexp.Regexp) error {
	id, rest, err := keyText(rec.Key[prefix:])
	if err != nil || len(rest) > 0 {
		return errors.New("the key of a member is malformed")
	}
	m := &member{id: id, version: rec.Version, knowsID: true}
	if m.identity, err = decodeIdentity(rec.Value); err != nil {
		return err
	}
	if m.regex != "" {
		re, ok := compiled[m.regex]
		if !ok {
			// One that is too large was stored by an older version; it matches no topic.
			var large *regex.TooLargeError
			if re, err = coord.CompilePattern(m.regex); err != nil && !errors.As(err, &large) {
				return err
			}
			compiled[m.regex] = re
		}
		m.re = re
	}
	g.enlist(m)
	g.owners.give(m.assigned, m)
	g.owners.give(m.revoking, m)
	return nil
}

// resume sets the deadlines of a group that was loaded; they are not stored.
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

// session returns the session timeout of a member: its own with the classic protocol, else that of
// the group or of the coordinator.
func (g *group) session(m *member) time.Duration {
	if m.consumer && len(m.protocols) == 0 {
		return cmp.Or(g.config.Session, g.c.o.Session)
	}
	return m.session
}

// enlist adds m to the group as its newest member.
func (g *group) enlist(m *member) {
	g.order++
	m.order = g.order
	g.members[m.id] = m
	if m.instance != nil {
		g.instances[*m.instance] = m.id
	}
}

// strike removes a member and its partitions from the group. Its requests that wait are answered
// with code. Its record is deleted by the next save.
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

// touch notes that the next save has to store m.
func (g *group) touch(m *member) { g.changed.members[m.id] = m }

// save commits changed in one batch, or does nothing if it is empty. If the commit fails the group
// is discarded, and all requests that wait are answered.
func (g *group) save() error {
	if !g.changed.header && len(g.changed.members) == 0 {
		return nil
	}
	b := mainstem.NewBatch()
	b.Durability = g.c.o.Durability
	partition.EnsureGroupSpace(b)
	// Invariant: members are never stored without a header: read does not look for them without
	// one.
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
		g.lose()
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

// raise begins the next generation or group epoch. The number stays at its maximum, and never
// wraps.
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

// longestRebalance returns the longest rebalance timeout of the members: how long a classic group
// waits for JoinGroup, and for SyncGroup.
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
