package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem/topic"
)

// Keys of [partition.GroupSpace], besides those of stored offsets. All numbers in
// keys are big-endian.
//
//	'g'  length of group (2)  group                                 a group
//	'm'  length of group (2)  group  length of member (2)  member   a member of it
//	'c'  length of group (2)  group                                 its configuration
const (
	groupKind  = 'g'
	memberKind = 'm'
	configKind = 'c'
)

func appendText(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func groupKey(group string) []byte { return appendText([]byte{groupKind}, group) }

func configKey(group string) []byte { return appendText([]byte{configKind}, group) }

func memberPrefix(group string) []byte { return appendText([]byte{memberKind}, group) }

func memberKey(group, member string) []byte { return appendText(memberPrefix(group), member) }

// keyText returns the first text of a key and the rest of the key, which shares its memory.
func keyText(b []byte) (text string, rest []byte, err error) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return "", nil, errors.New("the key ends within a name")
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return string(b[2:n]), b[n:], nil
}

// storedFormat is the first byte of every value.
const storedFormat = 1

// kind is the protocol of a group. The numbers are stored: add at the end only.
//
//	from              to        when
//	simple, consumer  classic   first member: a client joins with JoinGroup
//	simple, classic   consumer  first member: a client joins with ConsumerGroupHeartbeat
//	classic           consumer  a client joins with ConsumerGroupHeartbeat; the members stay (upgrade)
//	consumer          classic   only members with the classic protocol are left (downgrade)
//
// Invariant: a change of the kind keeps the epoch of the group, so that no epoch repeats.
type kind uint8

const (
	simple   kind = iota // only offsets: no member has ever joined
	classic              // JoinGroup and SyncGroup
	consumer             // ConsumerGroupHeartbeat (KIP-848)
)

// state is the state of a classic group. The numbers are stored: add at the end only.
//
//	       first member          barrier closed               assignment
//	empty ─────────────▶ preparing ───────────▶ completing ───────────────▶ stable
//	  ▲                   │ ▲  ▲                    │                          │
//	  └───────────────────┘ │  └────────────────────┘                          │
//	     no member left     │   member joins or is lost, no assignment in time │
//	                        └──────────────────────────────────────────────────┘
//	                                      member joins or is lost
//
//	preparing   The barrier is open: JoinGroup requests wait. It closes when all members have
//	            joined, or at joinBy. Both transitions out of this state raise the generation.
//	completing  SyncGroup requests wait for the assignment of the leader, until syncBy.
//	stable      SyncGroup and Heartbeat requests are answered at once.
//
// A member is lost when it leaves, when its session ends, or at syncBy when it has not sent
// SyncGroup. A member that joins again begins a rebalance if its protocols have changed or it is
// the leader of a stable group; a static member that has lost its member ID, if the group is not
// stable or its metadata has changed. barrier.go describes the steps.
//
// Invariant: a group in state empty has no members. A consumer group is in state empty always.
type state uint8

const (
	empty      state = iota // it has no members
	preparing               // members join
	completing              // the leader computes the assignment
	stable                  // every member has, or can get, its assignment
)

// header is the stored state of a group, without its members.
//
//	1 byte each: format, kind, state
//	uvarint: epoch, assigned
//	varint: since, in milliseconds, 0 for none
//	text: protocol type, protocol, leader
//	16 bytes: topics
//
// A text is a uvarint length and bytes.
type header struct {
	kind     kind
	state    state     // classic only
	epoch    int32     // generation, or group epoch: it never falls, whatever the kind
	assigned int32     // consumer: the epoch of the target assignment, at most epoch
	since    time.Time // when the last member was lost; zero while there are members, or if there never was one

	protocolType string   // "consumer" for Kafka's consumers; "" in a simple group
	protocol     string   // classic: the elected protocol; consumer: the assignor
	leader       string   // classic: the ID of the leader
	topics       [16]byte // consumer: fingerprint of the topics when they were last read
}

func (h *header) encode() []byte {
	b := append(make([]byte, 0, 64), storedFormat, byte(h.kind), byte(h.state))
	b = binary.AppendUvarint(b, uint64(h.epoch))
	b = binary.AppendUvarint(b, uint64(h.assigned))
	b = binary.AppendVarint(b, millis(h.since))
	b = putText(b, h.protocolType)
	b = putText(b, h.protocol)
	b = putText(b, h.leader)
	return append(b, h.topics[:]...)
}

