// Command shop is a small service: orders with stock, payment and shipping, commands over HTTP, and
// a read model for customers. One commit has the event of an order, the stock that it takes, its
// row of the read model, the idempotency record of the command and its row in the audit trail.
//
//	go run ./examples/shop -dir /tmp/shop
//	curl -d '{"order":"1","customer":"ann","item":"tea","count":2}' -H 'Idempotency-Key: k1' localhost:8080/commands/PlaceOrder
//	curl 'localhost:8080/customers/ann/orders'
//
// domain.go has the domain, which is tested without a log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

func main() {
	dir := flag.String("dir", "shop-data", "the directory of the log")
	listen := flag.String("listen", "127.0.0.1:8080", "the address to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		err = run(ctx, *dir, l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// run serves on l until ctx ends.
func run(ctx context.Context, dir string, l net.Listener) (err error) {
	defer l.Close()
	log, err := pebblelog.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	shop, err := OpenShop(ctx, log, slog.Default())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.bus.Close()) }()
	if err := shop.Restock(ctx, "tea", Article{Left: 100, Cents: 450}); err != nil {
		return err
	}
	fmt.Println("serving http://" + l.Addr().String())
	server := &http.Server{Handler: shop.Handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() { ended <- server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended // the requests under way have been answered
}
