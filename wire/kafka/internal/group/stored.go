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

// keyText returns the first text of a key and what follows it.
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
type kind uint8

const (
	simple   kind = iota // only offsets: no member has ever joined
	classic              // JoinGroup and SyncGroup
	consumer             // ConsumerGroupHeartbeat (KIP-848)
)

// state is the state of a classic group. The numbers are stored: add at the end only.
type state uint8

const (
	empty      state = iota // no members
	preparing               // members are joining
	completing              // the leader makes the assignment
	stable
)

// header is what is stored of a group besides its members.
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
	assigned int32     // consumer: the epoch of the target assignment
	since    time.Time // when the last member was gone; zero if there are members

	protocolType string
	protocol     string // that all classic members use; the assignor of a consumer group
	leader       string
	topics       [16]byte // consumer: fingerprint of the topics of the target assignment
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

// protocol is one that a classic member offers.
type protocol struct {
	name     string
	metadata []byte
}

// progress is how far a member of a consumer group is. The numbers are stored:
// add at the end only.
type progress uint8

const (
	reconciled progress = iota // it has what it is to have in its epoch
	unrevoked                  // it has to give up partitions first
	unreleased                 // it waits for partitions that others still have
)

// identity is what is stored of a member.
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
// Partitions are a uvarint number of topics; for each 16 bytes ID, a uvarint
// number of partitions, and for each the uvarint difference to the one before.
type identity struct {
	instance  *string
	client    string
	host      string
	rack      string
	session   time.Duration
	rebalance time.Duration

	// Of the classic protocol; members of a consumer group have it while they still
	// speak that protocol.
	protocols  []protocol
	assignment []byte

	// Of consumer groups.
	consumer bool
	assignor string
	regex    string
	names    []string
	epoch    int32 // leftStatic after a static member has left for a while
	previous int32
	progress progress
	assigned partitions // it may read
	revoking partitions // it has to give up
	target   partitions // it is to have in the end
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

// reader takes values from bytes. After a mistake it returns zeros.
type reader struct {
	b   []byte
	bad bool
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

// byte takes a byte of at most limit.
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

// below takes a number of at most limit.
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

// count takes a number of things that have at least size bytes each.
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
