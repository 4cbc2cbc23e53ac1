// Package lease gives the nodes of a cluster, through a log that all of them reach, a list
// of members and exclusive ownership of keys, with fencing.
//
// # Words
//
// A [Keeper] makes one node a member of a cluster and watches the other members. It
// holds a [Session], which it renews at intervals and which ends if a renewal does not
// succeed in time. A [Lease] is the ownership of a key, for as long as the session lasts.
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
// # How it works
//
// All members and leases are entries of one bucket, so every engine will do.
//
//	member/NAME   a member: written when it joins, and when it has left
//	beat/NAME     a renewal of its session
//	lease/KEY     the owner of a key: written when the owner changes
//
// The epoch of a session is the revision of its member record, that of a lease the
// revision of its lease record. Renewals write neither, so an epoch does not change while
// its owner has it, and can be a condition of any batch.
//
//	keeper.go    joining, leaving, and the goroutines of a member
//	session.go   renewals and the end of a session
//	lease.go     acquiring, releasing and fencing
//	view.go      the members and leases as the last records say
//	reap.go      removing members whose sessions have ended
//	read.go      members and leases without a keeper
//	record.go    the entries, encoded
//
// # Guarantees
//
// At most one owner, whatever clocks do: [Lease.Fence] adds the epochs of lease and
// session to a batch as conditions. Of the batches fenced for one key those of an earlier owner
// come before all of a later one, or fail with Conflict. That needs no clock.
//
// Effects outside of the log have a second fence, which needs clocks. No clock is
// compared with another. An owner measures from the moment before it sent the last renewal
// that succeeded, and closes [Lease.Done] when three quarters of [Options.TTL] have passed.
// Another member may take the key when it has seen no renewal for the whole TTL, and does
// so on condition that there was none. So the owner has a quarter of the TTL to stop in,
// if the clocks run equally fast to within that quarter and the process was not suspended.
//
// A lease that the session took without learning of it, since the answer to [Keeper.Acquire]
// was lost, is given up as soon as the session sees it in the log, however late that is.
//
// Durability: acquiring, releasing and renewing are commits of the log, with its durability.
//
// After a session has ended the keeper begins another as soon as the log can be reached.
// The leases of the old session are lost and have to be acquired again.
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
