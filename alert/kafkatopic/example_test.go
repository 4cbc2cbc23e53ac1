package kafkatopic_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// A table of alerts, as a consumer of its topic sees it.
func Example() {
	ctx := context.Background()
	store, err := pebblelog.OpenMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	server, err := alert.Open(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Exec(ctx, "insert into service.status (Name, CurrentState) values ('web', 2)"); err != nil {
		log.Fatal(err)
	}
	topics := kafkatopic.Open(store, nil)
	defer topics.Close()
	t, err := topics.Topic(ctx, "alert.service.status")
	if err != nil {
		log.Fatal(err)
	}
	chunk, err := t.Read(ctx, 0, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	h, err := recordbatch.Parse(chunk.Data)
	if err != nil {
		log.Fatal(err)
	}
	var d recordbatch.Decoder
	for r, err := range d.Records(chunk.Data, h.FirstOffset) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", r.Key, r.Value)
	}
	// Output:
	// web {"Name":"web","CurrentState":2,"StateChange":0,"LastGoodAt":0,"LastMarginalAt":0,"LastBadAt":0,"LastReportAt":0}
}
