package coord_test

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestCatalog(t *testing.T) {
	ctx := t.Context()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c, err := topic.Open(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	orders, err := c.Create(ctx, "orders", topic.Spec{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	topics := coord.Catalog(c)
	want := func(how string, got coord.Topic, err error) {
		t.Helper()
		if err != nil || got.Name != "orders" || got.ID != orders.ID() || got.Partitions != 3 {
			t.Errorf("%s: %+v, %v: want the topic orders", how, got, err)
		}
	}
	got, err := topics.Topic(ctx, "orders")
	want("by name", got, err)
	got, err = topics.ByID(ctx, orders.ID())
	want("by ID", got, err)
	all, err := topics.All(ctx)
	if len(all) != 1 {
		t.Fatalf("%d topics, %v: want 1", len(all), err)
	}
	want("all", all[0], err)
	if _, err := topics.Topic(ctx, "bills"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a topic that does not exist: %v, want %v", err, mainstem.ErrNotFound)
	}
}
