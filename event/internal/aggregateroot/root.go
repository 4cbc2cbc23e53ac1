// Package aggregateroot gives package eventtest the root of an aggregate. A method of the aggregate
// with the name of one of the root's hides that one.
//
//	events := aggregateroot.Of(order).Uncommitted()
//
//snippet:var order any // an aggregate.Aggregate
package aggregateroot

import "github.com/mainstemdev/mainstem"

// Root is what eventtest uses of an aggregate.Root.
type Root interface {
	Uncommitted() []any
	Clear(v mainstem.Version)
}

// Of returns the root of a, an aggregate.Aggregate. Package aggregate sets it.
var Of func(a any) Root
