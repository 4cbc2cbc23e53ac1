package alert

import "testing"

// TestReset takes the changes of a statement out of a transaction that others share.
func TestReset(t *testing.T) {
	x := &tx{at: map[string]int{}}
	change := func(id, value string) { x.add(op{id: id, value: []byte(value)}) }
	check := func(want string) {
		t.Helper()
		got := ""
		for i, o := range x.ops {
			got += o.id + string(o.value)
			if at, ok := x.at[o.id]; !ok || at != i {
				t.Errorf("the change %d is found at %d, %t", i, at, ok)
			}
		}
		if got != want || len(x.at) != len(x.ops) {
			t.Errorf("the changes are %s, want %s; %v", got, want, x.at)
		}
	}
	for round := range 2 {
		m := x.mark()
		change("a", "1")
		change("b", "1")
		change("a", "2")
		check("a2b1")
		inner := x.mark()
		change("a", "3")
		change("c", "1")
		change("a", "4")
		change("c", "2")
		check("a4b1c2")
		x.reset(inner)
		check("a2b1")
		x.reset(m)
		if check(""); x.bytes != 0 {
			t.Errorf("round %d: %d bytes are counted that are not there", round, x.bytes)
		}
	}
}
