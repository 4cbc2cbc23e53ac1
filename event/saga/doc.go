// Package saga runs sagas: processes that span many aggregates and take minutes or weeks, such as
// the fulfilment of an order. A saga reacts to events with commands, waits with timeouts, and
// compensates the steps that were done when a later step is refused.
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
// A [Saga] is the definition of one type of sagas: its name, the type of its state, and handlers.
// An [Instance] is one saga of a type, with a key, the correlation. Its ID is the name of the type,
// a hyphen and the key. An [Engine] runs types of sagas on the events of a store and the commands
// of a bus. [Records] are the instances as stored; programs that run none of them can read and
// retry them.
//
// # A step
//
// One call of a handler is a step. The handler gets a [Context]. Everything that it does there is
// one commit: the state, the checkpoint of the subscription (for an event), the removal of the
// timeout (for a timeout), the commands, the new timeouts, and an entry of the history of the saga.
// If the handler returns an error, nothing is written, and the event is tried again until it is
// poison; see [Follow].
//
// An event of a type that starts sagas starts one, unless a saga with its key exists. Other events
// whose key has no saga are skipped and counted as early. This loses nothing if sagas and their
// events share a store: the events that a saga causes come after the one that starts it. An event
// for a saga that is neither started nor running is counted in its row, and changes nothing else.
//
// # Commands
//
// The commands of a step wait in the table saga.inbox (in the terms of NServiceBus, the outbox of
// the saga) and are carried out after the commit. The commands of one saga are carried out one at a
// time, in the order in which they were sent. The commit of a command's handler also removes its
// row, on condition that the row exists. So a command takes effect once, however long it has waited
// and however often engines were killed. Records of command IDs expire (see [command.Idempotency]);
// this condition does not. The handler of a command may be called several times. Sagas of several
// stores may use one bus: equal IDs that they give their commands are kept apart, see
// [command.WithScope].
//
// Errors of kind Unavailable or Closed, unknown outcomes and missing handlers are tried again
// without end. Conflicts, deadlines and panics are tried [Options.Attempts] times. Every other
// error, and the last of these, is a refusal: it fails the saga.
//
// # Failure
//
// A saga fails when a command is refused, or by [Context.Fail]. One commit withdraws the commands
// that are not carried out yet, cancels the timeouts, and sends the compensations, the last one
// first. Each compensation is carried out before the next one. One that is refused does not prevent
// the others. The saga is then [Compensated] if all were carried out, else [CompensationFailed];
// without any compensation it is [Failed] at once. Call [Context.Compensate] in the handler of the
// event that reports the step to undo, not when the command for that step is sent. [Records.Retry]
// continues a saga that has failed.
//
// # Timeouts
//
// A timeout (in the terms of Axon, a deadline) is a row with the time when it is due. The commit of
// its handler removes the row, so it takes effect once. A timeout that was due while no engine ran
// is handled when one starts. All events that are in the store when a timeout is due are handled
// before it, so an event that stops the subscription as poison stops the timeouts of the type too.
// Times are those of the process's clock.
//
// # Pausing
//
// [Records.Pause] stops a type in all processes, by a record in the log that every commit of an
// engine depends on. Timeouts go on counting. [Records.Resume] continues the type.
//
// # Removal
//
// Sagas that have ended stay until [Records.Remove] or [Records.Prune] removes them, or an engine
// does; see [Follow.Keep]. A start event with the key of a removed saga starts a new saga, whose
// commands have other IDs.
//
// # Guarantees
//
// State, checkpoint, commands, timeouts and history agree after any crash, at the durability of
// [Follow]. Stopping and starting loses nothing. Several engines may run one type; when one ends,
// the others continue its work.
//
// # Concurrency
//
// Engines and Records may be used by many goroutines; a Context belongs to its handler. Handlers of
// one saga may run at the same time, in one engine or in several, for an event, a timeout and a
// retry. The commit of a step depends on the revision of the saga's row, so one of them succeeds,
// and the others are called again with the new state.
//
// An engine has about ten goroutines for each type, including those of its subscription and
// watches, and one for each command under way. [Engine.Stop] waits for them.
//
// # Limits
//
// [MaxName], [MaxKey]. The state and the compensations of a saga are one value of the log. The
// timeouts of a type are handled one after the other. [MaxCount] bounds the numbers of an
// [Overview].
//
// # Files
//
//	saga.go, context.go           the definition of a type, and the context of its handlers
//	instance.go, status.go        the effect of a step, a failure and a retry on one saga
//	message.go                    commands in the inbox
//	work.go, records.go           one commit; the tables, reading and retrying
//	history.go                    the stream of a saga
//	engine.go, follow.go          the engine; events
//	serve.go, deliver.go, rest.go commands and their retries
//	expire.go                     timeouts
//	control.go                    pausing
//	remove.go, retain.go          removal, by callers and by engines
//	overview.go                   numbers of a type, for operators
//	simulate.go                   sagas without a log, for tests
//
// # Testing
//
// [Simulate], and eventtest.Saga which uses it, run sagas without a log in virtual time.
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
