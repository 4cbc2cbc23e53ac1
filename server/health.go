package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/redact"
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

// wantsTLS is the answer of net/http to a request without TLS, when it serves with TLS.
const wantsTLS = "Client sent an HTTP request to an HTTPS server.\n"

// Probe reports whether a Mainstem server answers at the URL base. It returns false if nobody
// listens there, or another program answers. If that cannot be told the error is Unavailable: what
// listens there has not answered when ctx ends, has closed the connection, or wants TLS. A file
// tlsCA that cannot be used is Invalid.
func Probe(ctx context.Context, base, tlsCA string) (bool, error) {
	trust, err := ClientTLS(tlsCA)
	if err != nil {
		return false, err
	}
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	var connected, answered atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				connected.Store(true)
			}
		},
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, strings.TrimSuffix(base, "/")+"/healthz", nil)
	if err != nil {
		return false, mainstem.Errorf(mainstem.KindInvalid, "probe", "%w", redact.Error(err, base))
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		foreign := answered.Load() && !isBroken(err) // it does not speak HTTP
		if ctx.Err() == nil && (foreign || !connected.Load()) {
			return false, nil
		}
		return false, noAnswer(base, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	switch {
	case err != nil:
		return false, noAnswer(base, err)
	case resp.StatusCode == http.StatusBadRequest && string(body) == wantsTLS:
		return false, noAnswer(base, errors.New("it wants TLS"))
	}
	var s Status
	err = json.Unmarshal(body, &s)
	return err == nil && resp.StatusCode == http.StatusOK && s.Service == service, nil
}

// isBroken reports whether err is that of a connection, and not of what came over it.
func isBroken(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func noAnswer(base string, err error) error {
	return mainstem.Errorf(mainstem.KindUnavailable, "probe "+redact.Address(base), "something listens there and does not answer: %w", err)
}
