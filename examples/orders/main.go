// Command orders is a small order service on one log: stock in a bucket, orders in an
// event store, parcels in a topic, and one commit for all three. docs/orders.md builds
// it part by part.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/topic"
)

// Order is what a customer wants.
type Order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

// Shop is the log and the views of it that the service uses.
type Shop struct {
	log     mainstem.Log
	stock   *kv.Bucket[int] // how many of an item are left
	sold    *kv.Bucket[int] // how many of an item were sold: the projection
	orders  *event.Store
	topics  *topic.Catalog
	parcels *topic.Topic
}

// Open returns the shop in a log, which stays the caller's. Close the shop first.
func Open(ctx context.Context, log mainstem.Log) (*Shop, error) {
	stock, err := kv.Open[int](log, "shop/stock", nil)
	if err != nil {
		return nil, err
	}
	sold, err := kv.Open[int](log, "shop/sold", nil)
	if err != nil {
		return nil, err
	}
	orders, err := event.Open(log, "orders", nil)
	if err != nil {
		return nil, err
	}
	topics, err := topic.Open(log, nil)
	if err != nil {
		return nil, err
	}
	parcels, err := topics.Ensure(ctx, "parcels", topic.Spec{Partitions: 3}) // creates it at the first start
	if err != nil {
		return nil, errors.Join(err, topics.Close())
	}
	return &Shop{log, stock, sold, orders, topics, parcels}, nil
}

// Close releases the shop. The log stays open.
func (s *Shop) Close() error { return s.topics.Close() }

// Why Place refuses an order; nothing of the order is written then.
var (
	ErrPlaced  = errors.New("placed before")
	ErrSoldOut = errors.New("sold out")
)

// Place takes an order: the stock, the event and the parcel are one commit. An order that
// was placed before is ErrPlaced, so a call whose outcome is unknown can be made again.
func (s *Shop) Place(ctx context.Context, id string, o Order) error {
	if o.Count < 1 {
		return fmt.Errorf("an order of %d: want at least 1", o.Count)
	}
	placed, err := event.JSON("OrderPlaced", o)
	if err != nil {
		return err
	}
	for {
		have, err := s.stock.Get(ctx, o.Item)
		if err != nil {
			return err
		}
		if have.Value < o.Count {
			return s.refuse(ctx, id, o.Item, have.Value)
		}
		b := mainstem.NewBatch()
		s.orders.AppendTo(b, "order-"+id, event.NoStream, []event.Event{placed})
		s.stock.PutTo(b, o.Item, have.Value-o.Count, kv.IfRevision(have.Revision))
		s.parcels.PublishTo(b, topic.Record{Key: []byte(id), Value: placed.Data})
		_, err = s.log.Commit(ctx, b)
		exists := (*event.ConflictError)(nil)
		switch {
		case errors.As(err, &exists):
			return fmt.Errorf("order %s: %w", id, ErrPlaced)
		case !errors.Is(err, mainstem.ErrConflict):
			return err // nil, or the log could not write it
		}
		// Another order changed the stock since Get: look again.
	}
}

// refuse returns why there is not enough of an item. The order may be there already: an
// earlier call for it, whose answer was lost, may have taken what is missing.
func (s *Shop) refuse(ctx context.Context, id, item string, left int) error {
	_, err := s.orders.StreamInfo(ctx, "order-"+id)
	switch {
	case err == nil:
		return fmt.Errorf("order %s: %w", id, ErrPlaced)
	case errors.Is(err, mainstem.ErrNotFound):
		return fmt.Errorf("%w: %d of %s are left", ErrSoldOut, left, item)
	}
	return err
}

// CountSold keeps s.sold up to date with the orders until ctx ends or the subscription is
// closed. Each order counts once, however often the program stops.
func (s *Shop) CountSold(ctx context.Context) (*event.Subscription, error) {
	only := &event.SubscribeOptions{Filter: event.Filter{Types: []string{"OrderPlaced"}}}
	return s.orders.Subscribe(ctx, "sold", only, func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
		var o Order
		if err := json.Unmarshal(ev.Data, &o); err != nil {
			return err
		}
		before, err := s.sold.Get(ctx, o.Item)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		s.sold.PutTo(b, o.Item, before.Value+o.Count) // one commit with the checkpoint
		return nil
	})
}

// ReadParcels is the warehouse, a program of its own in any language: it reads the topic
// as a member of a consumer group of Kafka, and calls each for every parcel until each
// fails or ctx ends. It commits its offsets after the calls, so a parcel may come twice.
func ReadParcels(ctx context.Context, broker string, each func(order, parcel string) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumerGroup("warehouse"), kgo.ConsumeTopics("parcels"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			if err := each(string(r.Key), string(r.Value)); err != nil {
				return err
			}
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
}

const usage = "usage: orders restock ITEM COUNT | place ID ITEM COUNT | sold | parcels BROKER"

// run carries out one command and writes what it has to say to out.
func run(ctx context.Context, log mainstem.Log, out io.Writer, args ...string) error {
	shop, err := Open(ctx, log)
	if err != nil {
		return err
	}
	defer shop.Close()
	switch {
	case len(args) == 3 && args[0] == "restock":
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		left, err := kv.Increment(ctx, shop.stock, args[1], count)
		fmt.Fprintln(out, args[1], left)
		return err
	case len(args) == 4 && args[0] == "place":
		count, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return shop.Place(ctx, args[1], Order{args[2], count})
	case len(args) == 1 && args[0] == "sold":
		return printSold(ctx, shop, out)
	case len(args) == 2 && args[0] == "parcels":
		return ReadParcels(ctx, args[1], func(order, parcel string) error {
			_, err := fmt.Fprintln(out, order, parcel)
			return err
		})
	}
	return errors.New(usage)
}

// printSold brings the projection up to date and prints it.
func printSold(ctx context.Context, shop *Shop, out io.Writer) error {
	sub, err := shop.CountSold(ctx)
	if err != nil {
		return err
	}
	defer sub.Close()
	select {
	case <-sub.CaughtUp():
	case <-sub.Done():
		return sub.Err()
	}
	for e, err := range shop.sold.List(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, e.Key, e.Value)
	}
	return nil
}

// openLog opens a directory, or a server by its URL.
func openLog(target string) (mainstem.Log, error) {
	if strings.HasPrefix(target, "http") {
		return remotelog.Open(target, nil)
	}
	return pebblelog.Open(target, nil)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	target := os.Getenv("MAINSTEM_LOG")
	if target == "" {
		target = "http://127.0.0.1:8080" // where mainstem serve listens
	}
	log, err := openLog(target)
	if err == nil {
		err = errors.Join(run(ctx, log, os.Stdout, os.Args[1:]...), log.Close())
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}
