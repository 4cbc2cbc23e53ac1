package readmodel_test

import (
	"testing"

	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// TestNamesOfIndexes checks that each list of fields has a name of its own, and that names which
// are in directories stay what they are.
func TestNamesOfIndexes(t *testing.T) {
	for want, fields := range map[string][]string{
		"Status_Address-City": {"Status", "Address.City"},
		"Order_ID":            {"Order", "ID"},
		"Order_0ID":           {"Order_ID"},
		"user_id":             {"user_id"},
	} {
		if got := readmodel.IndexNameForTest(fields...); got != want {
			t.Errorf("the index over %q is called %s, want %s", fields, got, want)
		}
	}
	components := []string{"A", "B", "A_", "A__", "A_B", "A__B", "A_0", "A_0B", "A_00B", "A0", "A0B", "A_.B", "A.B", "A_B.A", "A.B_A"}
	names := map[string][]string{}
	add := func(fields ...string) {
		name := readmodel.IndexNameForTest(fields...)
		if other := names[name]; other != nil {
			t.Errorf("the indexes over %q and over %q are both called %s", other, fields, name)
		}
		names[name] = fields
	}
	for _, a := range components {
		add(a)
		for _, b := range components {
			add(a, b)
			for _, c := range components {
				add(a, b, c)
			}
		}
	}
}

func TestAnIndexOverAFieldBesideOneOverTwo(t *testing.T) {
	type order struct{ Key, Order, ID, Order_ID string }
	table, err := readmodel.Open(testengines.Memory(t), "orders", &readmodel.Options[order]{
		Key:     func(o order) string { return o.Key },
		Indexes: []readmodel.Index{{Fields: []string{"Order_ID"}}, {Fields: []string{"Order", "ID"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []order{{"1", "a", "z", "m"}, {"2", "b", "y", "l"}} {
		if err := table.Insert(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for field, want := range map[string]string{"Order_ID": "2", "Order": "1"} {
		got, err := table.Find(t.Context(), readmodel.All().OrderBy(field, readmodel.Asc).Limit(1))
		if err != nil || len(got) != 1 || got[0].Key != want {
			t.Errorf("the first by %s is %v, %v; want key %s", field, got, err, want)
		}
	}
}
