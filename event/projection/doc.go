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
// one store, each as a subscription with the projection's name. A [Tx] is what one commit reads and writes.
//
// # Guarantees
//
// Exactly once: what the handlers write through the Tx and the checkpoint are one commit, which
// succeeds only if the checkpoint is where this engine left it. Several engines may run one
// projection; when one ends, another goes on.
//
// No lost updates: reading through the Tx sees what it wrote, and the commit depends on what was
// read. If somebody else changed it, the events are handled again.
//
// Control: pause, resume, restart and rebuild are records in the log, and so work on whatever process
// runs the projection. Every commit of a projection depends on its control record: when
// [Engine.Pause] has returned, nothing more is committed. While [Engine.Rebuild] removes what was written, nothing is added.
//
// # What is missing
//
// Projections inside of the commit of their events, partitions, and rebuilding beside the old tables.
//
// # Concurrency
//
// Engines are safe for concurrent use. Handlers of one projection are called one at a time by one
// engine. The goroutines are two for each projection and one for the engine; [Engine.Stop] waits for them.
//
//snippet:type Total struct { Customer string; Cents int }
//snippet:type OrderPlaced struct { Customer string; Cents int }
//snippet:var log mainstem.Log
//snippet:var store *event.Store
//snippet:var types *event.Types
//snippet:var ctx context.Context
package projection
