package kv

import (
	"context"

	view "github.com/mainstemdev/mainstem/kv"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// A table of a log, and the view on it.
type (
	logTable = table[view.PutOption, view.ValueOption, view.DeleteOption]
	logView  = viewStore[view.PutOption, view.ValueOption, view.DeleteOption]
)

// mainstemLogs are the kv view on every engine.
func mainstemLogs() []kv.Factory {
	var all []kv.Factory
	for _, e := range engines.All() {
		f := kv.Factory{
			Name: e.Name, Durability: e.Durability, Transport: e.Transport, Address: e.Address, Note: e.Note, Skip: e.Skip,
			Open: func(ctx context.Context, env *suite.Env, dir string) (kv.Store, error) {
				log, err := e.Open(ctx, env, dir)
				if err != nil {
					return nil, err
				}
				return &logView{
					open: func(name string) (logTable, error) {
						b, err := view.Open[[]byte](log, name, nil)
						if err != nil {
							return logTable{}, err
						}
						keys := func(ctx context.Context, q view.Query) ([]string, error) { return collect(b.Keys(ctx, &q)) }
						return logTable{b, keys}, nil
					},
					drop: func(ctx context.Context, table string) error {
						return view.DropTable(ctx, log, view.DefaultDatabase, table)
					},
					close: log.Close,
				}, nil
			},
		}
		if e.Server || e.Durability == suite.Fsync {
			f.ScaleKeys = slowScale
		}
		all = append(all, f)
	}
	return all
}
