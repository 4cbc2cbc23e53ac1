package actor_test

import (
	"testing"

	contenders "github.com/mainstemdev/mainstem/bench/contenders/actor"
	"github.com/mainstemdev/mainstem/bench/suites/actor"
)

func BenchmarkSuite(b *testing.B) { actor.Run(b, contenders.Factories()...) }

func BenchmarkScale(b *testing.B) { actor.RunScale(b, contenders.Factories()...) }
