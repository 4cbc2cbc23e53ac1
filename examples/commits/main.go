// Command commits shows one commit across three views. It reads the history of a repository, one
// commit a line, and for every line makes one atomic batch that
//
//   - appends an event to the stream of the author,
//   - counts the commit in a bucket, once for each directory it touched, by compare-and-set,
//   - publishes it to a topic with the author as key,
//   - and records the number of the line.
//
// So the three views always agree. If the program is killed at any moment and started again, it
// continues after the last line that was committed.
//
//	go run ./examples/commits -log data testdata/commits.jsonl
//	go run ./examples/commits -log http://127.0.0.1:8080 testdata/commits.jsonl
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/mainstemdev/mainstem/server"
)

func main() {
	target := flag.String("log", "mainstem-data", "directory or server of the log")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: commits [-log DIR|URL] FILE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *target, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "commits:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, target, file string) error {
	log, err := server.OpenLog(ctx, target, nil)
	if err != nil {
		return err
	}
	defer log.Close()
	var im *importer
	err = persist(ctx, func() error {
		im, err = newImporter(ctx, log)
		return err
	})
	if err != nil {
		return err
	}
	defer im.close()
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := im.importAll(ctx, f); err != nil {
		return err
	}
	var a result
	err = persist(ctx, func() error {
		a, err = answers(ctx, log)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d events in %d streams, %d directories, %d messages\n", a.Events, len(a.Streams), len(a.Directories), a.Messages)
	return nil
}
