// Package lease lets the nodes of a cluster agree, through a log that all of them
// reach, on who is there and who owns what.
//
// # Words
//
// A [Keeper] makes one node a member of a cluster and watches the other members. It
// holds a [Session]: a time that it renews again and again, and that is over when it
// could not. A [Lease] is the ownership of a key, for as long as the session lasts.
// Its epoch is a number that only grows: the next owner of the key has a higher one.
//
//	k, err := lease.Open(ctx, log, lease.Member{Name: "a", Start: 1, Address: "10.0.0.1:4370"}, nil)
//	l, err := k.Acquire(ctx, "printer", "")
//	...
//	b := mainstem.NewBatch()
//	jobs.PutTo(b, "42", done)
//	l.Fence(b) // only if the printer is still ours
//	_, err = log.Commit(ctx, b)
//
// All of it is one bucket, so any engine will do: the cluster's registrar is the log.
//
//	member/NAME   who is a member: written when it joins, and when it is gone
//	beat/NAME     that it lives: written at each renewal
//	lease/KEY     who owns the key: written when the owner changes
//
// The epoch of a session is the revision of its member record, that of a lease the
// revision of its lease record. Renewals touch neither, so an epoch stays what it is
// for as long as its owner has it, and can be a condition of any batch.
//
// # Guarantees
//
// At most one owner, whatever clocks do: [Lease.Fence] adds the epochs of lease and
// session to a batch as conditions. Of the batches fenced for one key those of an earlier owner
// come before all of a later one, or fail with Conflict. That needs no clock.
//
// For what is not in the log there is a second fence, which does. No clock is ever
// compared with another: an owner counts from the moment before it sent its last
// renewal that succeeded, and tells by [Lease.Done] that it is over when [Options.TTL]
// less a quarter has passed. The member that wants the key has seen no renewal for the whole
// TTL, and takes it under the condition that there was none. So there is a quarter
// of the TTL to stop in, as long as the clocks run equally fast to within that quarter
// and the process was not stopped as a whole.
//
// A lease that the session took without learning of it, since the answer to [Keeper.Acquire]
// was lost, is given up as soon as the session sees it in the log, however late that is.
//
// A session that was lost is followed by another, as soon as the log can be reached: its leases
// are gone, and have to be acquired anew.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. A Keeper owns three goroutines
// until Close. The log belongs to the caller, who closes it later.
//
// # Limits
//
// [MinTTL], [MaxTTL], [MaxName], [MaxValue]. A renewal is one small commit for each
// member every fifth of the TTL, however many leases it has.
//
// # Testing
//
// The tests run in virtual time on the reference engine, with random cuts, delays
// longer than the TTL and restarts, and check that epochs never go back; and on all
// other engines in real time.
//
//snippet:var jobs *kv.Bucket[string]
//snippet:var done string
package lease
