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

// DNS finds nodes in the domain name system. The names of nodes must then be valid in a domain
// name. Its fields must not change while it is used. Its methods may be called by many goroutines.
//
// With a Service, the address of node "a" in Domain "c.example" is the target and port of the SRV
// record (RFC 2782) of _SERVICE._tcp.a.c.example: of several, one of the lowest priority, chosen at
// random by weight. Without such a record, or without Service, it is the first address of
// a.c.example, from its A or AAAA records, with Port.
type DNS struct {
	// Domain is appended to the names of nodes. Default: they are complete domain names.
	Domain string
	// Service is the service of SRV records, without the underscore. Default: SRV records are not
	// looked up.
	Service string
	// Port is the port of nodes without an SRV record. Default 0: those are not found.
	Port uint16
	// Client does the lookups. Default: net.DefaultResolver.
	Client *net.Resolver
}

// Resolve returns the address of a node. It looks it up each time. It fails with NotFound if there is
// no record, if the target of SRV records is ".", or if the name cannot be part of a domain name;
// with Canceled if ctx ends, and with Unavailable if servers do not answer.
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

// service returns the address of the first SRV record of a host, in the order of net.LookupSRV.
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

// Peers returns the targets of the SRV records of _SERVICE._tcp.DOMAIN. The name of a node is the
// first label of its target, as in a headless service of Kubernetes. Of two targets with the same
// first label it returns the first in the order of their names. It fails with Invalid without
// Service or Domain, and otherwise as Resolve does.
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

// host returns the domain name of a node, with a final dot.
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

// dot ends a name with a dot, so that the search list of the system is not used.
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
