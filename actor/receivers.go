package actor

// receivers is a set of references, one for each actor: the members of a [Group] or the subscribers
// of an [Event]. The mutex of the group or event guards it; the callers of all methods hold that.
//
// A broadcast must not hold the mutex while it waits for mailboxes, and should not copy a million
// references. So it borrows refs (lend) and reads it without the mutex. While refs is lent, a
// method that would change an element copies the slice first (own); add only appends behind the
// part that was lent.
//
// Invariants: refs[index[c]].core() == c for each c in index; len(index) == len(refs).
type receivers[M any] struct {
	refs    []Ref[M]      // in no order
	index   map[*core]int // the position in refs by actor
	lent    bool          // somebody may read refs without the mutex: its elements must not change
	sweepAt int           // the length of refs at which add removes ended actors first
}

// firstSweep is the first value of sweepAt.
const firstSweep = 256

func newReceivers[M any]() receivers[M] {
	return receivers[M]{index: make(map[*core]int), sweepAt: firstSweep}
}

// lend returns the references, to be read without the mutex until own has copied them.
func (s *receivers[M]) lend() []Ref[M] {
	s.lent = true
	return s.refs
}

// own copies refs if it is lent, so that its elements may be changed.
func (s *receivers[M]) own() {
	if s.lent {
		s.refs = append(make([]Ref[M], 0, len(s.refs)+1), s.refs...)
		s.lent = false
	}
}

// replace replaces the reference to the actor c by r, and reports whether there was one.
func (s *receivers[M]) replace(c *core, r Ref[M]) bool {
	i, ok := s.index[c]
	if ok {
		s.own()
		s.refs[i] = r
	}
	return ok
}

// add adds the reference r to the actor c, which is not in the set. It may remove actors that have
// ended first, and reports whether it removed all that were there.
func (s *receivers[M]) add(c *core, r Ref[M]) (emptied bool) {
	if len(s.refs) >= s.sweepAt {
		s.sweep()
		emptied = len(s.refs) == 0
	}
	s.index[c] = len(s.refs)
	s.refs = append(s.refs, r)
	return emptied
}

// drop removes the reference to an actor and reports whether there was one. The last reference
// takes its position.
func (s *receivers[M]) drop(c *core) bool {
	i, ok := s.index[c]
	if !ok {
		return false
	}
	s.own()
	last := len(s.refs) - 1
	if i != last {
		s.refs[i] = s.refs[last]
		s.index[s.refs[i].core()] = i
	}
	s.refs[last] = Ref[M]{}
	s.refs = s.refs[:last]
	delete(s.index, c)
	return true
}

// dropStopped removes references whose actors have ended, unless they were replaced since refs was
// lent. It reports whether it removed any.
func (s *receivers[M]) dropStopped(refs []Ref[M]) (dropped bool) {
	for _, r := range refs {
		if i, ok := s.index[r.core()]; ok && s.refs[i] == r {
			dropped = s.drop(r.core())
		}
	}
	return dropped
}

// sweep removes all actors that have ended. Without it they would collect in a group or event to
// which nothing is sent. Its cost is proportional to the size, so add calls it when the size has
// doubled.
func (s *receivers[M]) sweep() {
	for i := len(s.refs) - 1; i >= 0; i-- {
		if c := s.refs[i].core(); c.gone() {
			s.drop(c)
		}
	}
	s.sweepAt = max(firstSweep, 2*len(s.refs))
}
