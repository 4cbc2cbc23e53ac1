package remotelog_test

import (
	"testing"
	"fmt"
	"context"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

func TestSmoke(t *testing.T) {
	for _, o := range []*remotelog.Options{nil, {HTTP1: true, JSON: true}, {Protocol: remotelog.GRPC}, {Protocol: remotelog.GRPCWeb}} {
	log := open(t, serve(t, model.New(nil), nil).URL, o)
	ctx := context.Background()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte("a"), []byte("1"))
	b.Put("s", []byte("b"), []byte{})
	b.Put("s", []byte("c"), nil)
	r, err := log.Commit(ctx, b)
	fmt.Println(r, err)
	for rec, err := range log.Scan(ctx, "s", mainstem.Range{}) {
		fmt.Println(rec, err)
	}
	fmt.Println(log.Get(ctx, "s", []byte("x")))
	n := 0
	for rec, err := range log.Feed(ctx, mainstem.Filter{Follow: true}) {
		fmt.Println(rec, err)
		if n++; n == 3 {break}
	}
	fmt.Println(log.Info(ctx))
	}
}
