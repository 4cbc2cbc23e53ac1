// Package command is a command bus on which a command is one commit: the events that it raises,
// the messages that it publishes, whatever else its handler writes, the record that keeps it from
// being carried out twice, and its row in the audit trail become true together, or none of them.
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
// A [Command] names its type and validates itself; it may embed [Base]. A [Bus] takes it through
// its [Middleware] to the one handler of its type; [Handle] and [HandleAggregate] register them.
// A [Result] says what it led to.
//
// # Guarantees
//
// The handler writes into [Batch]. After it has returned without an error, and the hooks of
// the middleware with it, the batch is committed; if any of them fails, nothing is written. If the
// outcome of the commit is unknown, the same commit is repeated until it is known or the
// context ends.
//
// What a handler does elsewhere is not part of the commit: a Put(ctx, …) of a bucket, a call of
// another service. It stays when the command fails, and happens again when the command is
// tried again.
//
// A command that a handler dispatches is a commit of its own, unless it is joined; see [Join].
//
// # Concurrency
//
// A Bus, an [AuditLog] and a [Pending] are safe for concurrent use. The goroutines are those
// of [Bus.DispatchAsync]; [Bus.Close] waits for them.
//
// Packages commandprom and commandotel, below this one, measure and trace commands.
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
