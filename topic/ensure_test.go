package topic

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// Ensure creates a topic at the first start of a program and returns it at the second, in this
// process or another.
func TestEnsure(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		want := Spec{Partitions: 3, Config: Config{RetentionMs: "1000", CleanupPolicy: "compact,delete"}}
		var id ID
		for start := range 3 {
			c := open(t, log, nil)
			tp, err := c.Ensure(t.Context(), "parcels", want)
			if err != nil {
				t.Fatalf("start %d: %v", start, err)
			}
			if start == 0 {
				id = tp.ID()
			}
			if tp.ID() != id || tp.Partitions() != 3 || !maps.Equal(tp.Config(), want.Config) {
				t.Errorf("start %d: topic %v with %d partitions and %v, want %v as it was made", start, tp.ID(), tp.Partitions(), tp.Config(), id)
			}
		}
	})
}

// Ensure returns a topic that is as asked for, in whatever notation. Settings that were not asked
// for may have any value.
func TestEnsureTakesTheSame(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	first := create(t, c, "x", Spec{Partitions: 3, Config: Config{CleanupPolicy: "compact,delete", MinDirtyRatio: "0.25", CompressionType: "zstd"}})
	for _, s := range []Spec{
		{},
		{Partitions: 3},
		{Config: Config{CleanupPolicy: "delete, compact"}},
		{Config: Config{MinDirtyRatio: ".250"}},
		{Config: Config{RetentionMs: "604800000"}}, // the default, which is not set
		{Partitions: 3, Config: Config{CompressionType: "zstd", "segment.bytes": "1073741824"}},
	} {
		if tp, err := c.Ensure(t.Context(), "x", s); err != nil || tp != first {
			t.Errorf("%+v: %v, %v", s, tp, err)
		}
	}
	if got := first.Config(); len(got) != 3 {
		t.Errorf("the topic was changed to %v", got)
	}
}

// For a topic that differs, Ensure returns an error with the setting, its value and the one asked
// for, and changes nothing.
func TestEnsureNamesWhatDiffers(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	tp := create(t, c, "x", Spec{Partitions: 3, Config: Config{RetentionMs: "5", CompressionType: "zstd"}})
	for _, tc := range []struct {
		asked Spec
		want  []string
	}{
		{Spec{Partitions: 4}, []string{"3 partitions", "4 were asked for", "AddPartitions"}},
		{Spec{Partitions: 2}, []string{"3 partitions", "2 were asked for", "cannot be taken away"}},
		{Spec{Config: Config{RetentionMs: "7"}}, []string{`retention.ms is "5"`, `"7" was asked for`, "SetConfig"}},
		{Spec{Config: Config{CleanupPolicy: "compact"}}, []string{`cleanup.policy is "delete"`, `"compact" was asked for`}},
		{Spec{Config: Config{CompressionType: "gzip"}}, []string{`compression.type is "zstd"`, `"gzip" was asked for`}},
		{Spec{Partitions: 1, Config: Config{RetentionMs: "7"}}, []string{"3 partitions", "retention.ms"}},
	} {
		got, err := c.Ensure(t.Context(), "x", tc.asked)
		if got != nil || !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("%+v: %v, %v", tc.asked, got, err)
			continue
		}
		for _, want := range append(tc.want, "topic/x", "leave the setting out") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: the error does not say %q: %v", tc.asked, want, err)
			}
		}
	}
	for _, s := range []Spec{{Partitions: -1}, {Config: Config{RetentionMs: "soon"}}, {Config: Config{"retention.m": "1"}}} {
		if _, err := c.Ensure(t.Context(), "x", s); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if got := tp.Config(); tp.Partitions() != 3 || !maps.Equal(got, Config{RetentionMs: "5", CompressionType: "zstd"}) {
		t.Errorf("the topic became %d partitions with %v", tp.Partitions(), got)
	}
}

// Several processes that start at once all get the same topic.
func TestEnsureAtOnce(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		const processes = 8
		var ids [processes]ID
		var wg sync.WaitGroup
		for i := range processes {
			c := open(t, log, nil) // a catalog of its own, as in another process
			wg.Go(func() {
				tp, err := c.Ensure(t.Context(), "x", Spec{Partitions: 2})
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = tp.ID()
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("topics %v and %v", ids[0], id)
			}
		}
	})
}
