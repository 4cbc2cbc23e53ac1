package group

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// Random consumer groups: clients join, leave and disappear, topics change, the coordinator is
// opened again and its commits fail. No partition is ever with two clients, epochs do not fall, and
// at the end, without failures, the group becomes stable.
func TestConsumerPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) { (&consumerProgram{T: rt, w: newWorld(rt, Options{})}).run() })
	})
}

type consumerProgram struct {
	*rapid.T
	w       *world
	clients map[string]*reporter
	made    int
	epoch   int32
}

func (p *consumerProgram) run() {
	p.clients = map[string]*reporter{}
	p.w.topics.create("t", 3)
	p.w.topics.create("u", 2)
	for range rapid.IntRange(5, 60).Draw(p.T, "steps") {
		p.step()
		p.check()
	}
	p.w.log.set(nil, false)
	for range 30 {
		for _, id := range p.ids() {
			p.clients[id].slow = false
			p.beat(p.clients[id])
		}
		pass(5 * time.Second)
		synctest.Wait()
		p.check()
	}
	p.checkStable()
}

func (p *consumerProgram) ids() []string { return slices.Sorted(maps.Keys(p.clients)) }

func (p *consumerProgram) step() {
	kind := rapid.IntRange(0, 11).Draw(p.T, "step")
	if kind < 2 && len(p.clients) < 5 {
		p.join()
		return
	}
	switch {
	case kind < 7 && len(p.clients) > 0:
		r := p.clients[rapid.SampledFrom(p.ids()).Draw(p.T, "client")]
		r.slow = rapid.Bool().Draw(p.T, "slow")
		p.beat(r)
	case kind == 7 && len(p.clients) > 0:
		p.leave(rapid.SampledFrom(p.ids()).Draw(p.T, "leaves"))
	case kind == 8:
		p.w.reopen()
	case kind == 9:
		p.w.log.set(nil, false)
		if rapid.Bool().Draw(p.T, "trouble") {
			p.w.log.set(errBroken, rapid.Bool().Draw(p.T, "written"))
		}
	case kind == 10:
		pass(time.Duration(rapid.IntRange(0, 4).Draw(p.T, "seconds")) * time.Second)
		for _, id := range p.ids() { // so that no session ends by accident
			p.clients[id].slow = false
			p.beat(p.clients[id])
		}
	default:
		p.w.topics.create([]string{"t", "u"}[rapid.IntRange(0, 1).Draw(p.T, "topic")], rapid.Int32Range(1, 6).Draw(p.T, "partitions"))
		p.w.TopicsChanged()
	}
}

func (p *consumerProgram) join() {
	p.made++
	topics := [][]string{{"t"}, {"u"}, {"t", "u"}}[rapid.IntRange(0, 2).Draw(p.T, "reads")]
	r := p.w.reporter("g", fmt.Sprint("m", p.made), topics...)
	if rapid.Bool().Draw(p.T, "regex") {
		r.req.SubscribedTopicNames, r.req.SubscribedTopicRegex = nil, text(strings.Join(topics, "|"))
	}
	if rapid.Bool().Draw(p.T, "static") {
		r.req.InstanceID = text(fmt.Sprint("i", p.made))
	}
	if rapid.Bool().Draw(p.T, "range") {
		r.req.ServerAssignor = text(Range)
	}
	p.clients[r.id] = r
	p.beat(r)
}

// beat is a heartbeat of a client. A slow client does not report its partitions.
func (p *consumerProgram) beat(r *reporter) {
	before := r.epoch
	resp := r.beat()
	switch err := kerr.ErrorForCode(resp.ErrorCode); err {
	case nil:
		if resp.MemberEpoch < before || resp.MemberEpoch < p.floor(r) {
			p.Fatalf("%s goes from epoch %d to %d", r.id, before, resp.MemberEpoch)
		}
		p.epoch = max(p.epoch, resp.MemberEpoch)
	case kerr.CoordinatorNotAvailable:
	case kerr.FencedMemberEpoch, kerr.UnknownMemberID: // it was away, or its last answer was lost
	default:
		p.Fatalf("%s: %v", r.id, err)
	}
}

// floor is the least epoch of an answer to a client. A client that has just joined gets the newest
// epoch of all, because it has nothing to give up.
func (p *consumerProgram) floor(r *reporter) int32 {
	if r.req.InstanceID == nil && r.epoch == joining {
		return p.epoch
	}
	return 0
}

