package syslog_test

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem/alert/ingest/syslog"
)

// A message, and two in a stream.
func Example() {
	m := syslog.Parse([]byte(`<165>1 2026-02-03T04:05:06Z db-1 backup 42 DONE [job@32473 size="12"] finished`), nil)
	fmt.Println(m.Facility, m.Severity, m.Hostname, m.AppName, m.MsgID, m.Data[0].Params[0].Value, m.Text)

	in := syslog.NewReader(strings.NewReader("<11>disk full\n15 <11>disk broken"), 0, nil)
	for {
		message, _, err := in.Next()
		if err != nil {
			break
		}
		fmt.Printf("%s\n", message)
	}
	// Output:
	// local4 notice db-1 backup DONE 12 finished
	// <11>disk full
	// <11>disk broken
}
