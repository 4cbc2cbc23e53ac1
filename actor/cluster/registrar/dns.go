package registrar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// DNS finds nodes in the domain name system. Names of nodes must be what can stand in
// a domain name then. Its fields must not change while it is used.
//
// With a Service, the address of node "a" in Domain "c.example" is what the SRV record
// of _SERVICE._tcp.a.c.example says: of several, one with the lowest priority, by
// weight. Without such a record, or without Service, it is an address of a.c.example,
// from its A or AAAA records, with Port.
type DNS struct {
	// Domain is what the names of all nodes end in. Default: they are complete.
	Domain string
	// Service is what SRV records are looked for by, as in "mainstem". Default: none are.
	Service string
	// Port is that of nodes that have no SRV record. Default 0: those are not found.
	Port uint16
	// Client asks the servers. Default: net.DefaultResolver.
	Client *net.Resolver
}

// Resolve returns the address of a node. SRV records that say that the service is
// not there are NotFound. It asks each time: what DNS says may change.
func (d *DNS) Resolve(ctx context.Context, node string) (string, error) {
	host, err := d.host(node)
	if err != nil {
		return "", err
	}
	if d.Service != "" {
		addr, err := d.service(ctx, node, host)
		if err == nil || !errors.Is(err, mainstem.ErrNotFound) || d.Port == 0 {
			return addr, err
		}
	}
	if d.Port == 0 {
		return "", notFound(node, errors.New("neither Service nor Port of DNS is set"))
	}
	ips, err := d.client().LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", dnsError(ctx, node, err)
	}
	if len(ips) == 0 {
		return "", notFound(node, fmt.Errorf("%s has no address", host))
	}
	return net.JoinHostPort(ips[0].Unmap().String(), strconv.Itoa(int(d.Port))), nil
}

// service returns what the SRV records of a host say.
func (d *DNS) service(ctx context.Context, node, host string) (string, error) {
	_, srvs, err := d.client().LookupSRV(ctx, d.Service, "tcp", host)
	if err != nil && len(srvs) == 0 {
		return "", dnsError(ctx, node, err)
	}
	for _, s := range srvs {
		if target := strings.TrimSuffix(s.Target, "."); target != "" {
			return net.JoinHostPort(target, strconv.Itoa(int(s.Port))), nil
		}
	}
	return "", notFound(node, fmt.Errorf("the SRV records of %s name no target", host))
}

// Peers returns all nodes that the SRV records _SERVICE._tcp.DOMAIN name, by name: the
// first label of each target, as in a headless service of Kubernetes. Two targets with
// the same first label are one node: the later in the order of their names is left out.
func (d *DNS) Peers(ctx context.Context) (Static, error) {
	if d.Service == "" || d.Domain == "" {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "find nodes", "DNS needs Service and Domain for that")
	}
	_, srvs, err := d.client().LookupSRV(ctx, d.Service, "tcp", dot(d.Domain))
	if err != nil && len(srvs) == 0 {
		return nil, dnsError(ctx, d.Domain, err)
	}
	slices.SortFunc(srvs, func(a, b *net.SRV) int { return cmp.Compare(a.Target, b.Target) })
	peers := make(Static)
	for _, s := range srvs {
		target := strings.TrimSuffix(s.Target, ".")
		name, _, _ := strings.Cut(target, ".")
		if _, twice := peers[name]; name != "" && !twice {
			peers[name] = net.JoinHostPort(target, strconv.Itoa(int(s.Port)))
		}
	}
	return peers, nil
}

func (d *DNS) client() *net.Resolver { return cmp.Or(d.Client, net.DefaultResolver) }

// host returns the domain name of a node.
func (d *DNS) host(node string) (string, error) {
	for label := range strings.SplitSeq(node, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInLabel) {
			return "", notFound(node, errors.New("it cannot be part of a domain name"))
		}
	}
	if d.Domain == "" {
		return dot(node), nil
	}
	return dot(node + "." + d.Domain), nil
}

func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// dot makes a name complete, so that no search list is tried.
func dot(name string) string { return strings.TrimSuffix(name, ".") + "." }

func dnsError(ctx context.Context, node string, err error) error {
	var e *net.DNSError
	switch {
	case errors.As(err, &e) && e.IsNotFound:
		return notFound(node, err)
	case ctx.Err() != nil:
		return &mainstem.Error{Kind: mainstem.KindCanceled, Op: fmt.Sprintf("find node %.64q", node), Err: err}
	}
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: fmt.Sprintf("find node %.64q", node), Err: err}
}
