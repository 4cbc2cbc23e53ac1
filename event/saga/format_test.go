package saga

import (
	"testing"
	"time"
)

// The keys of the inbox are in the order of the numbers, and those of timeouts in that of their times.
func TestKeys(t *testing.T) {
	if a, b := inboxKey("a-1", 9), inboxKey("a-1", 10); a >= b {
		t.Errorf("%q is not before %q", a, b)
	}
	now := time.Unix(1_700_000_000, 1)
	for _, d := range []time.Duration{1, time.Second, 300 * 24 * time.Hour} {
		if a, b := timerKey("a", now, "a-9", "x"), timerKey("a", now.Add(d), "a-1", "x"); a >= b {
			t.Errorf("%q is not before %q", a, b)
		}
	}
	due, id, name, err := splitTimerKey(timerKey("a", now, "a-9", "x"))
	if err != nil || !due.Equal(now) || id != "a-9" || name != "x" {
		t.Errorf("got %v, %q, %q, %v", due, id, name, err)
	}
}

// Any key is either split into values that make the same key, or refused with an error.
func FuzzKeys(f *testing.F) {
	f.Add(inboxKey("a-1", 7))
	f.Add(timerKey("a", time.Unix(1, 2), "a-1", "x"))
	f.Add("a\x00+0000000000000000001\x00b\x00c")
	f.Fuzz(func(t *testing.T, key string) {
		if id, n, err := splitInboxKey(key); err == nil && inboxKey(id, n) != key {
			t.Errorf("inbox key %q is read as %q, %d", key, id, n)
		}
		due, id, name, err := splitTimerKey(key)
		if err == nil && timerKey(key[:len(key)-len(name)-len(id)-23], due, id, name) != key {
			t.Errorf("timeout key %q is read as %v, %q, %q", key, due, id, name)
		}
	})
}
