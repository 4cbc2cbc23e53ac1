package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/command"
)

// maxBody is the maximum size of a command in bytes.
const maxBody = 64 << 10

// Handler returns the HTTP handler of the shop:
//
//	POST /commands/PlaceOrder  the command as JSON; header Idempotency-Key
//	GET  /customers/ann/orders
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /commands/{type}", s.dispatch)
	mux.HandleFunc("GET /customers/{customer}/orders", s.list)
	return mux
}

// decoders decode the commands, by type.
var decoders = map[string]func(body io.Reader, id string) (command.Command, error){
	"PlaceOrder": decode[PlaceOrder], "PayOrder": decode[PayOrder], "ShipOrder": decode[ShipOrder], "CancelOrder": decode[CancelOrder],
}

// decode decodes a command from JSON and sets its CommandID.
func decode[C command.Command, P interface {
	*C
	identify(id string)
}](body io.Reader, id string) (command.Command, error) {
	var c C
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, command.Invalid("body", "%v", err)
	}
	P(&c).identify(id)
	return c, nil
}

// dispatch handles the command of a request. Its CommandID is the Idempotency-Key.
func (s *Shop) dispatch(w http.ResponseWriter, r *http.Request) {
	typ := r.PathValue("type")
	decode := decoders[typ]
	if decode == nil {
		reply(w, nil, &command.HandlerNotFoundError{Type: typ})
		return
	}
	cmd, err := decode(http.MaxBytesReader(w, r.Body, maxBody), r.Header.Get("Idempotency-Key"))
	var result command.Result
	if err == nil {
		result, err = s.bus.Dispatch(r.Context(), cmd)
	}
	reply(w, result, err)
}

// list returns the open orders of a customer.
func (s *Shop) list(w http.ResponseWriter, r *http.Request) {
	orders, err := s.Open(r.Context(), r.PathValue("customer"))
	reply(w, orders, err)
}

// reply writes a result or an error as JSON.
func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(statusOf(err))
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	switch {
	case errors.Is(err, mainstem.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, mainstem.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, ErrTwice), errors.Is(err, ErrNotPlaced), errors.Is(err, ErrNotPaid), errors.Is(err, ErrAmount), errors.Is(err, ErrSoldOut):
		return http.StatusConflict
	case errors.Is(err, mainstem.ErrUnavailable), errors.Is(err, mainstem.ErrConflict), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
