package event

import (
	"testing"

	"github.com/mainstemdev/mainstem/bench/suites/event"
)

func BenchmarkContenders(b *testing.B) { event.Run(b, Factories()...) }

func BenchmarkScale(b *testing.B) { event.RunScale(b, Factories()...) }
