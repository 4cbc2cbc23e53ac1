package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// service is the value by which /healthz identifies a Mainstem server.
const service = "mainstem"

// Status is the answer of /healthz and /readyz, as JSON.
type Status struct {
	Service string `json:"service"` // always "mainstem"
	Version string `json:"version"`
	Status  string `json:"status"`          // "ok", "stopping" or "unavailable"
	Error   string `json:"error,omitempty"` // why the status is not "ok"
}

var errStopping = errors.New("the server is stopping")

// readyTimeout bounds how long /readyz waits for the log.
const readyTimeout = 5 * time.Second

// alive answers that the process serves HTTP, regardless of the state of its log.
func (n *Server) alive(w http.ResponseWriter, _ *http.Request) {
	n.answer(w, "ok", nil)
}

// ready answers whether the log takes commits, and whether the components that are [Required]
// are ready.
func (n *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if n.stopping.Err() != nil {
		n.answer(w, "stopping", errStopping)
		return
	}
	err := n.writable(ctx)
	for _, c := range n.config.Components {
		if c, ok := c.(Required); ok && err == nil {
			err = c.Ready(ctx)
		}
	}
	if err != nil {
		n.answer(w, "unavailable", err)
		return
	}
	n.answer(w, "ok", nil)
}

// writable commits an empty batch, which takes the path of every commit up to the disk, and
// checks the free disk space.
func (n *Server) writable(ctx context.Context) error {
	if _, err := n.engine.Commit(ctx, mainstem.NewBatch()); err != nil {
		return err
	}
	least := cmp.Or(n.config.MinFree, pebblelog.DefaultMinFree)
	if n.config.Log == Memory {
		return nil
	}
	usage, err := vfs.Default.GetDiskUsage(n.config.Log)
	if err != nil {
		return nil // the file system does not report it
	}
	if usage.AvailBytes < uint64(least) {
		return fmt.Errorf("the disk has %d bytes free: commits stop below %d (min-free)", usage.AvailBytes, least)
	}
	return nil
}

func (n *Server) answer(w http.ResponseWriter, status string, err error) {
	s := Status{Service: service, Version: Version(), Status: status}
	code := http.StatusOK
	if err != nil {
		s.Error = err.Error()
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s) // fails if the client is gone
}

// maxStatus is the largest answer that Probe reads, in bytes.
const maxStatus = 4 << 10

// Probe reports whether a Mainstem server answers at the URL base before ctx ends. If another
// program answers, it returns false.
func Probe(ctx context.Context, base, tlsCA string) bool {
	trust, err := ClientTLS(tlsCA)
	if err != nil {
		return false
	}
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var s Status
	err = json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&s)
	return err == nil && resp.StatusCode == http.StatusOK && s.Service == service
}