func (p *consumerProgram) leave(id string) {
	r := p.clients[id]
	how := rapid.IntRange(0, 2).Draw(p.T, "how")
	if how == 0 { // it disappears
		delete(p.clients, id)
		return
	}
	epoch := int32(leaving)
	if r.req.InstanceID != nil && how == 2 {
		epoch = leftStatic
	}
	code := r.leave(epoch)
	delete(p.clients, id)
	if epoch == leftStatic && code == 0 && rapid.Bool().Draw(p.T, "comes back") {
		p.made++
		r.id = fmt.Sprint("m", p.made)
		p.clients[r.id] = r.fresh()
	}
}

func (p *consumerProgram) check() {
	owner := map[slot]string{}
	for _, id := range p.ids() {
		for s := range p.clients[id].has.each {
			if other, twice := owner[s]; twice {
				p.Fatalf("%v is with %s and %s", s, other, id)
			}
			owner[s] = id
		}
	}
}

// checkStable checks that the group is stable, and that its members are the clients and have all
// partitions.
func (p *consumerProgram) checkStable() {
	for id, r := range p.clients {
		if r.epoch == joining {
			p.Fatalf("%s is not in the group", id)
		}
	}
	if len(p.clients) == 0 {
		if s := p.w.state("g"); s != "Empty" && s != "" {
			p.Fatalf("nobody is left and the group is %s", s)
		}
		return
	}
	if s := p.w.state("g"); s != "Stable" {
		p.Fatalf("the group is %s", s)
	}
	g := p.w.group("g")
	owned := 0
	for id, m := range g.members {
		if !m.assigned.equal(m.target) || p.clients[id] == nil || !p.clients[id].has.equal(m.assigned) {
			p.Fatalf("%s has %v, target %v", id, m.assigned, m.target)
		}
		owned += m.assigned.len()
	}
	want := 0
	for _, t := range g.topics {
		want += int(t.Partitions)
	}
	if owned != want || g.owners.count() != want || len(g.members) != len(p.clients) {
		p.Fatalf("%d of %d partitions are with somebody, %d members of %d clients", owned, want, len(g.members), len(p.clients))
	}
}

// count returns the number of partitions with an owner.
func (o owners) count() (n int) {
	for _, of := range o {
		for _, m := range of {
			if m != nil {
				n++
			}
		}
	}
	return n
}

// Random classic groups, of clients that give up all partitions before they join again (eager
// rebalance).
func TestClassicPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) { (&classicProgram{T: rt, w: newWorld(rt, Options{})}).run() })
	})
}

const classicPartitions = 6

type classicProgram struct {
	*rapid.T
	w    *world
	wg   sync.WaitGroup
	made int

	mu     sync.Mutex // guards the fields below, and w.Coordinator
	live   map[int]*loop
	newest int32 // generation in any answer
	bad    string
}

// loop is a client that runs until it is stopped.
type loop struct {
	p      *classicProgram
	m      *classicMember
	number int
	stop   context.CancelFunc
	has    []string // partitions
	gen    int32
}

func (p *classicProgram) run() {
	p.live = map[int]*loop{}
	defer func() {
		for _, l := range p.live {
			l.stop()
		}
		p.w.Coordinator.Close()
		p.wg.Wait()
	}()
	for range rapid.IntRange(3, 40).Draw(p.T, "steps") {
		p.step()
		pass(time.Duration(rapid.IntRange(0, 8000).Draw(p.T, "ms")) * time.Millisecond)
		synctest.Wait()
		p.check()
	}
	p.w.log.set(nil, false)
	pass(3 * testRebalance)
	synctest.Wait()
	p.check()
	p.checkStable()
}

func (p *classicProgram) step() {
	kind := rapid.IntRange(0, 9).Draw(p.T, "step")
	switch {
	case kind < 4 && len(p.live) < 4:
		p.start()
	case kind < 6 && len(p.live) > 0:
		p.end(rapid.SampledFrom(slices.Sorted(maps.Keys(p.live))).Draw(p.T, "ends"), rapid.Bool().Draw(p.T, "says so"))
	case kind == 6:
		p.mu.Lock()
		p.w.reopen()
		p.mu.Unlock()
	case kind == 7:
		p.w.log.set(errBroken, rapid.Bool().Draw(p.T, "written"))
	default:
		p.w.log.set(nil, false)
	}
}

