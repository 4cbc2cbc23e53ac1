//go:build !invariants && !race

package invariants

import "testing"

// TestNothingIsLeftWhenDisabled guards the promise that production code may call
// these on its hottest path: nothing is allocated for arguments that are not used.
func TestNothingIsLeftWhenDisabled(t *testing.T) {
	key := []byte("key")
	for i := range 2 {
		allocated := testing.AllocsPerRun(100, func() {
			Check(i == 2, "key %q at %d of %v", key, i, t.Name)
			Mangle(key)
			if Sometimes(100) {
				t.Error("Sometimes is true")
			}
		})
		if allocated != 0 || string(key) != "key" {
			t.Errorf("%v allocations, key %q: want none, and the key unchanged", allocated, key)
		}
	}
}
