package runner

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// TestEveryCaseIsCompared: when time is short, a case keeps one of ours and one peer
// of the same durability, and not the one that stands first.
func TestEveryCaseIsCompared(t *testing.T) {
	absent := func(*suite.Env) string { return "it is not here" }
	entries := []*suite.Entry{
		{Contender: "mainstem-a", Durability: suite.OS},
		{Contender: "mainstem-b", Durability: suite.OS},
		{Contender: "mainstem-c", Durability: suite.Fsync},
		{Contender: "redis", Durability: suite.OS, Skip: absent},
		{Contender: "bbolt", Durability: suite.OS},
		{Contender: "bbolt-fsync", Durability: suite.Fsync},
	}
	m := &run{cost: map[string]*cost{"": {entries: 10, time: 10 * time.Second}}}
	for share, want := range map[time.Duration][]int{
		-1:               {},
		time.Millisecond: {0, 4},
		3 * time.Second:  {0, 4, 2},
		4 * time.Second:  {0, 4, 2, 5},
		time.Hour:        {0, 1, 2, 4, 5},
		0:                {0, 1, 2, 4, 5}, // no limit
	} {
		got := m.choose(entries, share)
		if len(got) != len(want) {
			t.Errorf("in %v %v run, want %v", share, got, want)
		}
		for _, i := range want {
			if !got[i] {
				t.Errorf("in %v %v run, want %v", share, got, want)
			}
		}
	}
}