func (p *classicProgram) start() {
	p.made++
	l := &loop{p: p, m: p.w.member("g"), number: p.made}
	l.m.version = []int16{0, 3, 4, 9}[rapid.IntRange(0, 3).Draw(p.T, "version")]
	if rapid.Bool().Draw(p.T, "static") {
		l.m.instance = text(fmt.Sprint("i", p.made))
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	p.mu.Lock()
	p.live[l.number] = l
	p.mu.Unlock()
	p.wg.Go(func() { l.run(ctx) })
}

func (p *classicProgram) end(number int, leave bool) {
	p.mu.Lock()
	l, c := p.live[number], p.w.Coordinator
	delete(p.live, number)
	l.has = nil
	p.mu.Unlock()
	l.stop()
	synctest.Wait()
	if leave && l.m.id != "" {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group, req.MemberID = 1, "g", l.m.id
		c.LeaveGroup(ctx, coord.Client{}, req)
	}
}

func (p *classicProgram) coordinator() *Coordinator {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Coordinator
}

// run joins, syncs and sends heartbeats, as consumers do.
func (l *loop) run(ctx context.Context) {
	for ctx.Err() == nil {
		l.own(nil, 0)
		if l.join(ctx) && l.sync(ctx) {
			for ctx.Err() == nil && l.beat(ctx) {
				sleep(ctx, 3*time.Second)
			}
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// pass lets time pass on the simulated clock.
func pass(d time.Duration) { <-time.After(d) }

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// own records the partitions of the client, if it still runs.
func (l *loop) own(has []string, gen int32) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.p.live[l.number] == l {
		l.has, l.gen = has, gen
	}
}

func (l *loop) join(ctx context.Context) bool {
	l.p.mu.Lock()
	newest := l.p.newest
	l.p.mu.Unlock()
	resp := l.p.coordinator().JoinGroup(ctx, coord.Client{ID: "client"}, l.m.joinRequest())
	switch kerr.ErrorForCode(resp.ErrorCode) {
	case nil:
	case kerr.MemberIDRequired:
		l.m.id = resp.MemberID
		return l.join(ctx)
	case kerr.UnknownMemberID, kerr.FencedInstanceID:
		l.m.id = ""
		return false
	default:
		return false
	}
	l.m.id, l.m.gen, l.m.leader = resp.MemberID, resp.Generation, resp.LeaderID == resp.MemberID
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if resp.Generation < newest {
		l.p.bad = fmt.Sprintf("client %d joined generation %d after %d", l.number, resp.Generation, newest)
	}
	l.p.newest = max(l.p.newest, resp.Generation)
	l.m.order = []string{"range"}
	l.m.protocol["range"] = "meta"
	l.members(resp)
	return true
}

// members records the members of the generation; only the leader gets them.
func (l *loop) members(resp *kmsg.JoinGroupResponse) {
	l.m.got = ""
	for _, m := range resp.Members {
		l.m.got += m.MemberID + " "
	}
}

func (l *loop) sync(ctx context.Context) bool {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 5, "g", l.m.id, l.m.instance, l.m.gen
	if ids := strings.Fields(l.m.got); l.m.leader {
		for i, id := range ids {
			var part []string
			for n := i; n < classicPartitions; n += len(ids) {
				part = append(part, strconv.Itoa(n))
			}
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(strings.Join(part, " "))})
		}
	}
	resp := l.p.coordinator().SyncGroup(ctx, coord.Client{}, req)
	if resp.ErrorCode == 0 {
		l.own(strings.Fields(string(resp.MemberAssignment)), l.m.gen)
		return true
	}
	l.forget(resp.ErrorCode)
	return false
}

// forget drops the member ID if the answer says that it is unknown or fenced.
func (l *loop) forget(code int16) {
	if code == kerr.UnknownMemberID.Code || code == kerr.FencedInstanceID.Code {
		l.m.id = ""
	}
}

func (l *loop) beat(ctx context.Context) bool {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, "g", l.m.id, l.m.instance, l.m.gen
	code := l.p.coordinator().Heartbeat(ctx, coord.Client{}, req).ErrorCode
	if code == 0 || code == kerr.CoordinatorNotAvailable.Code {
		return true
	}
	l.forget(code)
	return false
}

func (p *classicProgram) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad != "" {
		p.Fatal(p.bad)
	}
	owner := map[string]*loop{}
	for _, number := range slices.Sorted(maps.Keys(p.live)) {
		l := p.live[number]
		for _, s := range l.has {
			if other := owner[s]; other != nil {
				p.Fatalf("partition %s is with %d in generation %d and with %d in %d", s, other.number, other.gen, number, l.gen)
			}
			owner[s] = l
		}
	}
}

func (p *classicProgram) checkStable() {
	if len(p.live) == 0 {
		if s := p.w.state("g"); s != "Empty" && s != "" {
			p.Fatalf("nobody is left and the group is %s", s)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	owned := 0
	for number, l := range p.live {
		owned += len(l.has)
		if l.gen != p.newest {
			p.Errorf("client %d is in generation %d of %d", number, l.gen, p.newest)
		}
	}
	if s := p.w.state("g"); s != "Stable" || owned != classicPartitions {
		p.Fatalf("the group is %s, %d partitions are with somebody", s, owned)
	}
}
