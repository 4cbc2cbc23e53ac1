// Package budget divides a number of bytes of memory among those who need it.
//
// # Words
//
// A [Budget] is a number of bytes, its limit. [Budget.Child] makes a budget whose
// bytes are also its parent's: what a child hands out counts against its own limit and
// against that of every ancestor, so the children of one process share what the process
// may take, and none takes all of it. A [Hold] is what one request, stream or batch has
// taken. A nil *Budget has no limit and counts nothing.
//
//	process := budget.New("process", 1<<30)
//	answers := process.Child("answers", 256<<20)
//
//	h := answers.Hold()
//	defer h.Release()
//	if err := h.Acquire(ctx, int64(len(value))); err != nil {
//		return err // ctx ended first: an *ExhaustedError
//	}
//
// # Order
//
// Holds that have nothing yet are served in the order in which they asked, across all
// budgets of a tree: the first that does not fit stops the ones behind it that need the
// same bytes, so many small requests do not starve a large one. A hold that has bytes
// and asks for more goes before all that have none, because it will give back what it has.
//
// # Invariants
//
// Used bytes of a budget are at most its limit, with two exceptions that keep the system
// live. They are bounded: one hold each in each budget.
//
//   - A budget of which nothing is used serves the first hold that asks, however much it
//     asks for and however full its ancestors are. So a request that is larger than the
//     limit waits until it is alone and then gets the whole, and no budget is shut out by
//     its siblings.
//   - One hold at a time that has bytes already may go beyond the limit. So holds that
//     each have a part of what they need do not wait for each other without end.
//
// # Who may wait
//
// The budgets of a tree have an order, on which their users agree; docs/memory.md has that
// of the server. A goroutine that holds bytes of a budget may wait for more of the same
// hold, by the second exception, and for a budget that is later in the order. It must not
// wait for an earlier one, nor for another hold of the same one. Then the holders of the
// last budget always go on, give their bytes back, and so does, in turn, everyone: no cycle
// is possible. Where that cannot be kept, use [Hold.Try] or [Hold.AcquireNow] and do
// without, or release first and acquire again.
//
// # Recall
//
// A holder of the last budget may wait for a client that does not read. While nobody needs
// its bytes, that does no harm. When a hold has waited for [Patience], the budget recalls
// one hold after another of those whose holders allow it ([Hold.OnRecall]), the one without
// progress for longest first. [Hold.AcquireNow] does so at once, for holders that cannot wait.
//
// # Concurrency
//
// A Budget may be used by many goroutines. A Hold belongs to one goroutine at a time. All
// budgets of a tree share one lock, which is held for some hundred nanoseconds.
//
// # Testing
//
// The tests run in a bubble of [testing/synctest], where a deadlock is found at once.
//
//snippet:var value []byte
package budget
