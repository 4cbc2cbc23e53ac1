package alert_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// must is for examples only: a program handles its errors.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleOpen() {
	ctx := context.Background()
	log := must(pebblelog.OpenMemory(nil)) // a program that keeps its data opens a directory
	defer log.Close()
	server := must(alert.Open(ctx, log, &alert.Options{Name: "NCOMS"}))
	defer server.Close()

	for range 3 { // the same problem three times
		must(server.Exec(ctx, "insert into alerts.status (Identifier, Node, Severity, Summary) values (?, ?, ?, ?)",
			"link-down-eth0", "router1", 5, "eth0 is down"))
	}
	rows := must(server.Query(ctx, "select Serial, Node, Tally, Summary from alerts.status where Severity > 3"))
	for row, err := range rows.All() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row.Int("Serial"), row.Text("Node"), row.Int("Tally"), row.Text("Summary"))
	}
	// Output: 1 router1 3 eth0 is down
}

func ExampleServer_InsertTo() {
	ctx := context.Background()
	log := must(pebblelog.OpenMemory(nil))
	defer log.Close()
	server := must(alert.Open(ctx, log, nil))
	defer server.Close()

	b := mainstem.NewBatch()
	b.Ensure("orders", mainstem.Policy{})
	b.Put("orders", []byte("42"), []byte("stuck")) // whatever else has to be true together with the alert
	if err := server.InsertTo(ctx, b, "alerts.status", map[string]any{"Identifier": "order-42", "Severity": 4, "Summary": "order 42 is stuck"}); err != nil {
		fmt.Println(err)
		return
	}
	receipt := must(log.Commit(ctx, b))
	fmt.Println(server.Wait(ctx, receipt.Last))
	rows := must(must(server.Query(ctx, "select Summary from alerts.status")).Collect())
	fmt.Println(rows[0].Text("Summary"))
	// Output:
	// <nil>
	// order 42 is stuck
}

func ExampleAutomation() {
	ctx := context.Background()
	log := must(pebblelog.OpenMemory(nil))
	defer log.Close()
	server := must(alert.Open(ctx, log, &alert.Options{Automations: []alert.Automation{{
		Name: "owner", On: alert.OnInsert, Table: "alerts.status", Priority: 10,
		Row: func(e *alert.RowEvent) error { // the program that raises a critical alert owns it
			if e.New.Int("Severity") == 5 {
				return e.New.Set("OwnerUID", alert.Int(65534))
			}
			return nil
		},
	}}}))
	defer server.Close()
	must(server.Exec(ctx, "insert into alerts.status (Identifier, Severity) values ('a', 5), ('b', 1)"))
	for row := range must(server.Query(ctx, "select Identifier, OwnerUID from alerts.status order by Serial")).All() {
		fmt.Println(row.Text("Identifier"), row.Int("OwnerUID"))
	}
	// Output:
	// a 65534
	// b 0
}

func ExampleTableSpace() {
	ctx := context.Background()
	log := must(pebblelog.OpenMemory(nil))
	defer log.Close()
	server := must(alert.Open(ctx, log, nil))
	defer server.Close()
	must(server.Exec(ctx, "create table alerts.owners (Node varchar(64) primary key, Owner varchar(64)); insert into alerts.owners values ('web1', 'ada')"))

	space := must(alert.TableSpace(ctx, log, "alerts.owners"))
	decoder := must(alert.OpenDecoder(ctx, log, space))
	for record, err := range log.Feed(ctx, mainstem.Filter{Spaces: []string{space}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if change, ok, err := decoder.Change(&record); ok && err == nil {
			fmt.Println(change.Row.Text("Node"), change.Row.Text("Owner"))
		}
	}
	// Output: web1 ada
}
