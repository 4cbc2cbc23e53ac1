package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/store"
)

// state is what a log holds: the values of its keys.
type state map[string]string

func (s state) apply(effects []byte) {
	_, rest, err := format.Effects(effects)
	for err == nil && len(rest) > 0 {
		var c format.Change
		if c, rest, err = format.NextChange(rest); err != nil {
			break
		}
		switch c.Kind {
		case format.ChangeSet:
			s[string(c.Key)] = string(c.Operand)
		case format.ChangeDelete:
			delete(s, string(c.Key))
		default:
			maps.DeleteFunc(s, func(k, _ string) bool { return k >= string(c.Key) && k < string(c.Operand) })
		}
	}
	if err != nil {
		panic(err)
	}
}

func (s state) keys(prefix []byte) (keys []string) {
	for k := range s {
		if bytes.HasPrefix([]byte(k), prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// feed returns the positions and bodies of the entries of a space above after.
func (s state) feed(space uint32, after uint64) (out []string) {
	for _, k := range s.keys(format.AppendHead(nil, format.TagFeed, space)) {
		out = appendEntries(out, []byte(s[k]), after)
	}
	return out
}

func appendEntries(out []string, block []byte, after uint64) []string {
	for len(block) > 0 {
		key, body, rest, err := format.NextFeedEntry(block)
		if err != nil {
			panic(err)
		}
		position, err := format.PeekPosition(body)
		if err != nil {
			panic(err)
		}
		if block = rest; position > after {
			out = append(out, fmt.Sprintf("%d %s %x", position, key, body))
		}
	}
	return out
}

// The spaces of the model.
const (
	firstSpace, streamSpaces, allSpaces = 1, 2, 4 // 1 and 2 keep all history, 3 and 4 the newest record
	keysOfSpace                         = 6
)

func streams(space uint32) bool { return space <= streamSpaces }

// model runs random programs on a hot tier and a cold one beside a log that has one tier.
type model struct {
	*testing.T
	rnd      *rand.Rand
	hot      *store.Hot
	cold     state // what the cold tier holds
	durable  state // what of it a crash leaves: what it held at some time before
	whole    state // what the log holds
	journal  [][]byte
	applied  int // groups of the journal in the cold tier, by the key 'n'
	position uint64
	versions map[string]uint64 // newest, by prefix or slot key
	held     map[string]uint64 // position of the record in a slot
	receipts int
}

var errCold = errors.New("the cold tier fails")

func (m *model) key() (space uint32, key string) {
	return firstSpace + uint32(m.rnd.IntN(allSpaces)), fmt.Sprintf("key\x00%d", m.rnd.IntN(keysOfSpace))
}

// appendGroup commits a group that only appends.
func (m *model) appendGroup() {
	var g group
	for range 1 + m.rnd.IntN(4) {
		space, key := m.key()
		value := fmt.Sprintf("%0*d", m.rnd.IntN(200), m.position)
		if streams(space) {
			p, n := string(prefix(space, key)), 1+m.rnd.IntN(5)
			g.appendEvents(space, key, m.versions[p]+1, m.position+1, n, value)
			m.versions[p] += uint64(n)
			m.position += uint64(n)
			continue
		}
		k := slotKey(space, key)
		m.position++
		m.versions[string(k)]++
		b := body(m.versions[string(k)], m.position, value)
		if old := m.held[string(k)]; old != 0 {
			g.delete(feedKey(space, old))
		}
		m.held[string(k)] = m.position
		g.set(k, b)
		g.set(feedKey(space, m.position), format.AppendFeedEntry(nil, []byte(key), b))
		g.set(format.AppendTotalsKey(nil, space), fmt.Appendf(nil, "totals at %d", m.position))
	}
	if m.rnd.IntN(3) == 0 {
		m.receipts++
		id := fmt.Sprintf("batch-%d", m.receipts)
		g.set(format.AppendReceiptKey(nil, id), fmt.Appendf(nil, "receipt %d", m.position))
		g.set(format.AppendIDOrderKey(nil, int64(m.receipts), id), nil)
	}
	m.commit(&g, true)
}

// edit commits a group that changes or removes what is there.
func (m *model) edit() {
	m.drain(1<<20, nil)
	m.verify()
	var g group
	space, key := m.key()
	if m.rnd.IntN(20) == 0 { // a space is emptied
		for _, tag := range []byte{format.TagSlot, format.TagVersion, format.TagFeed} {
			head := format.AppendHead(nil, tag, space)
			g.deleteRange(head, format.AppendSuccessor(nil, head))
		}
		maps.DeleteFunc(m.held, func(k string, _ uint64) bool { return bytes.HasPrefix([]byte(k), slotKey(space, "")) })
		m.commit(&g, false)
		return
	}
	if !streams(space) {
		k := slotKey(space, key)
		if p := m.held[string(k)]; p != 0 {
			g.delete(k)
			g.delete(feedKey(space, p))
			delete(m.held, string(k))
			m.commit(&g, false)
		}
		return
	}
	keys := m.whole.keys(prefix(space, key))
	if len(keys) == 0 {
		return
	}
	i := m.rnd.IntN(len(keys))
	b, err := format.DecodeBody([]byte(m.whole[keys[i]]))
	if err != nil {
		m.Fatal(err)
	}
	var replacement []byte
	if m.rnd.IntN(2) == 0 {
		replacement = body(b.Version, b.Position, "rewritten")
		g.set([]byte(keys[i]), replacement)
	} else {
		g.delete([]byte(keys[i]))
	}
	for _, f := range m.whole.keys(format.AppendHead(nil, format.TagFeed, space)) {
		m.editBlock(&g, f, b.Position, replacement)
	}
	m.commit(&g, false)
}

// editBlock replaces or removes the entry at position, if the block at f of the cold tier has it.
func (m *model) editBlock(g *group, f string, position uint64, replacement []byte) {
	block, ok := m.cold[f]
	if !ok {
		return
	}
	var out []byte
	found := false
	for rest := []byte(block); len(rest) > 0; {
		key, b, next, err := format.NextFeedEntry(rest)
		if err != nil {
			m.Fatal(err)
		}
		rest = next
		switch p, _ := format.PeekPosition(b); {
		case p != position:
			out = format.AppendFeedEntry(out, key, b)
		case replacement != nil:
			out = format.AppendFeedEntry(out, key, replacement)
			fallthrough
		default:
			found = true
		}
	}
	switch {
	case found && len(out) == 0:
		g.delete([]byte(f))
	case found:
		g.set([]byte(f), out)
	}
}

func (m *model) commit(g *group, appends bool) {
	g.set([]byte{format.TagFrame}, format.AppendFrameNumber(nil, uint64(len(m.journal)+1)))
	effects := g.effects()
	m.journal = append(m.journal, effects)
	m.whole.apply(effects)
	if appends {
		if err := m.hot.Apply(effects); err != nil {
			m.Fatal(err)
		}
		clear(effects[12:]) // the tier has a copy
		m.journal[len(m.journal)-1] = g.effects()
		return
	}
	m.cold.apply(effects)
	m.applied = len(m.journal)
	if err := m.hot.Invalidate(effects); err != nil {
		m.Fatal(err)
	}
}

// drain writes pending groups to the cold tier; it fails at the piece with a number.
func (m *model) drain(pieceBytes int, fail func(piece int) bool) {
	pieces := 0
	err := m.hot.Drain(pieceBytes, func(changes []store.Change) error {
		if pieces++; fail != nil && fail(pieces) {
			return errCold
		}
		if !slices.IsSortedFunc(changes, func(a, b store.Change) int {
			if c := bytes.Compare(a.Key, b.Key); c != 0 {
				return c
			}
			return 1 // a key occurs once
		}) {
			m.Errorf("the changes of a piece are not sorted, or a key is there twice")
		}
		for _, c := range changes {
			if c.Delete {
				delete(m.cold, string(c.Key))
			} else {
				m.cold[string(c.Key)] = string(c.Value)
			}
		}
		n, err := format.DecodeFrameNumber([]byte(m.cold[string(rune(format.TagFrame))]))
		m.applied = int(n)
		return err
	})
	if err != nil && !errors.Is(err, errCold) {
		m.Fatal(err)
	}
	if err == nil && m.applied != len(m.journal) {
		m.Fatalf("after a drain the cold tier has %d groups of %d", m.applied, len(m.journal))
	}
}

// crash loses what is in memory, of the cold tier too, and replays the journal over the rest. Then
// the cold tier is key by key what a log of one tier is.
func (m *model) crash(limit int) {
	m.cold = maps.Clone(m.durable)
	applied := 0
	if n, ok := m.cold[string(rune(format.TagFrame))]; ok {
		number, err := format.DecodeFrameNumber([]byte(n))
		if err != nil {
			m.Fatal(err)
		}
		applied = int(number)
	}
	for _, effects := range m.journal[applied:] {
		m.cold.apply(effects)
	}
	m.applied = len(m.journal)
	m.hot = store.NewHot(limit)
	if !maps.Equal(m.cold, m.whole) {
		m.Fatalf("after a replay of %d of %d groups the cold tier differs from a log of one tier", len(m.journal)-applied, len(m.journal))
	}
	m.verify()
}

// verify reads everything through both tiers.
func (m *model) verify() {
	m.Helper()
	for space := uint32(firstSpace); space < firstSpace+allSpaces; space++ {
		for i := range keysOfSpace {
			if streams(space) {
				m.verifyRecords(prefix(space, fmt.Sprintf("key\x00%d", i)))
			} else {
				m.verifyValue(slotKey(space, fmt.Sprintf("key\x00%d", i)))
			}
		}
		m.verifyFeed(space, uint64(m.rnd.Int64N(int64(m.position)+1)))
		m.verifyFeed(space, m.position-min(m.position, uint64(m.rnd.IntN(10))))
	}
	for i := range m.receipts {
		m.verifyValue(format.AppendReceiptKey(nil, fmt.Sprintf("batch-%d", i+1)))
	}
	for k := range m.cold { // nothing else
		if _, ok := m.whole[k]; !ok && k[0] != format.TagFeed {
			if id, err := format.KeySpace([]byte(k)); err != nil || !m.hot.Pending(id) {
				m.Fatalf("the cold tier still has key %q", k)
			}
		}
	}
}

func (m *model) verifyValue(key []byte) {
	m.Helper()
	got, ok := m.hot.Get(key)
	if !ok {
		got = []byte(m.cold[string(key)])
	}
	if string(got) != m.whole[string(key)] {
		m.Fatalf("key %q: %q (in memory: %v), want %q", key, got, ok, m.whole[string(key)])
	}
}

func (m *model) verifyRecords(prefix []byte) {
	m.Helper()
	records := m.hot.Records(prefix)
	var got []string
	bound := string(format.AppendPrefixEnd(nil, prefix))
	if records.Len() > 0 {
		b, err := format.DecodeBody(records.At(0))
		if err != nil {
			m.Fatal(err)
		}
		bound = string(format.AppendVersion(bytes.Clone(prefix), b.Version))
	}
	for _, k := range m.cold.keys(prefix) {
		if k < bound {
			got = append(got, m.cold[k])
		}
	}
	for i := range records.Len() {
		got = append(got, string(records.At(i)))
	}
	var want []string
	for _, k := range m.whole.keys(prefix) {
		want = append(want, m.whole[k])
	}
	if !slices.Equal(got, want) {
		m.Fatalf("records of %q: %q, want %q", prefix, got, want)
	}
	if newest, ok := m.hot.Get(prefix); ok != (records.Len() > 0) || ok && string(newest) != want[len(want)-1] {
		m.Fatalf("newest record of %q: %q, want %q", prefix, newest, want)
	}
}

func (m *model) verifyFeed(space uint32, after uint64) {
	m.Helper()
	var got []string
	blocks, ok := m.hot.Blocks(space, after)
	for i := range blocks.Len() {
		got = appendEntries(got, blocks.At(i), after)
	}
	if !ok {
		if m.hot.Pending(space) {
			return // the engine would drain first
		}
		got = m.cold.feed(space, after)
	}
	if want := m.whole.feed(space, after); !slices.Equal(got, want) {
		m.Fatalf("feed of space %d after %d (in memory: %v): %q, want %q", space, after, ok, got, want)
	}
}

// TestTiersAreOneLog runs random programs of appends, edits, drains that may fail, and
// crashes: whatever is read through both tiers is what a log with one tier would show.
func TestTiersAreOneLog(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, 0)), 200) })
	}
}

func runModel(t *testing.T, rnd *rand.Rand, steps int) {
	limit := []int{1, 20 << 10, 100 << 10, 1 << 20}[rnd.IntN(4)]
	m := &model{T: t, rnd: rnd, hot: store.NewHot(limit), cold: state{}, durable: state{}, whole: state{}, versions: map[string]uint64{}, held: map[string]uint64{}}
	edits := rnd.IntN(2) * 5 // programs without edits let tables grow old
	for range steps {
		switch n := rnd.IntN(100); {
		case n < 2:
			m.crash(limit)
		case n < 4:
			m.durable = maps.Clone(m.cold)
		case n < 4+edits:
			m.edit()
		case n < 20:
			m.drain(1+rnd.IntN(4<<10), func(int) bool { return rnd.IntN(3) == 0 })
		default:
			m.appendGroup()
		}
		if rnd.IntN(8) == 0 {
			m.verify()
		}
	}
	m.drain(1<<20, nil)
	m.verify()
}
