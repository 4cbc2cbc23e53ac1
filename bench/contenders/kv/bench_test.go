package kv

import (
	"testing"

	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

func BenchmarkContenders(b *testing.B) { kv.Run(b, Factories()...) }

func BenchmarkScale(b *testing.B) { kv.RunScale(b, Factories()...) }
