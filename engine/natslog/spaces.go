package natslog

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// CreateSpace implements [mainstem.SpaceManager].
func (l *Log) CreateSpace(ctx context.Context, name string, p mainstem.Policy) error {
	if err := mainstem.ValidateSpaceName(name); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	return l.do(ctx, "create space", len(name), func(t *tx) (bool, error) {
		if t.space(name) != nil {
			return false, &mainstem.Error{Kind: mainstem.KindExists, Op: "create space", Space: name}
		}
		t.create(name, p)
		return false, nil
	})
}

// AlterSpace implements [mainstem.SpaceManager]. A smaller History holds for each
// key when it is next written.
func (l *Log) AlterSpace(ctx context.Context, name string, p mainstem.Policy) error {
	return l.do(ctx, "alter space", len(name), func(t *tx) (bool, error) {
		sp := t.space(name)
		if sp == nil {
			return false, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "alter space", Space: name}
		}
		if err := sp.policy.CanAlter(p); err != nil {
			return false, err
		}
		t.change(sp)
		sp.policy = clonePolicy(p)
		t.state(sp)
		return false, nil
	})
}

// DropSpace implements [mainstem.SpaceManager].
func (l *Log) DropSpace(ctx context.Context, name string) error {
	err := l.do(ctx, "drop space", len(name), func(t *tx) (bool, error) {
		sp := t.space(name)
		if sp == nil {
			return false, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "drop space", Space: name}
		}
		t.drop(sp)
		return false, nil
	})
	return err
}

// Space implements [mainstem.SpaceManager].
func (l *Log) Space(ctx context.Context, name string) (mainstem.SpaceInfo, error) {
	if err := l.ready(ctx, "space"); err != nil {
		return mainstem.SpaceInfo{}, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	sp, err := l.spaceLocked("space", name)
	if err != nil {
		return mainstem.SpaceInfo{}, err
	}
	return sp.info(), nil
}

// Spaces implements [mainstem.SpaceManager].
func (l *Log) Spaces(ctx context.Context, prefix string) iter.Seq2[mainstem.SpaceInfo, error] {
	return func(yield func(mainstem.SpaceInfo, error) bool) {
		if err := l.ready(ctx, "spaces"); err != nil {
			yield(mainstem.SpaceInfo{}, err)
			return
		}
		for _, in := range l.list(prefix) {
			if !yield(in, nil) {
				return
			}
		}
	}
}

func (l *Log) list(prefix string) []mainstem.SpaceInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var out []mainstem.SpaceInfo
	for _, name := range slices.Sorted(maps.Keys(l.st.spaces)) {
		if strings.HasPrefix(name, prefix) {
			out = append(out, l.st.spaces[name].info())
		}
	}
	return out
}
