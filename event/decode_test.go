package event

import (
	"fmt"
	"hash/maphash"
	"testing"
)

// Two names in turn are cached, also those that have the same hash: which ones do differs from
// process to process.
func TestNamesOfOneHash(t *testing.T) {
	var d decoder
	hash := func(name string) *names { return d.of(maphash.String(nameSeed, name)) }
	first, second := "OrderPlaced", ""
	for n := 0; second == ""; n++ {
		if name := fmt.Sprint("order-", n); hash(name) == hash(first) {
			second = name
		}
	}
	for what, intern := range map[string]func(name string) string{
		"of events":   func(name string) string { return d.intern([]byte(name)) },
		"of metadata": d.internName,
	} {
		if allocs := testing.AllocsPerRun(100, func() {
			if intern(first) != first || intern(second) != second {
				t.Fatal("another name")
			}
		}); allocs > 0 {
			t.Errorf("names %s: %v allocations for two that are known", what, allocs)
		}
	}
	third := ""
	for n := 0; third == ""; n++ {
		if name := fmt.Sprint("invoice-", n); hash(name) == hash(first) {
			third = name
		}
	}
	for _, name := range []string{third, first, second, third} {
		if got := d.intern([]byte(name)); got != name {
			t.Errorf("%s for %s", got, name)
		}
	}
}
