// Package event is an event store: streams of events in a log, with optimistic
// concurrency, idempotent appends, feeds, subscriptions that take effect exactly
// once, and snapshots.
//
// # Nouns
//
// A [Store] holds streams. A stream is named "category-id" (see [StreamID]) and
// holds events, which have versions 1, 2, 3 and so on. An [Event] has an ID, a type,
// data and [Metadata]; a [Recorded] event also has its version and its position in
// the order of the whole log. A subscription is a named reader of the store's feed
// with a [Checkpoint].
//
//	orders, err := event.Open(log, "orders", nil)
//
//	b := mainstem.NewBatch()
//	users.PutTo(b, "7", user) // any other view of the same log
//	orders.AppendTo(b, "order-42", event.AtVersion(3), evs)
//	receipt, err := log.Commit(ctx, b)
//
// Every write has two forms. Append(ctx, …) writes at once. AppendTo(b, …) writes when the
// batch is committed, together with all else in it, across stores, views and streams;
// [Store.UnarchiveTo] reads first, and takes a context too. [Store.ExpectTo] is a
// condition alone.
//
// # Guarantees
//
// Order: the events of a stream are in the order of their versions, the events of
// the store in the order of their positions; both are the order of commits. A feed or
// subscription never skips: once a position was seen, nothing new appears below it.
//
// Expectations: an append names the version that it expects of its stream, or
// [NoStream], [StreamExists] or [AnyVersion]. If that does not hold at its place in the
// order, nothing of the batch is written, and the error is a [*ConflictError], for
// StreamExists NotFound. A condition on a query ([Store.FailIf]) holds if no event that the
// query selects stands after a position, in whatever stream; otherwise nothing is written, and
// the error is a [*ConditionError].
//
// Durability: when a write returns, it is as durable as it asked: the batch by
// its Durability, a write at once by [Options.Durability], subscriptions by
// [SubscribeOptions].
//
// Idempotence: see [Store.Append].
//
// Exactly once: what a subscription's handler writes into its batch and the
// checkpoint are one commit, which succeeds only if the checkpoint is where this
// instance left it. Crashes, failures of the handler and second instances repeat
// calls of the handler, never its effects.
//
// Exactness: data comes back byte for byte, nil and empty distinct.
//
// # Tags and queries
//
// An event may have tags, such as "course:c1". A [Query] selects events by type and tag, of
// all streams. A store may have an index ([Store.CreateIndex], [OpenIndexed]): then
// [Store.Query] reads only what it yields, and [Store.Decide] reads, decides and appends on
// condition that nothing came between:
//
//	receipt, err := orders.Decide(ctx, event.Tagged("course:c1"), func(past []event.Recorded) ([]event.Append, error) {
//		return []event.Append{{Stream: "course-c1", Events: evs}}, nil
//	})
//
// The index is written in the batch of each event. A handle that does not know of the index
// as it is writes nothing: its commit is refused with a [*StaleIndexError], and it knows from
// then on. Raw writes to the space, and programs from before there were indexes, write past
// it; [Store.Retag] then builds it anew.
//
// # The ends of a stream
//
//	Truncate   the oldest events go
//	Archive    read-only, and out of lists and feeds; Unarchive undoes it
//	Delete     all events go, a tombstone stays; the stream may begin again
//	Tombstone  all events go; the stream never begins again
//	Forget     everything goes without a trace; the stream may begin again
//
// Versions never repeat, whatever happens.
//
// # How it works
//
// A store is a space, a stream a key of it, an event a record. Metadata are headers.
// Checkpoints, snapshots and parked events are records of spaces beside it, so that they
// can be written in the batch of a handler.
//
//	store.go, stream.go, event.go, id.go     Open, names of streams, events, event IDs
//	append.go, expected.go, retry.go         appends, their conditions, and repeated appends
//	encode.go, decode.go, collect.go         events to records and back
//	load.go, feed.go, list.go, info.go       reading one stream, all events, lists of streams
//	seal.go, settings.go, now.go             archive, delete and tombstone; limits of streams
//	subscribe.go, run.go, advance.go         subscriptions: options, the loop, the checkpoint's commit
//	checkpoint.go, parked.go                 stored checkpoints and parked events
//	inline.go                                what package projection writes in the commits of events
//	state.go, snapshot.go                    state that is folded from a stream, and its snapshots
//	tags.go, query.go, indexscan.go          tags, queries, and events by their positions
//	condition.go, decide.go                  conditions on queries, and decisions
//	tagindex.go, indexkey.go                 the index: what is stored, and how a key is read
//	indexbuild.go, indexsweep.go             making an index, and removing what is gone
//
// # Concurrency and ownership
//
// A Store and a Subscription are safe for concurrent use; a batch belongs to one
// goroutine. The store keeps no state of its own: everything is in the log; a handle remembers
// which index it read last. The only
// goroutines are those of subscriptions, one each. Appending borrows the Data of
// events until Commit returns. Load, Page and LoadState return memory that belongs to
// the caller; Events and Feed lend the Data of an event until the loop body returns.
//
// # Limits
//
// [MaxStream], [MaxType], [MaxCustom], [MaxTags], [MaxTag], [MaxSubscription], and
// [Options.MaxEventBytes]; with an index [IndexOptions.MaxTags] of an event;
// header names and sizes, values and batches as in package mainstem. A feed with a
// category reads what the engine reads for a key prefix; one with types reads all
// events of the category, or, in a store with an index, those of the types. Time in events is that of the engine's clock.
//
// # Testing
//
// Use a store on enginetest/model or on engine/pebblelog in memory. The tests of this
// package run on every engine, against a model by random programs, and through
// injected faults and power cuts; its benchmarks report the time relative to the bare
// log.
//
//snippet:type User struct{ Name string }
//snippet:var users *kv.Bucket[User]
//snippet:var user User
//snippet:var evs []event.Event
//snippet:var orders *event.Store
package event
