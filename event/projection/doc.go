// Package projection computes read models from events. Each event takes effect once, also across
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
// A [Projection] has a name, a version and handlers, which are made with [On]. A [Tx] is what one
// commit of a projection reads and writes. A projection is run in one of three ways:
//
//   - Asynchronously by an [Engine], as a subscription of the store with the projection's name and
//     a checkpoint ([Engine.Register]).
//   - Inline by an [InlineStore]: the rows are written in the commit of the events.
//   - Live by an Engine, without a checkpoint, for new events only ([Engine.RegisterLive]). This is
//     not Marten's live aggregation; that is Load of package aggregate.
//
// Engines agree through one record of the log for each projection, its control row.
//
// # Partitions
//
// [Async.Partitions] divides the streams by a hash into n partitions (Axon's segments), each a
// subscription NAME#0 to NAME#n-1. An engine runs a partition while it holds the partition's lease
// in the log, so the engines of several processes share the partitions evenly. The partitions of a
// process that died move to others after [Options.TTL]. The events of one stream stay in order.
//
// # Rebuilding
//
// [Engine.Rebuild] is a blue/green rebuild: it builds version n of the tables, NAME@vn, beside the
// tables that are read (so the code calls it beside), and one commit points the aliases to the new
// tables. This takes tables that are opened with readmodel.OpenAlias and declared with
// [Projection.WithTables]. A rebuild in place removes the old rows first.
//
// # Replays
//
// [Engine.Replay] handles the events up to a moment in the past and writes the rows to other tables,
// beside the projection, which is not changed.
//
// # Guarantees
//
// Exactly once: the writes of the handlers through the Tx and the checkpoint are one commit. It
// succeeds only if the checkpoint is where this engine left it, if the control row has not changed
// and, for a partition, if the engine still has its lease. Several engines may run one projection;
// when one ends, another continues.
//
// No lost updates: a read through the Tx sees earlier writes of the same Tx, and the commit depends
// on what was read. If another writer has changed it, another partition for example, the events are
// handled again.
//
// Control: pause, resume, restart, rebuild and skip are writes to the control row, so they work in
// every process that runs the projection. Every commit of the projection depends on that row: after
// [Engine.Pause] has returned nothing more is committed. A change of partitions or tables takes
// several steps. Any engine may make the next step, in one commit, so after a crash another engine
// continues, or the next one that starts.
//
// A live projection has none of these guarantees.
//
// # Inline projections
//
//	inline, err := projection.OpenInline(ctx, store, types, nil, summary.WithClear(totals.Clear))
//	done, err := inline.Append(ctx, "order-42", event.NoStream, events)
//
// The rows are in the commit of the events, on condition that what the handlers read has not
// changed. An error of a handler fails the append. The metadata of the store lists its inline
// projections; appends by programs with other ones are refused. inlinebuild.go describes how a
// projection of a store with events is switched on.
//
// [InlineStore.Rebuild] is blue/green too, for projections with tables: readers see complete tables
// at all times.
//
// # Limits
//
// [MaxName], [event.MaxPartitions]. Each partition reads the whole feed of the store. [Status]
// counts up to [MaxLag] events.
//
// # Files
//
//	engine.go        engines, their options, waiting
//	projection.go    projections and handlers
//	tx.go            what one commit reads and writes
//	control.go       the control row, and the states of a projection
//	unit.go          a projection of an engine: follows its control row
//	generation.go    what runs while the row stays the same
//	part.go          one subscription
//	share.go         partitions and leases
//	steps.go         the steps of a change of partitions or tables
//	rebuild.go       requests for a rebuild
//	replay.go        replays into other tables
//	parked.go        parked events after a rebuild or a change of partitions
//	old.go           removal of tables that are no longer read
//	faults.go        faults in the log, and skipping
//	live.go          live projections
//	inlinestore.go   inline projections: the store and its appends
//	inlinebuild.go   switching an inline projection on, rebuilding it in place, removing it
//	inlinebeside.go  the blue/green rebuild of an inline projection
//	inlineclaim.go   the claim to a rebuild in place
//	inlinedecide.go  commits and decisions with inline projections
//	inlinestatus.go  the status of inline projections
//	inlinereplay.go  their replays
//	target.go        databases beside the log
//	status.go        the status of projections
//	owner.go         the projection of a checkpoint
//
// # Concurrency
//
// Engines and InlineStores are safe for concurrent use. An engine calls the handlers of one
// subscription one at a time; those of several partitions, and of a rebuild, run at the same time.
// The handlers of an inline projection run in the goroutines of the appends. An engine has a few
// goroutines for itself and for each subscription; [Engine.Stop] waits for them.
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
