// Command httpcounter counts over HTTP: one actor for each path, which is in memory
// while the path is in use and a line in a file otherwise.
//
//	httpcounter -listen localhost:8080 -dir counts
//	curl -X POST localhost:8080/tea
//	curl localhost:8080/tea
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "where to serve")
	dir := flag.String("dir", "counts", "where to keep the counts")
	idle := flag.Duration("idle", time.Minute, "when an unused counter leaves the memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *dir, *idle); err != nil {
		fmt.Fprintln(os.Stderr, "httpcounter:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then lets the counters save themselves.
func run(ctx context.Context, listen, dir string, idle time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	node, err := actor.Open("counters", nil)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	counters, err := newCounters(node, dir, idle)
	if err != nil {
		return errors.Join(err, l.Close(), node.Close())
	}
	server := &http.Server{Handler: counters, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Println("serving on", l.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
		err = server.Shutdown(context.WithoutCancel(ctx))
		<-served
	}
	return errors.Join(err, node.Close())
}

// counters is the HTTP side of the counters.
type counters struct {
	byPath *actor.Keyed[string, add]
}

func newCounters(node *actor.Node, dir string, idle time.Duration) (*counters, error) {
	k, err := actor.NewKeyed(node, func(path string) *counter {
		return &counter{file: filepath.Join(dir, url.PathEscape(path)+".count")}
	}, &actor.Options{Name: "by path", Idle: idle})
	return &counters{k}, err
}

// ServeHTTP counts a POST and answers with the count.
func (c *counters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := 0
	switch r.Method {
	case http.MethodPost:
		n = 1
	case http.MethodGet:
	default:
		http.Error(w, "POST counts, GET shows", http.StatusMethodNotAllowed)
		return
	}
	if len(r.URL.Path) > maxPath {
		http.Error(w, "the path is too long", http.StatusRequestURITooLong)
		return
	}
	count, err := actor.Ask(r.Context(), c.byPath.Ref(r.URL.Path), func(to actor.Reply[int]) add { return add{n, to} })
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, count)
}

// maxPath is how long a path may be, escaped three for one as the name of a file.
const maxPath = 80

// add is a counter's message: add n and tell the sum.
type add struct {
	n     int
	reply actor.Reply[int]
}

// counter counts for one path.
type counter struct {
	file string
	n    int
}

// Start loads the count.
func (c *counter) Start(*actor.Context[add]) error {
	text, err := os.ReadFile(c.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c.n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return err
}

// Receive counts.
func (c *counter) Receive(_ *actor.Context[add], m add) error {
	c.n += m.n
	return m.reply.Send(c.n)
}

// Stop saves the count.
func (c *counter) Stop(ctx *actor.Context[add], _ error) {
	if err := os.WriteFile(c.file, []byte(strconv.Itoa(c.n)+"\n"), 0o600); err != nil {
		ctx.Log().Error("a count is lost", "file", c.file, "err", err)
	}
}
