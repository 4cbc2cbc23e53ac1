package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/command"
)

// maxBody bounds a command.
const maxBody = 64 << 10

// Handler serves the shop:
//
//	POST /commands/PlaceOrder  the command as JSON; header Idempotency-Key
//	GET  /customers/ann/orders?since=POSITION
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /commands/{type}", s.dispatch)
	mux.HandleFunc("GET /customers/{customer}/orders", s.list)
	return mux
}

// decode returns the command of a request. Its ID is the Idempotency-Key.
func decode(w http.ResponseWriter, r *http.Request) (command.Command, error) {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	body.DisallowUnknownFields()
	base := command.Base{CommandID: r.Header.Get("Idempotency-Key")}
	switch r.PathValue("type") {
	case "PlaceOrder":
		var c PlaceOrder
		err := body.Decode(&c)
		c.Base = base
		return c, err
	case "PayOrder":
		var c PayOrder
		err := body.Decode(&c)
		c.Base = base
		return c, err
	case "ShipOrder":
		var c ShipOrder
		err := body.Decode(&c)
		c.Base = base
		return c, err
	case "CancelOrder":
		var c CancelOrder
		err := body.Decode(&c)
		c.Base = base
		return c, err
	}
	return nil, &command.HandlerNotFoundError{Type: r.PathValue("type")}
}

func (s *Shop) dispatch(w http.ResponseWriter, r *http.Request) {
	cmd, err := decode(w, r)
	var missing *command.HandlerNotFoundError
	if err != nil && !errors.As(err, &missing) {
		err = command.Invalid("body", "%v", err)
	}
	var result command.Result
	if err == nil {
		result, err = s.bus.Dispatch(r.Context(), cmd)
	}
	reply(w, result, err)
}

func (s *Shop) list(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.ParseUint("0"+r.FormValue("since"), 10, 64)
	if err != nil {
		err = command.Invalid("since", "%q is not a position", r.FormValue("since"))
	}
	var orders []Summary
	if err == nil {
		orders, err = s.Open(r.Context(), r.PathValue("customer"), mainstem.Position(since))
	}
	reply(w, orders, err)
}

// reply writes a result or an error as JSON.
func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(statusOf(err))
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

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
