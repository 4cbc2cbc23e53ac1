// Command alerts starts two ObjectServers and a coordinator over them, and runs the
// scenarios of the coordinator's original benchmark: inserts and selects, one client and
// ten, through the coordinator and through the HTTP interface of both servers. It prints
// what each took, beside what the original took on its machine, and whether all answers
// were right.
//
//	alerts                 everything in memory
//	alerts -data DIR       the logs in a directory, each commit on the disk
//	alerts -rounds 20      more rounds; the median is shown
//
// Clients are the Go clients of both interfaces, over loopback. The clock stops when the
// rows of an answer are there; every value of them is looked at afterwards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"text/tabwriter"
	"time"
)

func main() {
	data := flag.String("data", "", "directory for the logs of the servers (default they are in memory)")
	rounds := flag.Int("rounds", 5, "how often each scenario runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *data, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

// run starts everything, runs all scenarios, and prints their table.
func run(ctx context.Context, w io.Writer, data string, rounds int) (err error) {
	if rounds < 1 {
		return fmt.Errorf("-rounds is %d: want 1 or more", rounds)
	}
	b, err := openBed(ctx, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	fmt.Fprintf(w, "object servers %s and %s, coordinator %s\n\n", b.servers[0].url, b.servers[1].url, b.coordinator.url)
	return b.table(ctx, w, rounds)
}

// table runs the scenarios and prints a line for each.
func (b *bed) table(ctx context.Context, w io.Writer, rounds int) error {
	var errs []error
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scenario\tclients\tthrough\tms\toriginal ms\tanswers")
	for _, s := range scenarios {
		took, err := b.run(ctx, &s, rounds)
		verdict, seed := "right", "-"
		if err != nil {
			verdict = "WRONG"
			errs = append(errs, fmt.Errorf("%s, %d clients, %s: %w", s.name, s.clients, s.through, err))
		}
		if s.original > 0 {
			seed = fmt.Sprintf("%.1f", s.original)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%.1f\t%s\t%s\n", s.name, s.clients, s.through, took.Seconds()*1e3, seed, verdict)
	}
	err := t.Flush()
	fmt.Fprintln(w, "\nOriginal: nco-qoordinator, and IBM's own HTTP interface, with two ObjectServers of IBM on a 12th-generation Core i7.")
	return errors.Join(err, errors.Join(errs...))
}

// directory returns where the log of a server is, "" for memory.
func directory(data, server string) string {
	if data == "" {
		return ""
	}
	return filepath.Join(data, server)
}

// timeout is for whatever waits for something.
const timeout = time.Minute
