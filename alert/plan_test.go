package alert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// TestPlansAreBounded by their number and by their bytes, and one that is too large is never kept.
func TestPlansAreBounded(t *testing.T) {
	var c plans
	p := newPlanned(&osql.Plan{})
	add := func(key string) (kept bool) {
		c.keep(1, key, p)
		sum := 0
		for key, p := range c.byKey {
			sum += p.size(key)
		}
		if len(c.byKey) > maxPlans || sum > maxPlanBytes || sum != c.bytes {
			t.Fatalf("%d plans of %d bytes, counted as %d", len(c.byKey), sum, c.bytes)
		}
		return c.byKey[key] != nil
	}
	for range 2 {
		if !add("small") || add(strings.Repeat("x", maxPlan)) || len(c.byKey) != 1 {
			t.Errorf("a small plan is not kept, or a large one is: %d are", len(c.byKey))
		}
	}
	for i := range 2 * maxPlans {
		if !add(fmt.Sprint(i)) {
			t.Fatalf("plan %d is not kept", i)
		}
	}
	for i := range 40 { // of an eighth of the bytes, or nearly
		if !add(fmt.Sprint(strings.Repeat("x", maxPlan/17), i)) {
			t.Fatalf("large plan %d is not kept", i)
		}
	}
	if c.keep(0, "old", p); c.byKey["old"] != nil {
		t.Error("a plan for tables of before is kept")
	}
	if c.keep(2, "new", p); len(c.byKey) != 1 || c.bytes != p.size("new") {
		t.Errorf("for new tables %d plans are kept, of %d bytes", len(c.byKey), c.bytes)
	}
}

// TestLargeStatementIsNotKept: the plan of a long list in an expression has the parsed statement.
func TestLargeStatementIsNotKept(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	want(t, s, "[[1]]", "select 1 in (1) from catalog.databases where DatabaseName = 'alerts'")
	keys, bytes := len(s.plans.byKey), s.plans.bytes
	want(t, s, "[[1]]", "select 1 in ("+strings.Repeat("1, ", 22_000)+"1) from catalog.databases where DatabaseName = 'alerts'")
	if keys == 0 || len(s.plans.byKey) != keys || s.plans.bytes != bytes {
		t.Errorf("%d plans of %d bytes became %d of %d", keys, bytes, len(s.plans.byKey), s.plans.bytes)
	}
}
