package actor

import "context"

// Propagator is a [Tracer] that carries traces to other nodes, too.
type Propagator interface {
	Tracer
	// Inject encodes the value of Sent, nil for none. life ends when the node has stopped.
	Inject(life context.Context, carried any) []byte
	// Extract decodes the bytes of Inject and returns the value for Received. The bytes come from
	// another node and are not to be trusted: for those that it cannot read it returns nil.
	Extract(life context.Context, data []byte) (carried any)
}

// inject returns the encoded trace of a message that leaves the node, nil if there is none.
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

// extract decodes the trace of a message that has come from another node, nil if there is none.
func (n *Node) extract(data []byte) (carried any) {
	if p, ok := n.tracer.(Propagator); ok && len(data) > 0 {
		n.harmless(func() { carried = p.Extract(lifetime{n}, data) })
	}
	return carried
}
