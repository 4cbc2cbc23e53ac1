package registrar

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Resolver returns the address of a node by name. It fails with NotFound for a name that it does not
// have. Many goroutines may call it.
type Resolver interface {
	Resolve(ctx context.Context, node string) (addr string, err error)
}

// Static is a list of addresses "host:port" by name. Do not change it while it is used.
type Static map[string]string

// Resolve returns the address of a node.
func (s Static) Resolve(_ context.Context, node string) (string, error) {
	if addr, ok := s[node]; ok {
		return addr, nil
	}
	return "", notFound(node, errors.New("it is not in the list"))
}

// First returns a resolver that calls each of rs in turn until one returns an address. If none
// does, it fails with the first error that is not NotFound, since that resolver may have the name,
// or else with NotFound. If some of rs announce nodes, as [Log] does, the result announces them by
// the first of these.
func First(rs ...Resolver) Resolver {
	f := first(append([]Resolver(nil), rs...))
	for _, r := range f {
		if a, ok := r.(announcer); ok {
			return announcing{f, a}
		}
	}
	return f
}

type first []Resolver

func (f first) Resolve(ctx context.Context, node string) (string, error) {
	var uncertain error
	for _, r := range f {
		addr, err := r.Resolve(ctx, node)
		if err == nil {
			return addr, nil
		}
		if uncertain == nil && !errors.Is(err, mainstem.ErrNotFound) {
			uncertain = err
		}
	}
	if uncertain != nil {
		return "", uncertain
	}
	return "", notFound(node, errors.New("nobody knows it"))
}

// announcer is cluster.Announcer without Resolve; [Log] implements it.
type announcer interface {
	Announce(ctx context.Context, node string, start uint64, addr string) error
	Withdraw(ctx context.Context, node string, start uint64) error
}

type announcing struct {
	first
	announcer
}

func notFound(node string, cause error) error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: fmt.Sprintf("find node %.64q", node), Err: cause}
}
