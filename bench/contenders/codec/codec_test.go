package codec_test

import (
	"testing"

	contenders "github.com/mainstemdev/mainstem/bench/contenders/codec"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// Every contender gives the right answers in every case, twice.
func TestContenders(t *testing.T) {
	for _, e := range contenders.Suite().Entries {
		t.Run(e.Case+"/"+e.Contender, func(t *testing.T) {
			ctx := t.Context()
			r, err := e.Start(ctx, runnertest.Env(t, nil))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if r.Prepare != nil {
					if err := r.Prepare(ctx, 3); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.Run(ctx, 3, suite.NewRecorder(1)); err != nil {
					t.Fatal(err)
				}
				if err := r.Check(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if m, err := r.Metrics(ctx); err != nil || m[0].Value < 5 {
				t.Fatal(m, err)
			}
		})
	}
}
