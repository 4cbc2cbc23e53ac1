package alert

import (
	"testing"

	"github.com/mainstemdev/mainstem/bench/suites/alert"
)

func BenchmarkContenders(b *testing.B) { alert.Run(b, Factories()...) }

func BenchmarkScale(b *testing.B) { alert.RunScale(b, Factories()...) }
