package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/internal/budget"
)

// PrometheusPath is where Prometheus posts its alerts: with it, a Webhook stands in for
// an Alertmanager.
const PrometheusPath = "/api/v2/alerts"

// Webhook is an HTTP handler that makes the notifications of an Alertmanager alerts
// (webhook_config, version 4), and on paths that end with [PrometheusPath] what
// Prometheus itself sends to an Alertmanager. It answers when the alerts are written:
// 200, or 400 and 413 for what it does not understand, 422 if an alert was refused and the
// others are written, 503 if they could not be written in time, so that the sender tries
// again. Who may post is for the caller to check.
type Webhook struct {
	o      WebhookOptions
	w      *writer
	count  counting
	memory *budget.Budget // of requests; nil: without a limit

	memoryWait time.Duration // see memoryWait

	mu struct {
		sync.Mutex
		closed bool
	}
	running sync.WaitGroup // requests
}

// OpenWebhook returns a handler that writes to sink. Close it before the sink, and
// after the HTTP server.
func OpenWebhook(sink Sink, o *WebhookOptions) (*Webhook, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	full, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Webhook{o: full, memoryWait: memoryWait}
	if full.Memory != nil {
		h.memory = full.Memory.Child("alert requests", 0)
	}
	h.w = newWriter(sink, &h.o.ReceiverOptions, &h.count)
	return h, nil
}

// Counters returns what the webhook has done so far.
func (h *Webhook) Counters() Counters { return h.count.read() }

// Close refuses new requests, writes what those before it brought, and returns. When ctx
// is done what could not be written until then is given up, which is an error. Closing
// twice is allowed.
func (h *Webhook) Close(ctx context.Context) error {
	h.mu.Lock()
	h.mu.closed = true
	h.mu.Unlock()
	stop := context.AfterFunc(ctx, h.w.giveUp)
	defer stop()
	h.running.Wait()
	return h.w.close(ctx)
}

// ServeHTTP implements [http.Handler].
func (h *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.mu.closed {
		h.mu.Unlock()
		http.Error(w, "the receiver is closed", http.StatusServiceUnavailable)
		return
	}
	h.running.Add(1)
	h.mu.Unlock()
	defer h.running.Done()

	h.count.requests.Add(1)
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.refuse(w, http.StatusMethodNotAllowed, errors.New("want POST"))
		return
	}
	if t := r.Header.Get("Content-Type"); t != "" {
		if media, _, err := mime.ParseMediaType(t); err != nil || media != "application/json" {
			h.refuse(w, http.StatusUnsupportedMediaType, errors.New("want application/json"))
			return
		}
	}
	hold := h.memory.Hold()
	defer hold.Release()
	if err := h.reserve(r, &hold); err != nil {
		h.unavailable(w, err)
		return
	}
	now := h.o.Now()
	n, status, err := h.notification(r, now)
	if err != nil {
		h.refuse(w, status, err)
		return
	}
	if many := len(n.Alerts.list) - freeAlerts; many > 0 {
		if err := h.acquire(r, &hold, int64(many)*alertSize); err != nil {
			h.unavailable(w, err)
			return
		}
	}
	h.answer(w, r, n, now)
}

const (
	// bodyCopies is how many times its bytes a request takes: as it came, decoded, and as rows.
	bodyCopies = 5
	// freeBody is the size up to which a request is not counted.
	freeBody = 16 << 10
	// alertSize is about how many bytes an alert takes besides its text, decoded and as a row,
	// and freeAlerts how many are not counted.
	alertSize  = 4 << 10
	freeAlerts = 64
	// memoryWait is how long a request waits for memory.
	memoryWait = 10 * time.Second
)

// reserve takes memory for a request of the length that it says, or of the largest, and
// waits for it.
func (h *Webhook) reserve(r *http.Request, hold *budget.Hold) error {
	n := r.ContentLength
	if n < 0 || n > h.o.MaxBody {
		n = h.o.MaxBody
	}
	if n <= freeBody {
		return nil
	}
	return h.acquire(r, hold, bodyCopies*n)
}

// acquire takes n bytes of memory for a request, and waits for them.
func (h *Webhook) acquire(r *http.Request, hold *budget.Hold, n int64) error {
	ctx, cancel := context.WithTimeoutCause(r.Context(), h.memoryWait, fmt.Errorf("waited %v", h.memoryWait))
	defer cancel()
	return hold.Acquire(ctx, n)
}

func (h *Webhook) refuse(w http.ResponseWriter, status int, err error) {
	h.count.malformed.Add(1)
	http.Error(w, err.Error(), status)
}

// notification reads a request; an error comes with its status.
func (h *Webhook) notification(r *http.Request, now time.Time) (*notification, int, error) {
	body, err := readBody(r.Body, h.o.MaxBody)
	if err != nil {
		if errors.Is(err, errTooLong) {
			return nil, http.StatusRequestEntityTooLarge, err
		}
		return nil, http.StatusBadRequest, err
	}
	h.count.bytes.Add(int64(len(body)))
	decode := decodeNotification
	if strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), PrometheusPath) {
		decode = decodeAlerts
	}
	n, err := decode(body, h.o.MaxAlerts, now)
	switch {
	case errors.Is(err, errTooMany):
		return nil, http.StatusRequestEntityTooLarge, err
	case err != nil:
		return nil, http.StatusBadRequest, err
	}
	return n, 0, nil
}

// answer writes the alerts and says what became of them.
func (h *Webhook) answer(w http.ResponseWriter, r *http.Request, n *notification, now time.Time) {
	alerts := len(n.Alerts.list)
	h.count.received.Add(int64(alerts))
	written, rows := make(chan error, alerts), 0
	var bad error
	for i := range alerts {
		d, err := h.draft(n, i, now, r.RemoteAddr)
		if d == nil {
			bad = cmp.Or(err, bad)
			continue
		}
		if err := h.w.put(r.Context(), d, func(err error) { written <- err }); err != nil {
			h.count.overflow.Add(int64(alerts - i))
			h.unavailable(w, err)
			return
		}
		rows++
	}
	for range rows {
		select {
		case err := <-written:
			switch {
			case misplaced(err):
				bad = err
			case err != nil:
				h.unavailable(w, err)
				return
			}
		case <-r.Context().Done():
			h.unavailable(w, context.Cause(r.Context()))
			return
		}
	}
	if bad != nil {
		http.Error(w, "some alerts were not written: "+bad.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// draft makes the i-th alert a row; nil if it becomes none, with an error unless a rule drops it.
func (h *Webhook) draft(n *notification, i int, now time.Time, peer string) (*draft, error) {
	if err := n.Alerts.list[i].check(); err != nil {
		h.count.unmapped.Add(1)
		return nil, fmt.Errorf("alert %d: %w", i+1, err)
	}
	e := n.event(i, now)
	e.Peer, e.Sequence = peer, h.count.next()
	d, err := h.o.Mapping.draft(e)
	switch {
	case err != nil:
		h.count.unmapped.Add(1)
	case d == nil:
		h.count.dropped.Add(1)
	}
	return d, err
}

func (h *Webhook) unavailable(w http.ResponseWriter, err error) {
	h.count.abandoned.Add(1)
	w.Header().Set("Retry-After", "5")
	http.Error(w, "the alerts are not written yet: "+err.Error(), http.StatusServiceUnavailable)
}
