package actor

import "context"

// Propagator is a [Tracer] whose traces go on at other nodes.
type Propagator interface {
	Tracer
	// Inject returns the bytes of what Sent returned, nil for nothing; life ends when the
	// node has stopped.
	Inject(life context.Context, carried any) []byte
	// Extract is the inverse of Inject. The bytes come from another node: what it cannot
	// read is nothing.
	Extract(life context.Context, data []byte) (carried any)
}

// inject returns what rides on a message that leaves the node.
func (n *Node) inject(ctx context.Context, to AnyRef) (data []byte) {
	if p, ok := n.tracer.(Propagator); ok {
		n.harmless(func() {
			if carried := n.tracer.Sent(ctx, to); carried != nil {
				data = p.Inject(lifetime{n}, carried)
			}
		})
	}
	return data
}

// extract returns what rides on a message that has come.
func (n *Node) extract(data []byte) (carried any) {
	if p, ok := n.tracer.(Propagator); ok && len(data) > 0 {
		n.harmless(func() { carried = p.Extract(lifetime{n}, data) })
	}
	return carried
}
