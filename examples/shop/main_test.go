package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/eventtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client makes a new connection for each request.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// The domain is tested without a log.
func TestOrder(t *testing.T) {
	placed, paid := OrderPlaced{"ann", "tea", 2, 900}, OrderPaid{900}
	place := func(o *Order) error { return o.Place(PlaceOrder{Customer: "ann", Item: "tea", Count: 2}, 450) }
	pay := func(cents int) func(*Order) error { return func(o *Order) error { return o.Pay(cents) } }
	ship := func(o *Order) error { return o.Ship("p1") }
	cancel := func(o *Order) error { return o.Cancel("changed my mind") }

	eventtest.Given(t, new(Order)).When(place).Then(placed)
	eventtest.Given(t, new(Order), placed).When(place).ThenError(ErrTwice)
	eventtest.Given(t, new(Order), placed).When(pay(900)).Then(paid)
	eventtest.Given(t, new(Order), placed).When(pay(899)).ThenError(ErrAmount)
	eventtest.Given(t, new(Order), placed, paid).When(pay(900)).ThenError(ErrNotPlaced)
	eventtest.Given(t, new(Order), placed).When(ship).ThenError(ErrNotPaid)
	eventtest.Given(t, new(Order), placed, paid).When(ship).Then(OrderShipped{"p1"})
	eventtest.Given(t, new(Order), placed).When(cancel).Then(OrderCancelled{"changed my mind"})
	eventtest.Given(t, new(Order), placed, paid).When(cancel).ThenError(ErrNotPlaced)
}

// open returns a shop in memory that has tea.
func open(t *testing.T, left int) *Shop {
	t.Helper()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenShop(t.Context(), log, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.bus.Close(), log.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Restock(t.Context(), "tea", Article{Left: left, Cents: 450}); err != nil {
		t.Fatal(err)
	}
	return s
}

func order(id string) ForOrder { return ForOrder{Order: id} }

// The commands are tested with their commits.
func TestCommands(t *testing.T) {
	s := open(t, 10)
	bus := eventtest.GivenBus(t, s.bus, s.store, s.types)
	bus.When(PlaceOrder{ForOrder: order("1"), Customer: "ann", Item: "tea", Count: 4}).ThenID("1").ThenVersion(1).Then(OrderPlaced{"ann", "tea", 4, 1800})
	bus.When(PlaceOrder{ForOrder: order("2"), Customer: "ann", Item: "tea", Count: 7}).ThenFails(ErrSoldOut)
	bus.When(PlaceOrder{ForOrder: order("2"), Item: "tea"}).ThenFailsWith("customer: there is none").ThenFailsWith("count: 0: want 1 to 100")
	bus.When(CancelOrder{ForOrder: order("1"), Reason: "late"}).Then(OrderCancelled{"late"})
	if tea, err := s.stock.Get(t.Context(), "tea"); err != nil || tea.Value.Left != 10 {
		t.Errorf("after the order was cancelled: %+v, %v", tea.Value, err)
	}
}

// post sends a command.
func post(t *testing.T, server *httptest.Server, typ, key, body string) (int, command.Result) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/commands/"+typ, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var r command.Result
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, r
}

// The service handles two copies of each request at the same time: every order is there once, and
// the stock fits the orders.
func TestService(t *testing.T) {
	s := open(t, 25)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	var wg sync.WaitGroup
	for i := range 20 {
		for range 2 {
			wg.Go(func() {
				body := fmt.Sprintf(`{"order":"%d","customer":"ann","item":"tea","count":2}`, i)
				if status, _ := post(t, server, "PlaceOrder", fmt.Sprint("place", i), body); status != 200 && status != http.StatusConflict {
					t.Errorf("order %d: status %d", i, status)
				}
			})
		}
	}
	wg.Wait()
	tea, err := s.stock.Get(t.Context(), "tea")
	if err != nil || tea.Value.Left != 1 {
		t.Errorf("%+v, %v: want 1 left of 25", tea.Value, err)
	}
	all, err := s.Open(t.Context(), "ann")
	if err != nil || len(all) != 12 {
		t.Fatalf("%d orders, %v; want 12", len(all), err)
	}
	id := all[0].ID
	status, paid := post(t, server, "PayOrder", "pay", fmt.Sprintf(`{"order":%q,"cents":900}`, id))
	again, twice := post(t, server, "PayOrder", "pay", fmt.Sprintf(`{"order":%q,"cents":900}`, id))
	if status != 200 || again != 200 || paid.Duplicate || !twice.Duplicate || paid.Version != 2 || twice.Version != 2 {
		t.Errorf("paid: %d %+v; again: %d %+v", status, paid, again, twice)
	}
	status, _ = post(t, server, "ShipOrder", "ship", fmt.Sprintf(`{"order":%q,"parcel":"p1"}`, id))
	if status != 200 {
		t.Errorf("shipped: %d", status)
	}
	resp, err := client.Get(server.URL + "/customers/ann/orders")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var open []Summary
	if err := json.NewDecoder(resp.Body).Decode(&open); err != nil || len(open) != 11 {
		t.Errorf("%d orders are open, %v; want 11", len(open), err)
	}
	for want, request := range map[int][2]string{
		http.StatusBadRequest: {"PlaceOrder", `{"order":"x"}`},
		http.StatusNotFound:   {"Unknown", `{}`},
		http.StatusConflict:   {"ShipOrder", fmt.Sprintf(`{"order":%q}`, id)},
	} {
		if status, _ := post(t, server, request[0], "", request[1]); status != want {
			t.Errorf("%s %s: status %d, want %d", request[0], request[1], status, want)
		}
	}
	if status, _ := post(t, server, "PayOrder", "", `{"unknown":1}`); status != http.StatusBadRequest {
		t.Errorf("an unknown field: %d", status)
	}
}

// The program starts, serves, stops, and continues with its data.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for _, duplicate := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, dir, l) }()
		server := &httptest.Server{URL: "http://" + l.Addr().String()}
		status, r := post(t, server, "PlaceOrder", "k1", `{"order":"1","customer":"ann","item":"tea","count":2}`)
		if status != 200 || r.Duplicate != duplicate {
			t.Errorf("status %d, %+v; want a duplicate: %v", status, r, duplicate)
		}
		stop()
		if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}
