package invariants

import (
	"bytes"
	"testing"
)

// broke calls f and returns what it panicked with, nil if it did not.
func broke(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestCheckPanicsOnlyWhenBrokenAndEnabled(t *testing.T) {
	if got := broke(func() { Check(true, "held") }); got != nil {
		t.Errorf("an invariant that holds panicked with %v", got)
	}
	var want any
	if Enabled {
		want = "invariant broken: 3 is not below 2"
	}
	if got := broke(func() { Check(false, "%d is not below %d", 3, 2) }); got != want {
		t.Errorf("a broken invariant: got %v, want %v", got, want)
	}
}

func TestMangleWritesEveryByteOrNone(t *testing.T) {
	lent := []byte("lent bytes and more")
	neighbour := lent[10:]
	want := []byte("lent bytes and more")
	if Enabled {
		copy(want, bytes.Repeat([]byte{poison}, 10))
	}
	Mangle(lent[:10])
	if !bytes.Equal(lent, want) || !bytes.Equal(neighbour, []byte(" and more")) {
		t.Errorf("got %q, want %q", lent, want)
	}
	Mangle(nil)
}

func TestSometimesKeepsToItsPercentage(t *testing.T) {
	const calls = 100_000
	for _, percent := range []int{0, 10, 50, 100} {
		n := 0
		for range calls {
			if Sometimes(percent) {
				n++
			}
		}
		want := 0
		if Enabled {
			want = calls * percent / 100
		}
		// Ten standard deviations at 50%: a fair coin never gets here.
		const slack = 1600
		if (percent == 0 || percent == 100 || !Enabled) && n != want || n < want-slack || n > want+slack {
			t.Errorf("Sometimes(%d): true in %d of %d calls, want about %d", percent, n, calls, want)
		}
	}
}
