package group

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// catalog is a [coord.Topics] that tests change.
type catalog struct {
	log mainstem.Log

	mu     sync.Mutex
	topics map[string]coord.Topic
	made   byte
	err    error // of every call, if it is not nil
}

func newCatalog(log mainstem.Log) *catalog {
	return &catalog{log: log, topics: map[string]coord.Topic{}}
}

func notFound() error { return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "topic"} }

// create makes a topic, with a new ID if there was one of the name.
func (c *catalog) create(name string, partitions int32) topic.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	id := topic.ID{c.made}
	c.put(name, id, partitions)
	return id
}

func (c *catalog) put(name string, id topic.ID, partitions int32) {
	c.topics[name] = coord.Topic{Name: name, ID: id, Partitions: partitions, Offsets: func(group string) coord.Offsets {
		return partition.NewOffsets(c.log, group, name, id)
	}}
}

func (c *catalog) grow(name string, partitions int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(name, c.topics[name].ID, partitions)
}

func (c *catalog) delete(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
}

func (c *catalog) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *catalog) Topic(ctx context.Context, name string) (coord.Topic, error) {
	if err := ctx.Err(); err != nil {
		return coord.Topic{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.topics[name]
	if !ok && c.err == nil {
		return t, notFound()
	}
	return t, c.err
}

func (c *catalog) ByID(_ context.Context, id topic.ID) (coord.Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.topics {
		if t.ID == id {
			return t, c.err
		}
	}
	if c.err != nil {
		return coord.Topic{}, c.err
	}
	return coord.Topic{}, notFound()
}

func (c *catalog) All(context.Context) ([]coord.Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []coord.Topic
	for _, t := range c.topics {
		out = append(out, t)
	}
	return out, c.err
}

// broken is a log whose commits can be made to fail and are counted.
type broken struct {
	*model.Log
	mu      sync.Mutex
	err     error
	written bool // a failing commit is written nevertheless
	commits int
	before  func() // runs once before the next commit
}

func (b *broken) Commit(ctx context.Context, batch *mainstem.Batch) (mainstem.Receipt, error) {
	b.mu.Lock()
	b.commits++
	err, written, before := b.err, b.written, b.before
	b.before = nil
	b.mu.Unlock()
	if before != nil {
		before()
	}
	if err != nil {
		if written {
			b.Log.Commit(ctx, batch)
		}
		return mainstem.Receipt{}, err
	}
	return b.Log.Commit(ctx, batch)
}

func (b *broken) set(err error, written bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.written = err, written
}

func (b *broken) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits
}

var errBroken = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}

// failer is a test, or a program of rapid's.
type failer interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// world is a coordinator on a log, which can be opened anew.
type world struct {
	t      failer
	log    *broken
	topics *catalog
	o      Options
	*Coordinator
}

