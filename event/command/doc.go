// Package command is a command bus that makes each command one commit. The events that a command
// raises, the other writes of its handler, its idempotency record and its row in the audit trail
// are all written together, or none of them is.
//
//	orders, err := aggregate.Open(store, types, "order", newOrder, nil)
//	bus, err := command.Open(log, "shop", nil,
//		command.Recovery(), command.Validation(), command.Retry(command.RetryOptions{}),
//		command.Idempotency(command.IdempotencyOptions{}))
//	err = command.HandleAggregate(bus, orders, func(ctx context.Context, o *Order, cmd PlaceOrder) error {
//		stock.PutTo(command.Batch(ctx), cmd.Item, cmd.Left)
//		return o.Place(cmd.Item)
//	})
//
//	result, err := bus.Dispatch(ctx, PlaceOrder{OrderID: "42", Item: "book", Left: 7})
//
// # Nouns
//
// A [Command] names its type; it may validate itself and embed [Base]. A [Bus] passes a command
// through its [Middleware] (interceptors, in Axon) to the one handler of its type; [Handle] and
// [HandleAggregate] register handlers. A [Hook] of a middleware runs between the handler and the
// commit. A [Result] describes the outcome.
//
// # Guarantees
//
// Atomicity: a handler writes into [Batch], the unit of work of its command. The batch is committed
// after the handler and all hooks have returned without an error; if one of them fails nothing is
// written. If the outcome of the commit is unknown, the same batch is committed again until the
// outcome is known or the context ends.
//
// Other effects of a handler are not part of the commit, for example a Put(ctx, …) of a bucket or a
// call of another service. They remain when the command fails, and are repeated when [Retry] tries
// the command again.
//
// A command that a handler dispatches is a commit of its own, unless it is joined; see [Join].
//
// A command whose commit is a conflict fails with Conflict, unless [Retry] handles it again.
//
// # Concurrency
//
// A Bus, an [AuditLog] and a [Pending] are safe for concurrent use. The bus starts goroutines only
// in [Bus.DispatchAsync]; [Bus.Close] waits for them.
//
// The packages commandprom and commandotel below this one provide metrics and traces.
//
//snippet:type PlaceOrder struct { command.Base; OrderID, Item string; Left int }
//snippet:func (PlaceOrder) CommandType() string { return "" }
//snippet:func (PlaceOrder) AggregateID() string { return "" }
//snippet:type Order struct { aggregate.Root }
//snippet:func (*Order) Apply(any) error { return nil }
//snippet:func (*Order) Place(string) error { return nil }
//snippet:func newOrder(string) *Order { return new(Order) }
//snippet:var store *event.Store
//snippet:var types *event.Types
//snippet:var log mainstem.Log
//snippet:var stock *kv.Bucket[int]
package command
