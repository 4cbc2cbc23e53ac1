package pebblelog

import (
	"bytes"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/internal/format"
)

// keyRange is a range of Pebble's keys.
type keyRange struct {
	start, end []byte // end is excluded
}

// removal is the work of one round.
type removal struct {
	ranges []keyRange // sorted by start; they do not overlap
	kept   uint64     // estimated bytes, in sorted files, of the records in the ranges that stay
}

// removedTags are the tags of all keys of a space, except its description and totals.
var removedTags = []byte{format.TagFeed, format.TagOlder, format.TagSlot, format.TagVersion}

// removalOf returns the removal for spaces. Adjacent dropped spaces share one range of each tag.
func (l *Log) removalOf(spaces map[*space]int64) *removal {
	r := new(removal)
	var numbers, live []uint32
	for s := range spaces {
		numbers = append(numbers, s.id)
		if l.live(s) {
			r.kept += 2 * uint64(max(s.totals().Bytes, 0)) // values may be stored in the feed as well
		}
	}
	for _, s := range l.spaces.Load().byName {
		live = append(live, s.id)
	}
	slices.Sort(numbers)
	slices.Sort(live)
	runs := spaceRuns(numbers, live)
	for _, tag := range removedTags {
		for _, run := range runs {
			r.ranges = append(r.ranges, keyRange{
				start: format.AppendHead(nil, tag, run.first),
				end:   format.AppendSuccessor(nil, format.AppendHead(nil, tag, run.last)),
			})
		}
	}
	slices.SortFunc(r.ranges, func(a, b keyRange) int { return bytes.Compare(a.start, b.start) })
	return r
}

// spaceRun is one live space, or a sequence of dropped spaces with no live one between them.
type spaceRun struct {
	first, last uint32
	dropped     bool
}

// spaceRuns groups numbers, the numbers of spaces, into runs. live has the numbers of all
// existing spaces. Both are sorted.
func spaceRuns(numbers, live []uint32) (runs []spaceRun) {
	before := -1 // index in live of the first number that is not below the last run
	for _, id := range numbers {
		i, found := slices.BinarySearch(live, id)
		if n := len(runs); n > 0 && runs[n-1].dropped && !found && before == i {
			runs[n-1].last = id
			continue
		}
		runs = append(runs, spaceRun{first: id, last: id, dropped: !found})
		before = i
	}
	return runs
}

// reclaimPiece is the size of a piece, in bytes of the fullest level. It bounds what one
// compaction below the first levels reads and writes.
const reclaimPiece = 64 << 20

// pieces splits k at the first keys of tables of the level that has most of k. tables has the
// tables with keys of k, by level.
func pieces(k keyRange, tables [][]pebble.SSTableInfo) []keyRange {
	var most []pebble.SSTableInfo
	var size uint64
	for _, level := range tables[1:] { // tables of level 0 overlap
		if n := sizeOf(level); n > size {
			most, size = level, n
		}
	}
	var cut []keyRange
	size = 0
	for i := range most {
		t := &most[i]
		if from := t.Smallest.UserKey; size >= reclaimPiece && bytes.Compare(from, k.start) > 0 {
			cut = append(cut, keyRange{k.start, bytes.Clone(from)})
			k.start, size = cut[len(cut)-1].end, 0
		}
		size += t.Size
	}
	return append(cut, k)
}

func sizeOf(tables []pebble.SSTableInfo) (n uint64) {
	for i := range tables {
		n += tables[i].Size
	}
	return n
}

// room estimates the bytes that a compaction of p writes before it removes any file: the tables
// of one level that overlap p, and the tables of the level below that these overlap. Of tables
// within the ranges of r only the kept part is rewritten. any reports whether a level above the
// last one has tables with keys of p; otherwise there is nothing to compact.
func (r *removal) room(p keyRange, tables [][]pebble.SSTableInfo) (need uint64, any bool) {
	for i := range len(tables) - 1 {
		reach := p
		var inside, outside uint64
		add := func(t *pebble.SSTableInfo) {
			if r.holds(t) {
				inside += t.Size
			} else {
				outside += t.Size
			}
		}
		for j := range tables[i] {
			if t := &tables[i][j]; p.overlaps(t) {
				any = true
				add(t)
				reach.cover(t)
			}
		}
		below := i + 1
		for i == 0 && below < len(tables)-1 && len(tables[below]) == 0 {
			below++ // level 0 is compacted into the first level that is not empty
		}
		for j := range tables[below] {
			if t := &tables[below][j]; reach.overlaps(t) {
				add(t)
			}
		}
		if len(tables[i]) > 0 {
			need = max(need, outside+min(inside, r.kept+inside/marksShare))
		}
	}
	return need, any
}

// holds reports whether all keys of t are in one range of r.
func (r *removal) holds(t *pebble.SSTableInfo) bool {
	i := sort.Search(len(r.ranges), func(i int) bool { return bytes.Compare(r.ranges[i].start, t.Smallest.UserKey) > 0 })
	return i > 0 && bytes.Compare(t.Largest.UserKey, r.ranges[i-1].end) < 0
}

// marksShare estimates what stays of removed records, tombstones and the versions of keys: one
// part in so many.
const marksShare = 8

func (k *keyRange) overlaps(t *pebble.SSTableInfo) bool {
	return bytes.Compare(t.Smallest.UserKey, k.end) < 0 && bytes.Compare(t.Largest.UserKey, k.start) >= 0
}

// cover extends k so that it includes the keys of t.
func (k *keyRange) cover(t *pebble.SSTableInfo) {
	if bytes.Compare(t.Smallest.UserKey, k.start) < 0 {
		k.start = t.Smallest.UserKey
	}
	if bytes.Compare(t.Largest.UserKey, k.end) >= 0 {
		k.end = append(bytes.Clone(t.Largest.UserKey), 0)
	}
}
