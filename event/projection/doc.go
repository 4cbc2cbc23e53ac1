// Package projection computes read models from events, each event once, and keeps them right through
// crashes, several processes, pauses and rebuilds.
//
//	totals, err := readmodel.Open(log, "shop/totals", &readmodel.Options[Total]{
//		Key: func(t Total) string { return t.Customer },
//	})
//	p, err := projection.New("totals", 1, event.Filter{Category: "order"},
//		projection.On(func(ctx context.Context, tx *projection.Tx, ev OrderPlaced, r event.Recorded) error {
//			return projection.Modify(ctx, tx, totals, ev.Customer, func(t Total, _ bool) (Total, error) {
//				return Total{ev.Customer, t.Cents + ev.Cents}, nil
//			})
//		}))
//	engine, err := projection.Open(store, types, nil)
//	err = engine.Register(p.WithClear(totals.Clear), nil)
//	err = engine.Start(ctx)
//
// # Nouns
//
// A [Projection] has a name, a version and handlers, made with [On]. An [Engine] runs projections of
// one store, each as a subscription with the projection's name. An [InlineStore] appends events together with
// what its projections write. A [Tx] is what one commit reads and writes.
//
// # Partitions
//
// With [Async.Partitions], the streams are divided by a hash into n subscriptions, NAME#0 to NAME#n-1. Each is
// owned through a lease in the log, so the engines of several processes share them evenly, and those of a dead
// one move after [Options.TTL]. The events of one stream stay in order.
//
// # Rebuilding
//
// [Engine.Rebuild] builds version n of the tables, NAME@vn, beside those that are read, and lets the names
// stand for them in one commit. That takes tables opened with readmodel.OpenAlias, and
// [Projection.WithTables]. In place it removes what is there first.
//
// # Guarantees
//
// Exactly once: what the handlers write through the Tx and the checkpoint are one commit, which
// succeeds only if the checkpoint is where this engine left it, the control record is as it knows it, and, of a
// partition, the lease is its own. Several engines may run one projection; when one ends, another goes on.
//
// No lost updates: reading through the Tx sees what it wrote, and the commit depends on what was
// read. If somebody else changed it, another partition too, the events are handled again.
//
// Control: pause, resume, restart, rebuild and skip are records in the log, and so work on whatever process
// runs the projection. Every commit of a projection depends on its control record: when
// [Engine.Pause] has returned, nothing more is committed. A change of partitions or tables is made in steps that
// any engine makes, each one commit: a crash leaves the next step to another engine, or to the next that starts.
//
// A live projection, of [Engine.RegisterLive], has no checkpoint and no such guarantees: it handles what
// comes while it runs.
//
// # Inline projections
//
//	inline, err := projection.OpenInline(ctx, store, types, nil, summary.WithClear(totals.Clear))
//	done, err := inline.Append(ctx, "order-42", event.NoStream, events)
//
// The rows are in the commit of the events, on condition that what the handlers read has not changed; an
// error of a handler fails the append. The store names its inline projections, and refuses appends by programs that have not
// the same ones. inlinebuild.go says how a projection of a store with events is switched on.
//
// [InlineStore.Rebuild] builds tables beside those that are read too: readers see a complete table at all times.
//
// # Limits
//
// [MaxName], [event.MaxPartitions]. Each partition reads the whole feed of the store. [Status] counts up to [MaxLag].
//
// # Files
//
//	engine.go      engines, their options, waiting
//	projection.go  projections and handlers
//	tx.go          what one commit reads and writes
//	control.go     the records that engines agree on
//	unit.go        a projection of an engine: follows its control record
//	generation.go  what runs while the record stays the same
//	part.go        one subscription
//	share.go       partitions and leases
//	steps.go       changes of partitions and tables, step by step
//	rebuild.go     asking for a rebuild
//	old.go         tables that are read no more
//	faults.go      faults in the log, and skipping
//	live.go        live projections
//	inline*.go     inline projections: the store, its claim, switching on, rebuilding beside, status
//	target.go      databases beside the log
//	status.go      how they stand
//	owner.go       whose checkpoint a subscription is
//
// # Concurrency
//
// Engines are safe for concurrent use. Handlers of one projection are called one at a time by one
// engine, of each partition, so those of several partitions, and of a rebuild, run at the same time. The goroutines
// are a handful for each subscription and for the engine; [Engine.Stop] waits for them.
//
//snippet:type Total struct { Customer string; Cents int }
//snippet:type OrderPlaced struct { Customer string; Cents int }
//snippet:var log mainstem.Log
//snippet:var store *event.Store
//snippet:var types *event.Types
//snippet:var ctx context.Context
//snippet:var events []event.Event
//snippet:var summary *projection.Projection
//snippet:var totals *readmodel.Table[Total]
package projection
