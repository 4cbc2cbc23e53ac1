package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The commands of the guide, in its order.
func Example() {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	for _, command := range []string{
		"restock tea 10", "place 1 tea 4", "place 1 tea 4", "place 2 tea 7", "sold",
	} {
		if err := run(context.Background(), log, os.Stdout, strings.Fields(command)...); err != nil {
			fmt.Println(command+":", err)
		}
	}
	// Output:
	// tea 10
	// place 1 tea 4: order 1: placed before
	// place 2 tea 7: sold out: 6 of tea are left
	// tea 4
}

// openShop returns a shop with a stock of tea on a log in memory.
func openShop(t *testing.T, stock int) *Shop {
	t.Helper()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	shop, err := Open(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shop.Close() })
	if _, err := shop.stock.Put(t.Context(), "tea", stock); err != nil {
		t.Fatal(err)
	}
	return shop
}

// Orders that compete for the stock sell all of it and no more, each with its event and
// its parcel.
func TestOrdersCompete(t *testing.T) {
	const stock, customers = 20, 30
	shop := openShop(t, stock)
	var wg sync.WaitGroup
	errs := make([]error, customers)
	for i := range customers {
		wg.Go(func() { errs[i] = shop.Place(t.Context(), fmt.Sprint(i), Order{"tea", 1}) })
	}
	wg.Wait()
	soldOut := 0
	for _, err := range errs {
		switch {
		case errors.Is(err, ErrSoldOut):
			soldOut++
		case err != nil:
			t.Error(err)
		}
	}
	for i, first := range errs { // who does not know what became of a call makes it again
		want := ErrPlaced
		if first != nil {
			want = ErrSoldOut
		}
		if err := shop.Place(t.Context(), fmt.Sprint(i), Order{"tea", 1}); !errors.Is(err, want) {
			t.Errorf("order %d again: %v, want %v", i, err, want)
		}
	}
	left, err := shop.stock.Get(t.Context(), "tea")
	streams, countErr := shop.orders.CountStreams(t.Context(), &event.ListOptions{Category: "order"})
	if err := errors.Join(err, countErr); err != nil {
		t.Fatal(err)
	}
	parcels := 0
	for _, err := range shop.parcels.Consume(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		parcels++
	}
	if soldOut != customers-stock || left.Value != 0 || streams != stock || parcels != stock {
		t.Errorf("sold out for %d, %d left, %d orders, %d parcels; want %d, 0, %d, %d",
			soldOut, left.Value, streams, parcels, customers-stock, stock, stock)
	}
}

// The projection goes on where it was, and counts no order twice.
func TestSoldGoesOn(t *testing.T) {
	shop := openShop(t, 100)
	for i := range 3 {
		if err := shop.Place(t.Context(), fmt.Sprint(i), Order{"tea", 2}); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := printSold(t.Context(), shop, &out); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("tea %d\n", 2*(i+1)); out.String() != want {
			t.Errorf("after order %d: %q, want %q", i, out.String(), want)
		}
	}
}

// An order that cannot be placed leaves nothing behind.
func TestRefusedOrders(t *testing.T) {
	shop := openShop(t, 5)
	for _, o := range []Order{{"tea", 0}, {"tea", 6}, {"coffee", 1}} {
		if err := shop.Place(t.Context(), "1", o); err == nil {
			t.Errorf("%v was placed", o)
		}
	}
	if _, err := shop.orders.StreamInfo(t.Context(), "order-1"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("the stream of a refused order: %v", err)
	}
}

// A Kafka client reads the parcels of the shop.
func TestReadParcels(t *testing.T) {
	shop := openShop(t, 100)
	topics, err := topic.Open(shop.log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	server, err := kafka.Open(t.Context(), topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown(context.WithoutCancel(t.Context()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l, nil)

	want := map[string]bool{}
	for i := range 10 {
		id := fmt.Sprint(i)
		want[id] = true
		if err := shop.Place(t.Context(), id, Order{"tea", 2}); err != nil {
			t.Fatal(err)
		}
	}
	enough := errors.New("enough")
	err = ReadParcels(t.Context(), l.Addr().String(), func(order, parcel string) error {
		if parcel != `{"item":"tea","count":2}` {
			t.Errorf("parcel of order %s: %s", order, parcel)
		}
		delete(want, order)
		if len(want) > 0 {
			return nil
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Errorf("%v; orders whose parcel did not come: %v", err, want)
	}
}

// docs/orders.md shows this program, all of it, in order.
func TestGuideShowsTheProgram(t *testing.T) {
	guide, err := os.ReadFile("../../docs/orders.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split("\n"+string(guide), "\n```") {
		if code, ok := strings.CutPrefix(part, "go\n"); ok && i%2 == 1 {
			blocks = append(blocks, code)
		}
	}
	if got := strings.Join(blocks, "\n\n") + "\n"; got != string(program) {
		t.Errorf("the Go blocks of docs/orders.md, with a blank line between them, are not main.go:\n%s", got)
	}
}
