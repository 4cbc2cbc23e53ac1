package enginetest_test

import (
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

func TestModel(t *testing.T) {
	f := enginetest.All()
	f.Clock = enginetest.NewClock()
	f.Reopen = func(_ *testing.T, log mainstem.Log) mainstem.Log { return log.(*model.Log).Reopen() }
	f.Limits = mainstem.Limits{MaxValue: 1 << 20, MaxBatchBytes: 4 << 20, MaxBatchWrites: 2000}
	enginetest.Run(t, f, func(t *testing.T) mainstem.Log {
		return model.New(&model.Options{Now: f.Clock.Now, Limits: f.Limits})
	})
}
