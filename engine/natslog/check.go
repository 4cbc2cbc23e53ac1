package natslog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Check implements [mainstem.Checker]: it reads every record from the stream and
// compares it with the state, and the statistics of spaces with what they count.
func (l *Log) Check(ctx context.Context, report func(mainstem.Problem)) (mainstem.CheckStats, error) {
	if err := l.ready(ctx, "check"); err != nil {
		return mainstem.CheckStats{}, err
	}
	defer l.readers.enter()()
	records, stats := l.audit(report)
	// In the order of the stream, so that each message is read once, together with its neighbours.
	slices.SortFunc(records, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.off, b.off))
	})
	for len(records) > 0 {
		n := chunk(records)
		bodies, err := l.bodies(ctx, records[:n])
		if err != nil && mainstem.KindOf(err) != mainstem.KindCorrupt {
			return stats, l.explain(ctx, "check", "", nil, err)
		}
		for i, r := range records[:n] {
			if err == nil && bodies[i] != nil && bodies[i].Size()+int64(len(r.key.name)) == r.size {
				continue
			}
			if problem, err := l.examine(ctx, r); err != nil {
				return stats, l.explain(ctx, "check", "", nil, err)
			} else if problem != "" {
				report(mainstem.Problem{Where: fmt.Sprintf("space %s, key %.64q, version %d", r.key.space.name, r.key.name, r.version), What: problem})
			}
		}
		records = records[n:]
	}
	return stats, nil
}

// examine says what is wrong with one record, "" if nothing is, or if it has died.
func (l *Log) examine(ctx context.Context, r *record) (problem string, err error) {
	b, err := l.body(ctx, r)
	switch {
	case err == nil && b.Size()+int64(len(r.key.name)) == r.size:
		return "", nil
	case err == nil:
		return fmt.Sprintf("message %d holds %d bytes of it, want %d", r.seq, b.Size()+int64(len(r.key.name)), r.size), nil
	case l.ctx.Err() != nil || ctx.Err() != nil:
		return "", err
	}
	if errors.Is(err, errGone) {
		err = l.moved(ctx, r)
	}
	if err == nil || l.ctx.Err() != nil || ctx.Err() != nil {
		return "", err
	}
	return err.Error(), nil
}

// audit compares the numbers of the state with each other, and returns all records.
func (l *Log) audit(report func(mainstem.Problem)) (records []*record, stats mainstem.CheckStats) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(l.st.spaces)) {
		sp := l.st.spaces[name]
		problem := func(format string, args ...any) {
			report(mainstem.Problem{Where: "space " + name, What: fmt.Sprintf(format, args...)})
		}
		counted := sp.live
		counted.keys, counted.records, counted.bytes = 0, 0, 0
		indexed := 0
		sp.index.ascend("", func(k *key) bool {
			indexed++
			if len(k.recs) > 0 {
				counted.keys++
			}
			for i, r := range k.recs {
				counted.records++
				counted.bytes += r.size
				if r.dead || r.version < k.floor || r.version > k.head || i > 0 && k.recs[i-1].version >= r.version {
					problem("version %d of key %.64q is out of place: floor %d, head %d", r.version, k.name, k.floor, k.head)
				}
			}
			records = append(records, k.recs...)
			return true
		})
		if counted != sp.live {
			problem("it counts %+v, its statistics say %+v", counted, sp.live)
		}
		if indexed != len(sp.keys) {
			problem("%d keys are in the index, %d are known", indexed, len(sp.keys))
		}
		stats.Spaces++
		stats.Keys += counted.keys
		stats.Records += counted.records
		stats.Bytes += counted.bytes
	}
	return records, stats
}
