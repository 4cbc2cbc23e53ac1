// Package history records what concurrent clients of a log did and saw, and
// decides afterwards whether one log that obeys the laws could have answered
// them so.
//
//	rec := history.NewRecorder(log)
//	go work(rec.Client()) // many of them
//	...
//	for _, v := range history.Check(rec.Operations()) {
//		t.Error(v)
//	}
//
// An [Operation] is one call with the moments at which it began and returned on
// a logical clock, so that of two operations it is known whether one was over
// before the other began. [Check] is a pure function of the operations. Because
// a log tells the position of every batch, no search for an order is needed:
// the positions are the order, and Check verifies that every condition, every
// read and every outcome fits it, and that it fits real time.
//
// # Limits
//
// The history must begin on an empty log and hold everything that was written
// to it. Clients only put, one item a record, a value at most once for each key
// (the value identifies the write), in spaces that keep all history and are in
// feeds. Memory and time grow with operations times records seen.
//
// # Testing
//
// The package's tests plant each kind of violation in a sound history and
// require that Check finds it and names its law.
//
//snippet:var work func(*history.Client)
package history
