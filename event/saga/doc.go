// Package saga runs processes that span many aggregates and take minutes or weeks, such as the
// fulfilment of an order: it reacts to events with commands, waits with timeouts, and undoes what was
// done when a step is refused.
//
//	fulfilment, err := saga.New[State]("fulfilment",
//		saga.StartOn(saga.StreamKey[OrderPlaced], func(c *saga.Context[State], ev OrderPlaced) error {
//			c.State.Cents = ev.Cents
//			c.Dispatch(Charge{Order: c.Key(), Cents: ev.Cents})
//			c.Timeout("payment", 15*time.Minute)
//			return nil
//		}),
//		saga.On(saga.StreamKey[OrderPaid], func(c *saga.Context[State], _ OrderPaid) error {
//			c.CancelTimeout("payment")
//			c.Compensate(Refund{Order: c.Key(), Cents: c.State.Cents})
//			c.Dispatch(Ship{Order: c.Key()})
//			return nil
//		}),
//		saga.On(saga.StreamKey[OrderShipped], func(c *saga.Context[State], _ OrderShipped) error {
//			c.Complete()
//			return nil
//		}),
//		saga.OnTimeout("payment", func(c *saga.Context[State]) error {
//			c.Fail(errors.New("not paid in time"))
//			return nil
//		}),
//		saga.Sends[Charge](), saga.Sends[Refund](), saga.Sends[Ship]())
//
//	sagas, err := saga.Open(store, types, bus, nil)
//	err = sagas.Register(fulfilment, nil)
//	err = sagas.Start(ctx)
//
// # Nouns
//
// A [Saga] is a type of sagas: its name, the type of its state, and handlers. An [Instance] is one of
// them, with a key, the correlation. Its ID is the name of the type, a hyphen and the key, so sagas of two
// types never mix. An [Engine] runs types of sagas on the events of a store and the commands of a bus. [Records]
// are the instances as they are kept; a program that runs none of them can read and retry them.
//
// # A step
//
// A handler is called with a [Context]. All that it does there is one commit: the state, the cursor that says
// that the event is handled, the commands, which are rows of an inbox, the timeouts, and an entry of the
// saga's history. An error writes nothing, and the event is tried again; see [Follow] for what becomes of one that
// is poison.
//
// Events of a type that starts a saga start one for each key. Events for a key that has no saga yet are
// passed over and counted as early: in one store the events that a saga causes come after the one that
// starts it. Events for a saga that is not under way any more are counted in its row, and change nothing else; nor
// does a second start event with its key.
//
// # Commands
//
// Commands are carried out after the commit by the engines, those of one saga in the order in which
// they were sent. One removes its row of the inbox in the commit of what it leads to, on condition that the row is
// there. So it takes effect once, however long it has waited and whatever was ended meanwhile, without a
// record of idempotency that ends some day. Handlers may be called several times, as always.
//
// Errors of kind Unavailable, unknown outcomes and missing handlers are tried again without end, conflicts, deadlines
// and panics [Options.Attempts] times. Every other error is a refusal: it fails the saga.
//
// # Failure
//
// A saga fails when a command is refused, or by [Context.Fail]. One commit then withdraws the commands that
// are not carried out, cancels the timeouts, and sends the compensations, the last one first. Each is carried
// out before the next; one that is refused does not keep the others from it. The saga is Compensated when all were
// carried out, else CompensationFailed, and Failed where there were none. Push a compensation when what it
// undoes has happened: in the handler of the event that says so. [Records.Retry] takes a saga up again.
//
// # Timeouts
//
// A timeout is a row with the time when it is due. Its handler is called in the commit that removes it,
// so once; one that is overdue when an engine starts is handled at once. The events that were in the store then are
// handled before it. Times are those of the process's clock.
//
// # Pausing
//
// [Records.Pause] stops a type, in whatever processes it runs, by a record in the log: no commit for it succeeds any more.
// Timeouts go on counting. [Records.Resume] lets it go on.
//
// # Removal
//
// Sagas that have ended stay until [Records.Remove] or [Records.Prune] removes them, or an engine does; see [Follow.Keep]. A start
// event with the key of one that was removed starts a new saga, with other command IDs.
//
// # Guarantees
//
// State, cursor, commands, timeouts and history agree after any crash, at the durability of [Follow]. Stopping
// and starting loses nothing. Several engines may run one type; when one ends, another goes on.
//
// # Concurrency
//
// Engines and Records are safe for concurrent use; a Context belongs to its handler. Handlers of one saga are
// never called at the same time by one engine for the same commit, and of two engines' commits one succeeds.
// The goroutines of an engine are nine for each type, with those of its subscription and watches, and one for each command
// under way; [Engine.Stop] waits for them.
//
// # Limits
//
// [MaxName], [MaxKey]. The state, with the compensations, is one value of the log. [MaxCount] bounds what an
// [Overview] counts.
//
//	saga.go, context.go           the definition of a type, and what its handlers see
//	instance.go, status.go        what a step, a failure and a retry do with a saga
//	message.go                    commands in the inbox
//	work.go, records.go           one commit; reading and retrying
//	history.go                    the stream of a saga
//	engine.go, follow.go          the engine; events
//	serve.go, deliver.go, rest.go commands and their retries
//	expire.go                     timeouts
//	control.go                    pausing
//	remove.go, retain.go          removal
//	overview.go                   how types stand
//	simulate.go                   a saga without a log, for tests
//
// # Testing
//
// [Simulate], and on top of it eventtest.Saga, run a saga without a log in virtual time.
//
//snippet:import "errors"
//snippet:type State struct{ Cents int }
//snippet:type OrderPlaced struct{ Cents int }
//snippet:type OrderPaid struct{}
//snippet:type OrderShipped struct{}
//snippet:type Charge struct { Order string; Cents int }
//snippet:func (Charge) CommandType() string { return "" }
//snippet:type Refund struct { Order string; Cents int }
//snippet:func (Refund) CommandType() string { return "" }
//snippet:type Ship struct { Order string }
//snippet:func (Ship) CommandType() string { return "" }
//snippet:var store *event.Store
//snippet:var types *event.Types
//snippet:var bus *command.Bus
//snippet:var ctx context.Context
package saga
