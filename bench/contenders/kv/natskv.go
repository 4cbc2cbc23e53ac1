package kv

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	view "github.com/mainstemdev/mainstem/kv"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// A table of JetStream, and the view on it.
type (
	natsTable = table[natskv.WriteOption, natskv.WriteOption, natskv.WriteOption]
	natsView  = viewStore[natskv.WriteOption, natskv.WriteOption, natskv.WriteOption]
)

// natsViews is Mainstem's kv view on native JetStream buckets.
func natsViews(name string, server suite.Server, d suite.Durability) kv.Factory {
	return kv.Factory{
		Name: "mainstem-natskv-" + name, Durability: d, Transport: suite.LoopbackTCP, ScaleKeys: slowScale,
		Note: "package natskv on JetStream buckets in their native layout, without its cache",
		Open: func(ctx context.Context, env *suite.Env, dir string) (kv.Store, error) {
			conn, stop, err := peers.DialNATS(ctx, env, server, dir)
			if err != nil {
				return nil, err
			}
			store, err := natskv.OpenStore(ctx, conn, nil)
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			return &natsView{
				open: func(name string) (natsTable, error) {
					b, err := natskv.Open[[]byte](store, name, nil)
					if err != nil {
						return natsTable{}, err
					}
					keys := func(ctx context.Context, q view.Query) ([]string, error) { return collect(b.Keys(ctx, &q)) }
					return natsTable{b, keys}, nil
				},
				drop:  func(ctx context.Context, table string) error { return store.DropTable(ctx, "", table) },
				close: func() error { return errors.Join(store.Close(), stop()) },
			}, nil
		},
	}
}
