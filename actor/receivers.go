package actor

// receivers are references to actors, one for each. Those of a [Group] or an [Event] are
// guarded by its lock, which the callers of all methods hold.
type receivers[M any] struct {
	refs    []Ref[M]      // invariant: refs[index[c]].core() == c, and nothing else is in either
	index   map[*core]int // where in refs
	lent    bool          // somebody reads refs without the lock: its elements must not change
	sweepAt int           // sweep when refs is this long
}

// firstSweep is how many receivers there are when stopped ones are looked for first.
const firstSweep = 256

func newReceivers[M any]() receivers[M] {
	return receivers[M]{index: make(map[*core]int), sweepAt: firstSweep}
}

// lend returns the references, to be read without the lock.
func (s *receivers[M]) lend() []Ref[M] {
	s.lent = true
	return s.refs
}

// own makes the elements of refs free to change.
func (s *receivers[M]) own() {
	if s.lent {
		s.refs = append(make([]Ref[M], 0, len(s.refs)+1), s.refs...)
		s.lent = false
	}
}

// replace puts r in the place of the reference to the same actor, and reports whether
// there was one.
func (s *receivers[M]) replace(c *core, r Ref[M]) bool {
	i, ok := s.index[c]
	if ok {
		s.own()
		s.refs[i] = r
	}
	return ok
}

// add adds a reference to an actor that has none. It reports whether all that were there
// before had stopped and were removed first.
func (s *receivers[M]) add(c *core, r Ref[M]) (emptied bool) {
	if len(s.refs) >= s.sweepAt {
		s.sweep()
		emptied = len(s.refs) == 0
	}
	s.index[c] = len(s.refs)
	s.refs = append(s.refs, r)
	return emptied
}

// drop removes the reference to an actor, and reports whether there was one.
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

// dropStopped removes references that were lent and whose actors have stopped, unless they
// have been replaced since. It reports whether it removed any.
func (s *receivers[M]) dropStopped(refs []Ref[M]) (dropped bool) {
	for _, r := range refs {
		if i, ok := s.index[r.core()]; ok && s.refs[i] == r {
			dropped = s.drop(r.core())
		}
	}
	return dropped
}

// sweep removes actors that have stopped, so that they do not collect where nothing is sent.
func (s *receivers[M]) sweep() {
	for i := len(s.refs) - 1; i >= 0; i-- {
		if c := s.refs[i].core(); c.gone() {
			s.drop(c)
		}
	}
	s.sweepAt = max(firstSweep, 2*len(s.refs))
}
