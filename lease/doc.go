// Package lease gives the nodes of a cluster a list of members and exclusive ownership of keys,
// with fencing, through a log that all of them can reach.
//
// # Words
//
// A member is a node of the cluster, known by its name. A [Keeper] makes one node a member and
// watches the other members. It holds a [Session], which it renews at intervals, and which ends if
// a renewal does not succeed in time. A [Lease] is the ownership of a key for as long as the
// session lasts. An epoch is a number of a session or lease: the next session of a member, and the
// next lease of a key, have higher ones. To fence a batch is to add conditions with which only the
// present owner of a lease can commit it.
//
//	k, err := lease.Open(ctx, log, lease.Member{Name: "a", Start: 1, Address: "10.0.0.1:4370"}, nil)
//	l, err := k.Acquire(ctx, "printer", "")
//	...
//	b := mainstem.NewBatch()
//	jobs.PutTo(b, "42", done)
//	l.Fence(b) // Conflict if another may own the printer
//	_, err = log.Commit(ctx, b)
//
// # How it works
//
// All members and leases are entries of one bucket of package kv, so it works on every engine.
//
//	member/NAME   a member: written when it joins, deleted when it leaves or is removed
//	beat/NAME     a renewal of its session
//	lease/KEY     the owner of a key: written when it is acquired, deleted when it is released
//
// The epoch of a session is the revision of its member entry, that of a lease the revision of its
// lease entry. A renewal writes only the beat. So an epoch does not change while its owner has it,
// and can be a condition of any batch. A lease is valid only together with the member entry of its
// session: when that is deleted or replaced, all leases of the session have ended at once.
//
//	keeper.go    joining, leaving, and the goroutines of a keeper
//	session.go   renewals and the end of a session
//	lease.go     acquiring, releasing and fencing
//	view.go      the members and leases, as the watched entries have them
//	reap.go      removing members whose sessions have ended, and their leases
//	read.go      members and leases without a keeper
//	record.go    the encoded entries
//
// # Guarantees
//
// At most one owner, without clocks: [Lease.Fence] adds the epochs of lease and session to a batch
// as conditions. Of the batches that are fenced for one key, those of an earlier owner come before
// all of a later one, or fail with Conflict.
//
// For effects outside of the log there is a second fence, which needs clocks that run equally fast,
// but compares no times of different clocks. An owner measures from the moment before it sent the
// last successful renewal, and closes [Lease.Done] when three quarters of [Options].TTL have
// passed. Another member removes it only when it has seen no renewal for the whole TTL, on
// condition that there was none. So the owner has a quarter of the TTL to stop. That does not hold
// for a process that is suspended.
//
// A session may have taken a lease without learning of it, because the answer to [Keeper.Acquire]
// was lost. It deletes such a lease when it sees it in the log, however late that is.
//
// Durability: acquiring, releasing and renewing are commits at the log's durability.
//
// After a session has ended, the keeper begins another as soon as the log can be reached. The
// leases of the old session are lost and have to be acquired again.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. A Keeper owns three goroutines until Close, two
// if it only watches. The log belongs to the caller, who closes it after the keeper.
//
// # Limits
//
// [MinTTL], [MaxTTL], [MaxName], [MaxValue]. Each member commits one small batch every fifth of the
// TTL, however many leases it has.
//
// # Testing
//
// The tests run in virtual time on the reference engine, with random cuts, delays longer than the
// TTL and restarts, and check that epochs never decrease. They also run on all other engines, in
// real time.
//
//snippet:var jobs *kv.Bucket[string]
//snippet:var done string
package lease
