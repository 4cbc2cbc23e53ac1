package store_test

import (
	"encoding/binary"
	"fmt"

	"github.com/mainstemdev/mainstem/internal/format"
)

// group builds the effects of a group.
type group struct {
	n       uint32
	changes []byte
}

func (g *group) set(key, value []byte) {
	g.change(format.ChangeSet, key)
	g.changes = append(binary.AppendUvarint(g.changes, uint64(len(value))), value...)
}

func (g *group) delete(key []byte) { g.change(format.ChangeDelete, key) }

func (g *group) deleteRange(key, end []byte) {
	g.change(format.ChangeDeleteRange, key)
	g.changes = append(binary.AppendUvarint(g.changes, uint64(len(end))), end...)
}

func (g *group) change(kind byte, key []byte) {
	g.n++
	g.changes = append(g.changes, kind)
	g.changes = append(binary.AppendUvarint(g.changes, uint64(len(key))), key...)
}

func (g *group) effects() []byte {
	head := binary.LittleEndian.AppendUint32(make([]byte, 8), g.n)
	return append(head, g.changes...)
}

// body returns the body of a record.
func body(version, position uint64, value string) []byte {
	b := format.Body{Version: version, Position: position, Time: int64(position), Count: 1, Value: []byte(value)}
	return format.AppendBody(nil, &b, nil)
}

func versionKey(space uint32, key string, version uint64) []byte {
	return format.AppendVersion(prefix(space, key), version)
}

func prefix(space uint32, key string) []byte {
	return format.AppendPrefix(nil, format.TagVersion, space, []byte(key))
}

func slotKey(space uint32, key string) []byte { return format.AppendSlotKey(nil, space, []byte(key)) }

func feedKey(space uint32, position uint64) []byte { return format.AppendFeedKey(nil, space, position) }

// appendEvents adds what the engine writes for n records of a key of a space that keeps all
// history: the records, one feed block, and the totals.
func (g *group) appendEvents(space uint32, key string, version, position uint64, n int, value string) {
	var block []byte
	for i := range uint64(n) {
		b := body(version+i, position+i, value)
		g.set(versionKey(space, key, version+i), b)
		block = format.AppendFeedEntry(block, []byte(key), b)
	}
	g.set(feedKey(space, position), block)
	g.set(format.AppendTotalsKey(nil, space), fmt.Appendf(nil, "totals at %d", position))
}