func decodeHeader(b []byte) (header, error) {
	var h header
	r := reader{b: b}
	r.format()
	h.kind, h.state = kind(r.byte(uint8(consumer))), state(r.byte(uint8(stable)))
	h.epoch, h.assigned = r.epoch(), r.epoch()
	h.since = fromMillis(r.varint())
	h.protocolType, h.protocol, h.leader = r.text(), r.text(), r.text()
	copy(h.topics[:], r.take(16))
	return h, r.end("a group")
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// protocol is a protocol that a member of the classic protocol supports, such as an assignor.
type protocol struct {
	name     string
	metadata []byte
}

// progress is the state of a member of a consumer group on the way to its target. The numbers are
// stored: add at the end only.
//
//	new member, or a target of a newer epoch
//	  │
//	  ├─ it owns partitions that are not in the target ─▶ unrevoked ──── giveUpBy ───▶ removed
//	  │                                                     │
//	  ├◀────── a report without the revoked partitions ─────┘
//	  │
//	  ├─ a partition of the target has another owner ───▶ unreleased
//	  │                                                     │
//	  ├◀────────────────── the next report ─────────────────┘
//	  │
//	  └─ else ──────────────────────────────────────────▶ reconciled
//
// An unrevoked member keeps its epoch. In the other two states it gets the epoch of the target.
//
// Invariant: a member is unrevoked if and only if revoking is not empty.
type progress uint8

const (
	reconciled progress = iota // it has the whole target of its epoch
	unrevoked                  // it has to give up partitions first
	unreleased                 // it has given up all it must, and waits for partitions of other members
)

// identity is the stored state of a member.
//
//	1 byte each: format, flags
//	text: instance if flagInstance, client, host, rack
//	uvarint: session and rebalance timeout in milliseconds
//	uvarint: number of protocols; for each text: name, metadata
//	text: assignment
//	if flagConsumer:
//	  text: assignor, regex
//	  uvarint: number of names; for each text: name
//	  varint: epoch, previous
//	  1 byte: progress
//	  partitions: assigned, revoking, target
//
// Partitions are a uvarint number of topics; for each 16 bytes ID, a uvarint number of partitions,
// and for each the uvarint difference to the one before it, the first to 0.
type identity struct {
	instance  *string
	client    string
	host      string
	rack      string
	session   time.Duration
	rebalance time.Duration

	// Of the classic protocol. A member of a consumer group has protocols if and only if it speaks
	// the classic protocol.
	protocols  []protocol // in the order in which the client lists them
	assignment []byte     // in the form in which the leader sends it

	// Of consumer groups.
	consumer bool       // it is in a consumer group
	assignor string     // that it asks for; "": any
	regex    string     // subscription; "": none
	names    []string   // subscription, sorted
	epoch    int32      // at most header.assigned; joining and leftStatic have a meaning
	previous int32      // the epoch before
	progress progress   // how far it is
	assigned partitions // it may read them
	revoking partitions // it has to give them up
	target   partitions // it gets them in the end
}

const (
	flagInstance = 1 << iota
	flagConsumer
	flagsKnown = flagInstance | flagConsumer
)

func (m *identity) encode() []byte {
	b := append(make([]byte, 0, 256), storedFormat, 0)
	if m.instance != nil {
		b[1] |= flagInstance
		b = putText(b, *m.instance)
	}
	for _, s := range []string{m.client, m.host, m.rack} {
		b = putText(b, s)
	}
	b = binary.AppendUvarint(b, uint64(m.session.Milliseconds()))
	b = binary.AppendUvarint(b, uint64(m.rebalance.Milliseconds()))
	b = binary.AppendUvarint(b, uint64(len(m.protocols)))
	for _, p := range m.protocols {
		b = putText(putText(b, p.name), p.metadata)
	}
	b = putText(b, m.assignment)
	if m.consumer {
		b[1] |= flagConsumer
		b = m.encodeConsumer(b)
	}
	return b
}

func (m *identity) encodeConsumer(b []byte) []byte {
	b = putText(putText(b, m.assignor), m.regex)
	b = binary.AppendUvarint(b, uint64(len(m.names)))
	for _, s := range m.names {
		b = putText(b, s)
	}
	b = binary.AppendVarint(b, int64(m.epoch))
	b = binary.AppendVarint(b, int64(m.previous))
	b = append(b, byte(m.progress))
	for _, p := range []partitions{m.assigned, m.revoking, m.target} {
		b = putPartitions(b, p)
	}
	return b
}

func decodeIdentity(b []byte) (identity, error) {
	var m identity
	r := reader{b: b}
	r.format()
	flags := r.byte(flagsKnown)
	if flags&flagInstance != 0 {
		s := r.text()
		m.instance = &s
	}
	m.client, m.host, m.rack = r.text(), r.text(), r.text()
	m.session, m.rebalance = r.timeout(), r.timeout()
	for n := r.count(2); n > 0; n-- {
		m.protocols = append(m.protocols, protocol{r.text(), []byte(r.text())})
	}
	m.assignment = []byte(r.text())
	if m.consumer = flags&flagConsumer != 0; m.consumer {
		r.consumer(&m)
	}
	return m, r.end("a member")
}

func (r *reader) consumer(m *identity) {
	m.assignor, m.regex = r.text(), r.text()
	for n := r.count(1); n > 0; n-- {
		m.names = append(m.names, r.text())
	}
	m.epoch, m.previous = r.memberEpoch(), r.memberEpoch()
	m.progress = progress(r.byte(uint8(unreleased)))
	m.assigned, m.revoking, m.target = r.partitions(), r.partitions(), r.partitions()
}

func putText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func putPartitions(b []byte, p partitions) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, id := range p.ids() {
		b = append(b, id[:]...)
		b = binary.AppendUvarint(b, uint64(len(p[id])))
		last := int32(0)
		for _, n := range p[id] {
			b = binary.AppendUvarint(b, uint64(n-last))
			last = n
		}
	}
	return b
}

