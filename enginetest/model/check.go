package model

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Check reports each key whose records break the invariants of the model, and
// each record that the order of the log does not know.
func (l *Log) Check(ctx context.Context, report func(mainstem.Problem)) (mainstem.CheckStats, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "check"); err != nil {
		return mainstem.CheckStats{}, err
	}
	var st mainstem.CheckStats
	ordered := map[mainstem.Position]bool{}
	for _, e := range l.mu.order {
		if r := l.mu.held(e); r != nil && r.Position == e.position {
			ordered[e.position] = true
		}
	}
	for _, sp := range l.mu.spaces {
		in := sp.info()
		st.Spaces++
		st.Keys += in.Keys
		st.Records += in.Records
		st.Bytes += in.Bytes
		for name, k := range sp.keys {
			for _, what := range k.problems(ordered) {
				report(mainstem.Problem{Where: fmt.Sprintf("space %s, key %q", sp.name, name), What: what})
			}
		}
	}
	return st, nil
}

func (k *key) problems(ordered map[mainstem.Position]bool) []string {
	var out []string
	var version mainstem.Version
	var position mainstem.Position
	for i := range k.records {
		r := &k.records[i]
		if r.First() <= version || r.Count == 0 {
			out = append(out, fmt.Sprintf("version %d to %d follows version %d", r.First(), r.Version, version))
		}
		if r.Position <= position {
			out = append(out, fmt.Sprintf("version %d has position %d after position %d", r.Version, r.Position, position))
		}
		if !ordered[r.Position] {
			out = append(out, fmt.Sprintf("version %d at position %d is missing in the order of the log", r.Version, r.Position))
		}
		version, position = r.Version, r.Position
	}
	if version > k.head {
		out = append(out, fmt.Sprintf("version %d is above the key's newest version %d", version, k.head))
	}
	return out
}
