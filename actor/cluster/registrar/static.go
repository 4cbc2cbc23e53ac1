package registrar

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Resolver turns the name of a node into its address. It fails with NotFound for a name
// it does not know.
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

// First returns a resolver that asks each of rs in turn until one knows the name. If none
// does, it fails with NotFound, or with the first error of another kind: then it is
// not certain that nobody knows. If one of them announces nodes, so does First.
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

// announcer is what [Log] is besides a resolver.
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