// reader decodes values. After an error it returns zeros; end reports the error.
type reader struct {
	b   []byte // not decoded yet
	bad bool   // there was an error
}

func (r *reader) fail() {
	r.bad, r.b = true, nil
}

func (r *reader) end(what string) error {
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("what is stored of %s is malformed", what)
	}
	return nil
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// byte decodes a byte that is at most limit.
func (r *reader) byte(limit uint8) uint8 {
	b := r.take(1)
	if len(b) == 0 || b[0] > limit {
		r.fail()
		return 0
	}
	return b[0]
}

func (r *reader) format() {
	if b := r.take(1); len(b) == 0 || b[0] != storedFormat {
		r.fail()
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// below decodes a number that is at most limit.
func (r *reader) below(limit uint64) uint64 {
	v := r.uvarint()
	if v > limit {
		r.fail()
		return 0
	}
	return v
}

func (r *reader) epoch() int32 { return int32(r.below(math.MaxInt32)) }

func (r *reader) memberEpoch() int32 {
	v := r.varint()
	if v < leftStatic || v > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) timeout() time.Duration {
	return time.Duration(r.below(math.MaxInt32)) * time.Millisecond
}

// count decodes the number of elements of at least size bytes each. It fails if so many do not fit
// into the rest, so that a damaged number allocates no memory.
func (r *reader) count(size int) int { return int(r.below(uint64(len(r.b) / size))) }

func (r *reader) text() string { return string(r.take(r.uvarint())) }

func (r *reader) partitions() partitions {
	out := partitions{}
	for n := r.count(18); n > 0 && !r.bad; n-- {
		var id topic.ID
		copy(id[:], r.take(16))
		count := r.count(1)
		nums := make([]int32, 0, count)
		last := uint64(0)
		for range count {
			last += r.below(topic.MaxPartitions)
			if last >= topic.MaxPartitions {
				r.fail()
			}
			nums = append(nums, int32(last))
		}
		if _, twice := out[id]; twice || len(nums) == 0 || !ascending(nums) {
			r.fail()
		}
		out[id] = nums
	}
	return out
}

func ascending(nums []int32) bool {
	return slices.IsSorted(nums) && len(slices.Compact(slices.Clone(nums))) == len(nums)
}
