package ingest_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"runtime"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// A file of alerts, and a syslog message, become rows of alerts.status.
func Example() {
	ctx := context.Background()
	store, err := pebblelog.OpenMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	server, err := alert.Open(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	sink := ingest.OpenServer(server, "example")
	defer sink.Close()

	file := strings.NewReader(`{"host":"db-1","severity":"critical","message":"the disk is full","time":"2026-02-03T04:05:06Z"}`)
	report, err := ingest.Import(ctx, file, sink, &ingest.ImportOptions{File: "alerts.jsonl"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Rows, "row from the file")

	receiver, err := ingest.OpenSyslog(sink, nil)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go receiver.ServeTCP(listener)
	sender, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(sender, "<11>Feb  3 04:05:07 web-1 nginx[7]: worker 1 died")
	sender.Close()
	for receiver.Counters().Written == 0 {
		runtime.Gosched()
	}
	if err := receiver.Close(ctx); err != nil {
		log.Fatal(err)
	}

	rows, err := server.Query(ctx, "select Node, Severity, Summary from alerts.status order by Serial")
	if err != nil {
		log.Fatal(err)
	}
	for row, err := range rows.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row.Text("Node"), row.Int("Severity"), row.Text("Summary"))
	}
	// Output:
	// 1 row from the file
	// db-1 5 the disk is full
	// web-1 4 worker 1 died
}

// A mapping file of one's own.
func ExampleParseMappings() {
	text := `
syslog:
  drop:
    - {field: severity, in: [info, debug]}
  columns:
    Node: "${hostname:-${peer_ip}|lower}"
    Sevrity: {field: severity, table: levels}
tables:
  levels: {emerg: 5, alert: 5, crit: 5, err: 4, warning: 3}
`
	_, err := ingest.ParseMappings("syslog.yaml", []byte(text), nil)
	fmt.Println(err)
	// Output:
	// mapping: invalid: syslog.yaml:7: alerts.status has no column "Sevrity"
}
