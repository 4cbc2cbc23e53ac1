package model

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// CreateSpace creates a space.
func (l *Log) CreateSpace(ctx context.Context, name string, p mainstem.Policy) error {
	if err := mainstem.ValidateSpaceName(name); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	return l.change(ctx, "create space", func() error {
		if l.mu.spaces[name] != nil {
			return &mainstem.Error{Kind: mainstem.KindExists, Op: "create space", Space: name}
		}
		t := l.beginLocked(nil)
		t.create(name, p)
		return nil
	})
}

// AlterSpace gives a space a new policy, which takes hold at once.
func (l *Log) AlterSpace(ctx context.Context, name string, p mainstem.Policy) error {
	return l.change(ctx, "alter space", func() error {
		sp := l.mu.spaces[name]
		if sp == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "alter space", Space: name}
		}
		if err := sp.policy.CanAlter(p); err != nil {
			return err
		}
		sp.policy = clonePolicy(p)
		for _, k := range sp.keys {
			k.trim(p.History)
		}
		return nil
	})
}

// DropSpace removes a space and all its records.
func (l *Log) DropSpace(ctx context.Context, name string) error {
	return l.change(ctx, "drop space", func() error {
		if l.mu.spaces[name] == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "drop space", Space: name}
		}
		delete(l.mu.spaces, name)
		return nil
	})
}

// change runs f under the lock and wakes followers if it did something.
func (l *Log) change(ctx context.Context, op string, f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, op); err != nil {
		return notWritten(err)
	}
	if err := f(); err != nil {
		return notWritten(err)
	}
	l.wakeLocked()
	return nil
}

// Space describes one space; its numbers are counted anew for each call.
func (l *Log) Space(ctx context.Context, name string) (mainstem.SpaceInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "space"); err != nil {
		return mainstem.SpaceInfo{}, err
	}
	sp := l.mu.spaces[name]
	if sp == nil {
		return mainstem.SpaceInfo{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "space", Space: name}
	}
	return sp.info(), nil
}

// Spaces yields the spaces whose names start with prefix, by name.
func (l *Log) Spaces(ctx context.Context, prefix string) iter.Seq2[mainstem.SpaceInfo, error] {
	return func(yield func(mainstem.SpaceInfo, error) bool) {
		infos, err := l.list(ctx, prefix)
		for _, in := range infos {
			if !yield(in, nil) {
				return
			}
		}
		if err != nil {
			yield(mainstem.SpaceInfo{}, err)
		}
	}
}

func (l *Log) list(ctx context.Context, prefix string) ([]mainstem.SpaceInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "spaces"); err != nil {
		return nil, err
	}
	var out []mainstem.SpaceInfo
	for _, name := range slices.Sorted(maps.Keys(l.mu.spaces)) {
		if strings.HasPrefix(name, prefix) {
			out = append(out, l.mu.spaces[name].info())
		}
	}
	return out, nil
}