func newWorld(t failer, o Options) *world {
	t.Helper()
	log := &broken{Log: model.New(nil)}
	w := &world{t: t, log: log, topics: newCatalog(log), o: o}
	if w.o.SweepEvery == 0 {
		w.o.SweepEvery = -1
	}
	w.open()
	t.Cleanup(func() {
		w.Coordinator.Close()
		log.Log.Close()
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	c, err := Open(w.log, w.topics, &w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Coordinator = c
}

// reopen closes the coordinator, which stores nothing more, and opens another on the same log.
func (w *world) reopen() {
	w.t.Helper()
	if err := w.Coordinator.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

var ctx = context.Background()

// timeouts of the classic members of tests.
const (
	testSession   = 10 * time.Second
	testRebalance = 30 * time.Second
)

// classicMember is a client of the classic protocol.
type classicMember struct {
	w        *world
	group    string
	id       string
	instance *string
	version  int16 // of JoinGroup
	protocol map[string]string
	order    []string
	gen      int32
	leader   bool
	got      string
}

func (w *world) member(group string, protocols ...string) *classicMember {
	m := &classicMember{w: w, group: group, version: 9, protocol: map[string]string{}}
	if len(protocols) == 0 {
		protocols = []string{"range"}
	}
	for _, p := range protocols {
		m.order = append(m.order, p)
		m.protocol[p] = "meta of " + p
	}
	return m
}

func (m *classicMember) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = m.version
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = m.group, m.id, m.instance, "consumer"
	req.SessionTimeoutMillis = int32(testSession.Milliseconds())
	req.RebalanceTimeoutMillis = int32(testRebalance.Milliseconds())
	for _, p := range m.order {
		in := kmsg.NewJoinGroupRequestProtocol()
		in.Name, in.Metadata = p, []byte(m.protocol[p])
		req.Protocols = append(req.Protocols, in)
	}
	return req
}

// join joins, with a second request if an ID is required.
func (m *classicMember) join() *kmsg.JoinGroupResponse {
	resp := m.w.JoinGroup(ctx, coord.Client{ID: "client", Host: "host"}, m.joinRequest())
	if resp.ErrorCode == kerr.MemberIDRequired.Code {
		m.id = resp.MemberID
		resp = m.w.JoinGroup(ctx, coord.Client{ID: "client", Host: "host"}, m.joinRequest())
	}
	if resp.ErrorCode == 0 {
		m.id, m.gen, m.leader = resp.MemberID, resp.Generation, resp.LeaderID == resp.MemberID
	}
	return resp
}

func (m *classicMember) sync(assignment map[string]string) *kmsg.SyncGroupResponse {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = 5
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.gen
	for id, part := range assignment {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte(part)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	resp := m.w.SyncGroup(ctx, coord.Client{}, req)
	m.got = string(resp.MemberAssignment)
	return resp
}

func (m *classicMember) beat() int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 4
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.gen
	return m.w.Heartbeat(ctx, coord.Client{}, req).ErrorCode
}

func (m *classicMember) leave() int16 {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = 5
	req.Group = m.group
	in := kmsg.NewLeaveGroupRequestMember()
	in.MemberID, in.InstanceID = m.id, m.instance
	req.Members = append(req.Members, in)
	resp := m.w.LeaveGroup(ctx, coord.Client{}, req)
	if resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	return resp.Members[0].ErrorCode
}

// invite gets an ID for the member, so that the barrier waits for it.
func (m *classicMember) invite() {
	if m.id == "" && m.instance == nil {
		m.id = m.w.JoinGroup(ctx, coord.Client{ID: "client", Host: "host"}, m.joinRequest()).MemberID
	}
}

// joinAll lets members join one generation, and returns the answers.
func joinAll(t testing.TB, members ...*classicMember) []*kmsg.JoinGroupResponse {
	t.Helper()
	for _, m := range members {
		m.invite()
	}
	out := make([]*kmsg.JoinGroupResponse, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { out[i] = m.join() })
	}
	wg.Wait()
	for i := range out {
		wantCode(t, "join", out[i].ErrorCode, nil)
	}
	return out
}

// together lets members join one generation and complete it.
func together(t testing.TB, members ...*classicMember) {
	t.Helper()
	joinAll(t, members...)
	complete(t, members...)
}

// complete sends SyncGroup of all members of a generation. The leader gives each its own
// assignment, and each must get it.
func complete(t testing.TB, members ...*classicMember) {
	t.Helper()
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			parts := map[string]string{}
			if m.leader {
				for _, other := range members {
					parts[other.id] = "part of " + other.id
				}
			}
			if resp := m.sync(parts); resp.ErrorCode != 0 {
				t.Errorf("sync: %v", kerr.ErrorForCode(resp.ErrorCode))
			}
		})
	}
	wg.Wait()
	for _, m := range members {
		if m.got != "part of "+m.id {
			t.Errorf("member %s got %q", m.id, m.got)
		}
	}
}

// commitRequest commits one offset of a partition of a topic.
func commitRequest(group, name string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = 9
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = name
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = partition, offset, 3
	p.Metadata = text("note")
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (w *world) commit(req *kmsg.OffsetCommitRequest) int16 {
	return w.OffsetCommit(ctx, coord.Client{}, req).Topics[0].Partitions[0].ErrorCode
}

// fetch returns the offset stored for a partition, -1 if there is none.
func (w *world) fetch(group, name string, partition int32) int64 {
	w.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: name, Partitions: []int32{partition}}}
	req.Groups = append(req.Groups, g)
	out := w.OffsetFetch(ctx, coord.Client{}, req).Groups[0]
	if out.ErrorCode != 0 || out.Topics[0].Partitions[0].ErrorCode != 0 {
		w.t.Fatalf("fetch: %+v", out)
	}
	return out.Topics[0].Partitions[0].Offset
}

func (w *world) describe(group string) kmsg.DescribeGroupsResponseGroup {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = 6
	req.Groups = []string{group}
	return w.DescribeGroups(ctx, coord.Client{}, req).Groups[0]
}

func (w *world) state(group string) string {
	w.t.Helper()
	groups, err := w.Groups(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(groups, func(in Info) bool { return in.Name == group })
	if i < 0 {
		return ""
	}
	return groups[i].State
}

func wantCode(t testing.TB, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		t.Errorf("%s: got %v, want %v", what, kerr.ErrorForCode(got), kerr.ErrorForCode(code))
	}
}
