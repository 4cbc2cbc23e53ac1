package projection

import "testing"

// SetMaxRepark sets how many parked events one commit drops or moves, until the end of a test.
func SetMaxRepark(t testing.TB, n int) {
	before := maxRepark
	maxRepark = n
	t.Cleanup(func() { maxRepark = before })
}

// AtWork returns how many subscriptions of a projection run in an engine.
func AtWork(e *Engine, name string) (n int) {
	u, err := e.unit(name)
	if err != nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range u.mu.parts {
		p.mu.Lock()
		if p.mu.state == Running || p.mu.state == CatchingUp {
			n++
		}
		p.mu.Unlock()
	}
	return n
}
